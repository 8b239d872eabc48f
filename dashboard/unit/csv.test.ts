import { describe, expect, test } from "vitest";
import {
  type ConversionPlan,
  convertCsv,
  guessPlan,
  guessUnit,
  parseCsv,
  textToNs,
} from "../src/screens/ingest/csv";

function convert(text: string, changes: Partial<ConversionPlan> = {}) {
  const csv = parseCsv(text);
  return convertCsv(csv, { ...guessPlan(csv, "t"), ...changes });
}

describe("cells", () => {
  test("quotes hold delimiters, quotes and line breaks; rows know their lines", () => {
    const csv = parseCsv('\ufeffa,b\r\n"x, ""y""\nz",2\r\n\r\n3,\n');
    expect(csv.header).toEqual(["a", "b"]);
    expect(csv.rows).toEqual([
      { line: 2, cells: ['x, "y"\nz', "2"] },
      { line: 5, cells: ["3", ""] },
    ]);
  });
  test("the delimiter is the one that the first line has most of", () => {
    expect(parseCsv("a;b;c\n1,5;2;3").rows[0]?.cells).toEqual(["1,5", "2", "3"]);
    expect(parseCsv("a\tb\n1\t2").delimiter).toBe("\t");
    expect(parseCsv("one\n1").rows[0]?.cells).toEqual(["1"]);
  });
  test("a row may end with the delimiter, and the text without a line break", () => {
    expect(parseCsv("a,b\n1,").rows[0]?.cells).toEqual(["1", ""]);
  });
  test("a quote that does not end is an error with its line", () => {
    expect(() => parseCsv('a\n1\n"x')).toThrow("line 3: a quoted cell does not end");
  });
});

describe("what columns are", () => {
  test("a time, tags of few values, fields by their type", () => {
    const rows = Array.from(
      { length: 20 },
      (_, at) => `${1_700_000_000 + at},web-${at % 2},0.${at},${at},true,text ${at}`,
    );
    const plan = guessPlan(parseCsv(`ts,host,usage,cores,up,note\n${rows.join("\n")}`), "t");
    expect(plan.unit).toBe("s");
    expect(plan.columns.map(({ role, type }) => `${role} ${type}`)).toEqual([
      "time integer",
      "tag text",
      "field float",
      "field integer",
      "field boolean",
      "field text",
    ]);
  });
  test("a column of times is the time whatever its name; there is always a field", () => {
    const plan = guessPlan(parseCsv("when it was,host\n2024-05-01 12:00:00,a\n2024-05-01 12:00:01,a"), "t");
    expect(plan.columns.map(({ role }) => role)).toEqual(["time", "field"]);
    expect(plan.unit).toBe("text");
  });
  test("the unit of numbers follows from their size", () => {
    const units = ["1700000000", "1700000000000", "1700000000000000", "1700000000000000000"].map((each) =>
      guessUnit([each]),
    );
    expect(units).toEqual(["s", "ms", "us", "ns"]);
  });
});

describe("times", () => {
  test("text has a zone or is UTC, and keeps nanoseconds", () => {
    expect(textToNs("1970-01-01T00:00:01Z")).toBe(1_000_000_000n);
    expect(textToNs("1970-01-01 01:00:00.000000001+01:00")).toBe(1n);
    expect(textToNs("1970-01-02")).toBe(86_400_000_000_000n);
    expect(textToNs("1969-12-31T23:59:59.5Z")).toBe(-500_000_000n);
  });
  test("what is not a time is none", () => {
    for (const text of ["2024-02-30", "2024-13-01", "2024-01-01T25:00:00", "yesterday", "5"]) {
      expect(textToNs(text)).toBeNull();
    }
  });
});

describe("lines", () => {
  test("names and values are escaped as the parser reads them", () => {
    const columns: ConversionPlan["columns"] = [
      { name: "my tag", role: "tag", type: "text" },
      { name: "a=b", role: "field", type: "text" },
    ];
    const { text, errors } = convert('my tag,a=b\n"x,y z=1","say ""hi"" \\ there"', {
      table: "the, table",
      columns,
    });
    expect(errors).toEqual([]);
    expect(text).toBe('the\\,\\ table,my\\ tag=x\\,y\\ z\\=1 a\\=b="say \\"hi\\" \\\\ there"');
  });
  test("empty cells are left out, times become nanoseconds", () => {
    expect(convert("ts,host,v,w\n1700000000.25,a,1.5,\n1700000001,,,2").text.split("\n")).toEqual([
      "t,host=a v=1.5 1700000000250000000",
      "t w=2i 1700000001000000000",
    ]);
  });
  test("a text with line breaks takes several lines, which lead back to its row", () => {
    const { text, csvLines } = convert('ts,v,note\n1,2,"a\nb"\n2,3,c', {
      columns: [
        { name: "ts", role: "time", type: "integer" },
        { name: "v", role: "field", type: "float" },
        { name: "note", role: "field", type: "text" },
      ],
    });
    expect(text.split("\n")).toHaveLength(3);
    expect(csvLines).toEqual([2, 2, 4]);
  });
  test("rows that cannot become lines are told with line and column", () => {
    const columns: ConversionPlan["columns"] = [
      { name: "ts", role: "time", type: "integer" },
      { name: "host", role: "tag", type: "text" },
      { name: "v", role: "field", type: "integer" },
    ];
    const rows = [
      "x,a,1",
      "1,a,1.5",
      '1,"a\nb",1',
      "1,a,",
      "1,a",
      "1,a\\,1",
      "1,a,9223372036854775808",
      "9,a,7",
    ];
    const { errors, text } = convert(["ts,host,v", ...rows].join("\n"), { columns, unit: "s" });
    const places = errors.map(({ line, column }) => `${line} ${column}`);
    expect(places).toEqual(["2 ts", "3 v", "4 host", "6 ", "7 ", "8 host", "9 v"]);
    expect(errors[1]?.message).toBe('"1.5" is not a whole number');
    expect(text).toBe("t,host=a v=7i 9000000000");
  });
});
