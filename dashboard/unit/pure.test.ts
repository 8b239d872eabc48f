// The parts of the page that need no browser.
import { expect, test } from "vitest";
import { parseJson } from "../src/api/client";
import { parseValue, readSeries, seriesName } from "../src/api/prometheus";
import { quoteName, quoteText, readAnswer } from "../src/api/sql";
import { demoChunks } from "../src/demo/lines";
import { countOf, formatBytes, formatCell, formatDuration, formatValue } from "../src/parts/cells";
import { chartOfSeries, chartOfTable, SERIES_MAX } from "../src/parts/series";
import { parseDuration, parseRange, stepOf, writeRange } from "../src/parts/time-range";
import { plotQuery, plotSql, sampleSql } from "../src/screens/explore/catalog";
import { errorPlace } from "../src/screens/query/error-place";
import { addQuery } from "../src/screens/query/history";
import { fillRange, readState, writeState } from "../src/screens/query/state";

test("JSON with long numbers in texts stays as it is", () => {
  // That integers keep all their digits needs a browser: see the end-to-end tests.
  expect(parseJson('{"a":["1234567890123456789",0.1234567890123456789]}')).toEqual({
    a: ["1234567890123456789", 0.12345678901234568],
  });
});

test("answers of SQL become tables, cut at the most rows", () => {
  const records = {
    schema: { column_schemas: [{ name: "n", data_type: "Int64" }] },
    rows: [[1], [2], [3]],
  };
  const result = readAnswer({ output: [{ affectedrows: 2 }, { records }], execution_time_ms: 4 }, 2);
  expect(result.outputs[0]).toEqual({ kind: "affected", rows: 2 });
  expect(result.outputs[1]).toEqual({
    kind: "table",
    table: { columns: [{ name: "n", type: "Int64" }], rows: [[1], [2]], isCut: true },
  });
  expect(readAnswer({ execution_time_ms: 0 }, 5).outputs).toEqual([]);
});

test.each([
  [340, "340 ms"],
  [2500, "2.5 s"],
  [120_000, "2 min"],
  [200_000, "3 min 20 s"],
  [18_720_000, "5 h 12 min"],
  [259_200_000, "3 d"],
])("%d ms are a duration", (millis, text) => expect(formatDuration(millis)).toBe(text));

test("one thing is not several", () => {
  expect([0, 1, 1n, 2000].map((count) => countOf(count, "row"))).toEqual([
    "0 rows",
    "1 row",
    "1 row",
    "2,000 rows",
  ]);
});

test("names and texts are quoted", () => {
  expect(quoteName('a"b')).toBe('"a""b"');
  expect(quoteText("it's")).toBe("'it''s'");
});

test.each([
  ["select 1 +* 2", "expected an expression, found '*' at line 1, column 11", "*"],
  [
    "SELEC 1",
    "SQL statement is not supported, keyword: SELEC at line 1, column 1; did you mean SELECT?",
    "SELEC",
  ],
  ["select\n  foo bar baz", "expected the end at line 2, column 7", "bar"],
  ["select foo from", "expected identifier, found the end of the statement", "from"],
  ["select foo from bar", "Failed to plan SQL: Table not found: tsdb.public.bar", "bar"],
  ["select nope, host from t", "No field named nope. Valid fields are t.host, t.ts.", "nope"],
  ["select abc(1)", "Invalid function 'abc'. Did you mean 'abs'?", "abc"],
  ["select t.x from t", "No field named t.x. Did you mean 't.y'?", "t.x"],
  ["rate(x)", '1:6: parse error: expected type range vector in call to function "rate"', "x"],
  ["sum(label_replace(x))", "invalid regular expression in label_replace(): (", "label_replace"],
  ["x{", "1:3: parse error: unexpected end of input in label matching", "{"],
])("the error of %j is found", (text, message, wrong) => {
  const place = errorPlace(text, message);
  expect(place && text.slice(place.from, place.to)).toBe(wrong);
});

test("an error about nothing in the statement has no place", () => {
  expect(errorPlace("select 1", "the server is stopping")).toBeNull();
  expect(errorPlace("", "found the end of the statement")).toBeNull();
});

test("the state of a query survives its address", () => {
  for (const state of [
    {
      language: "sql",
      text: "SELECT 'a&b'\n#+ %",
      database: "public",
      view: "chart",
      range: { last: 3600 },
      step: null,
      isInstant: false,
    },
    {
      language: "promql",
      text: "up",
      database: "x",
      view: "table",
      range: { start: 10, end: 20 },
      step: 90,
      isInstant: true,
    },
  ] as const) {
    const address = new URLSearchParams(writeState(state)).toString();
    expect(readState(new URLSearchParams(address), "other")).toEqual(state);
  }
  expect(readState(new URLSearchParams("range=20-10&step=x"), "d")).toMatchObject({
    range: { last: 3600 },
    step: null,
    database: "d",
  });
});

test("ranges and durations", () => {
  expect(parseRange("90m")).toEqual({ last: 5400 });
  expect(parseRange("5-4")).toBeNull();
  expect(parseRange("nonsense")).toBeNull();
  expect(parseDuration("1m30s")).toBe(90);
  expect(parseDuration("0s")).toBeNull();
  expect(writeRange({ last: 86_400 })).toBe("1d");
  expect(stepOf(3600)).toBe(15);
  expect((3600 * 24 * 365 * 20) / stepOf(3600 * 24 * 365 * 20)).toBeLessThanOrEqual(250);
  expect(fillRange("ts >= $start AND ts < $end AND x = '$started'", { start: 1, end: 2.5 })).toBe(
    "ts >= to_timestamp_millis(1000) AND ts < to_timestamp_millis(2500) AND x = '$started'",
  );
});

test("the history is bounded and has each query once", () => {
  const query = (text: string, at = 0) => ({ language: "sql", text, database: "d", at }) as const;
  const past = Array.from({ length: 300 }, (_, at) => query(`q${at}`));
  const next = addQuery(past, query("q7", 9));
  expect(next).toHaveLength(200);
  expect(next[0]).toEqual(query("q7", 9));
  expect(next.filter(({ text }) => text === "q7")).toHaveLength(1);
  expect(addQuery([query("x".repeat(150_000))], query("y".repeat(150_000)))).toHaveLength(1);
});

test("cells are shown by their type", () => {
  expect(formatCell(null, "Int64")).toBe("");
  expect(formatCell(18_262, "Date")).toBe("2020-01-01");
  expect(formatCell({ a: 1 }, "Json")).toBe('{"a":1}');
  expect(formatCell(1_794_989_468_486_689_401n, "TimestampNanosecond")).toMatch(/:08\.486689401$/);
  expect(formatCell(-1, "TimestampMillisecond")).toMatch(/:59\.999$/);
  expect(formatBytes(1536)).toBe("1.5 KiB");
  expect([12_500, 3_400_000, 0.5, 0.00001, 7e9].map(formatValue)).toEqual([
    "12.5 k",
    "3.4 M",
    "0.5",
    "1.00e-5",
    "7 G",
  ]);
});

test("tables become lines: texts tell series apart, missing samples are not gaps, nulls are", () => {
  const columns = [
    { name: "ts", type: "TimestampMillisecond" },
    { name: "host", type: "String" },
    { name: "cpu", type: "Float64" },
  ];
  const rows = [
    [2000, "b", 4],
    [1000, "a", 1],
    [2000, "a", null],
  ];
  expect(chartOfTable({ columns, rows })).toEqual({
    times: [1, 2],
    series: [
      { name: "a", values: [1, null] },
      { name: "b", values: [undefined, 4] },
    ],
    dropped: 0,
  });
  expect(chartOfTable({ columns: columns.slice(1), rows: [] })).toContain("times");
  expect(chartOfTable({ columns: columns.slice(0, 2), rows: [] })).toContain("numbers");
  const many = Array.from({ length: SERIES_MAX + 5 }, (_, at) => [1000, `s${at}`, at]);
  expect(chartOfTable({ columns, rows: many })).toMatchObject({ dropped: 5 });
});

test("results of PromQL of every kind", () => {
  expect(readSeries({ resultType: "scalar", result: [1, "2"] })).toEqual([
    { metric: {}, values: [[1, "2"]] },
  ]);
  expect(readSeries({ resultType: "vector", result: [{ metric: { a: "b" }, value: [1, "NaN"] }] })).toEqual([
    { metric: { a: "b" }, values: [[1, "NaN"]] },
  ]);
  expect(parseValue("-Inf")).toBe(Number.NEGATIVE_INFINITY);
  expect(seriesName({ __name__: "up", job: 'a"b' })).toBe('up{job="a\\"b"}');
  const series = [{ metric: { __name__: "up" }, values: [[30, "1"] as [number, string]] }];
  expect(chartOfSeries(series, { start: 0, end: 60, step: 30 })).toEqual({
    times: [0, 30, 60],
    series: [{ name: "up", values: [null, 1, null] }],
    dropped: 0,
  });
});

test("statements of Explore name only what the table has", () => {
  const columns = [
    { name: 'ho"st', type: "String", role: "TAG", isNullable: true, defaultText: "" },
    { name: "ts", type: "TimestampMillisecond", role: "TIMESTAMP", isNullable: false, defaultText: "" },
    { name: "v", type: "Float64", role: "FIELD", isNullable: true, defaultText: "" },
  ];
  expect(sampleSql("t", columns)).toBe('SELECT * FROM "t" ORDER BY "ts" DESC LIMIT 100');
  expect(sampleSql("t", columns.slice(0, 1))).toBe('SELECT * FROM "t" LIMIT 100');
  expect(plotSql("t", columns, "v")).toBe(
    'SELECT "ts", "ho""st", "v" FROM "t" ORDER BY "ts" DESC LIMIT 10000',
  );
  expect(plotSql("t", columns.slice(0, 1), "v")).toBeNull();
  expect(plotQuery("x_total")).toBe("rate(x_total[5m])");
  expect(plotQuery("sys.cpu")).toBe('{__name__="sys.cpu"}');
});

test("demo data is the same each time, and counters only grow", () => {
  const chunks = [...demoChunks(1_794_989_475)];
  expect(chunks).toEqual([...demoChunks(1_794_989_479)]);
  const lines = chunks.join("\n").split("\n");
  expect(lines.every((line) => /^\w+,[\w=,:.+-]+ \S.* \d{13}$/.test(line))).toBe(true);
  const totals = lines
    .filter((line) =>
      line.startsWith("http_requests_total,instance=host-1:9100,job=web,method=GET,code=200 "),
    )
    .map((line) => Number(/tsdb_value=(\d+)/.exec(line)?.[1]));
  expect(totals.length).toBeGreaterThan(300);
  expect(totals.every((total, at) => at === 0 || total >= (totals[at - 1] ?? 0))).toBe(true);
});
