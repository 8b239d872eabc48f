import { describe, expect, test } from "vitest";
import type { Table } from "../src/api/sql";
import {
  conditionsOf,
  type LogRow,
  loadPage,
  mergeTail,
  msFromTicks,
  newRows,
  type Search,
  selectSql,
  tailSearch,
  ticksFromMs,
  ticksOf,
  timeLiteral,
} from "../src/screens/logs/search";
import { askedFrom, stateOf } from "../src/screens/logs/state";
import { findLogTables, levelColumn, severityOf } from "../src/screens/logs/tables";

const column = (table: string, name: string, type: string, semantic: string) => ({
  table_name: table,
  column_name: name,
  data_type: type,
  semantic_type: semantic,
});

const COLUMNS = [
  column("app", "host", "string", "TAG"),
  column("app", "level", "string", "FIELD"),
  column("app", "payload", "string", "FIELD"),
  column("app", "ts", "timestamp(3)", "TIMESTAMP"),
  column("cpu", "ts", "timestamp(3)", "TIMESTAMP"),
  column("cpu", "v", "double", "FIELD"),
  column("notes", "ts", "timestamp(9)", "TIMESTAMP"),
  column("notes", "remark", "string", "FIELD"),
  column("otel", "timestamp", "timestamp(9)", "TIMESTAMP"),
  column("otel", "body", "string", "FIELD"),
  column("otel", "severity_text", "string", "FIELD"),
];
const TABLES = findLogTables(COLUMNS, new Set(["app\0payload"]));
const APP = TABLES.find(({ name }) => name === "app");
if (!APP) throw new Error("no table");
const SEARCH: Search = {
  table: APP,
  message: "payload",
  text: "",
  mode: "words",
  filters: [],
  from: null,
  to: null,
};

describe("tables", () => {
  test("those with a full-text index or a column that is called a message come first", () => {
    expect(TABLES.map(({ name, message, isLog }) => `${name} ${message} ${isLog}`)).toEqual([
      "app payload true",
      "otel body true",
      "notes remark false",
    ]);
  });
  test("levels are found and coloured", () => {
    expect(TABLES.map(levelColumn)).toEqual(["level", "severity_text", undefined]);
    expect(["ERROR", "Warning", "info", "debug", null].map(severityOf)).toEqual([
      "bad",
      "warn",
      "good",
      "",
      "",
    ]);
  });
});

describe("times", () => {
  test("ticks and their literals keep every digit", () => {
    const types = ["timestamp(0)", "timestamp(3)", "timestamp(9)"];
    expect(types.map(ticksOf)).toEqual([1n, 1000n, 1_000_000_000n]);
    expect(timeLiteral(1_700_000_000_123_456_789n, 1_000_000_000n)).toBe("2023-11-14T22:13:20.123456789Z");
    expect(timeLiteral(1_700_000_000n, 1n)).toBe("2023-11-14T22:13:20Z");
    expect(timeLiteral(-1n, 1000n)).toBe("1969-12-31T23:59:59.999Z");
    expect(msFromTicks(ticksFromMs(1500, 1_000_000n), 1_000_000n)).toBe(1500);
  });
});

describe("statements", () => {
  test("texts are quoted, wildcards are taken as they are", () => {
    expect(conditionsOf({ ...SEARCH, text: "it's", mode: "words" })).toEqual([`matches("payload", 'it''s')`]);
    expect(conditionsOf({ ...SEARCH, text: "a_%", mode: "part" })).toEqual([`"payload" LIKE '%a\\_\\%%'`]);
    expect(conditionsOf({ ...SEARCH, text: "  " })).toEqual([]);
  });
  test("fields, their absence, and the newest first", () => {
    const filters = [
      { column: "host", value: "a", isNot: false },
      { column: "level", value: "x", isNot: true },
      { column: "level", value: null, isNot: true },
    ];
    expect(selectSql({ ...SEARCH, filters, from: 0n }, 5)).toBe(
      `SELECT "host", "level", "payload", "ts" FROM "app" WHERE "ts" >= '1970-01-01T00:00:00.000Z' AND "host" = 'a' ` +
        `AND ("level" <> 'x' OR "level" IS NULL) AND "level" IS NOT NULL ORDER BY "ts" DESC LIMIT 5`,
    );
  });
});

/** A table of times that answers the statements of pages. */
function answerFrom(times: number[]) {
  return async (sql: string): Promise<Table> => {
    const bound = (pattern: RegExp) => {
      const found = pattern.exec(sql)?.[1];
      return found === undefined ? undefined : Date.parse(found);
    };
    const from = bound(/>= '([^']+)'/) ?? Number.NEGATIVE_INFINITY;
    const to = bound(/< '([^']+)'/) ?? Number.POSITIVE_INFINITY;
    const limit = Number(/LIMIT (\d+)/.exec(sql)?.[1]);
    const found = times.filter((time) => time >= from && time < to).sort((left, right) => right - left);
    return {
      columns: [],
      rows: found.slice(0, limit).map((time): LogRow => ["h", "info", "m", time]),
      isCut: false,
    };
  };
}

test("pages have every row once, also where many have one time", async () => {
  const times = [1, 2, 2, 2, 3, 4, 4, 5, 5, 5, 5, 5, 5, 6];
  const seen: number[] = [];
  let before: bigint | null = null;
  do {
    const page = await loadPage({ ...SEARCH, to: before }, answerFrom(times), 4);
    seen.push(...page.rows.map((row) => Number(row[3])));
    before = page.before;
    expect(page.isOverfull).toBe(false);
  } while (before !== null);
  expect(seen).toEqual(times.toReversed());
});

test("the tail takes late rows and shows none twice", () => {
  const row = (time: number, message: string): LogRow => ["h", "info", message, time];
  const shown = [row(10_000, "b"), row(9000, "a"), row(9000, "a")];
  expect(tailSearch(SEARCH, shown, 0).from).toBe(5000n);
  expect(tailSearch({ ...SEARCH, from: 8000n, to: 9n }, shown, 0)).toMatchObject({ from: 8000n, to: null });
  expect(tailSearch(SEARCH, [], 20_000).from).toBe(15_000n);
  const found = [
    row(11_000, "c"),
    row(10_000, "b"),
    row(9500, "late"),
    row(9000, "a"),
    row(9000, "a"),
    row(9000, "a"),
  ];
  const added = newRows(found, shown);
  expect(added.map((each) => each[2])).toEqual(["c", "late", "a"]);
  expect(mergeTail(shown, added, 3).map((each) => each[2])).toEqual(["c", "b", "late", "a", "a", "a"]);
});

test("what is asked for survives in the address", () => {
  const asked = {
    table: "app",
    message: "level",
    text: "a b",
    mode: "term" as const,
    range: { start: 1_700_000_000, end: 1_700_003_600 },
    filters: [
      { column: "host", value: "a&b", isNot: true },
      { column: "host", value: 2n ** 60n, isNot: false },
    ],
  };
  expect(askedFrom(new URLSearchParams(stateOf(asked)), TABLES)).toEqual(asked);
  expect(askedFrom(new URLSearchParams(stateOf({ ...asked, range: null })), TABLES).range).toBeNull();
  const wild = askedFrom(new URLSearchParams("table=gone&message=ts&mode=x&filters=[[&range=1h"), TABLES);
  expect(wild).toMatchObject({
    table: "app",
    message: "payload",
    mode: "words",
    filters: [],
    range: { last: 3600 },
  });
});
