// CSV as the page takes it: cells, what the columns probably are, and the lines of line protocol they become.
//
// - Cells follow RFC 4180: quotes, doubled quotes, line breaks inside quotes. The delimiter is found in the first line.
// - A line of the result knows the line of the CSV it comes from, so that what a dry run says can be shown there.
// - A row that cannot become a line is an error with line and column; nothing is guessed or rounded.

export type Role = "time" | "tag" | "field" | "skip";
export type FieldType = "float" | "integer" | "boolean" | "text";
export type TimeUnit = "s" | "ms" | "us" | "ns" | "text";

export interface CsvRow {
  /** The line of the text that the row begins in, from 1. */
  line: number;
  cells: string[];
}

export interface Csv {
  delimiter: string;
  header: string[];
  rows: CsvRow[];
}

export interface ColumnPlan {
  name: string;
  role: Role;
  type: FieldType;
}

export interface ConversionPlan {
  table: string;
  columns: ColumnPlan[];
  /** What times are: numbers of a unit, or text as in ISO 8601; without a zone, in UTC. */
  unit: TimeUnit;
}

export interface CsvError {
  line: number;
  column: string;
  message: string;
}

export interface Conversion {
  /** Line protocol, times in nanoseconds. */
  text: string;
  /** For each line of `text` the line of the CSV. */
  csvLines: number[];
  errors: CsvError[];
}

const DELIMITERS = [",", ";", "\t", "|"];
const SAMPLE_ROWS = 1000;
const NS_OF: Record<Exclude<TimeUnit, "text">, bigint> = {
  s: 1_000_000_000n,
  ms: 1_000_000n,
  us: 1000n,
  ns: 1n,
};

/** Split a text into rows; the first is the header. Throws with the line if a quote does not end. */
export function parseCsv(text: string): Csv {
  const source = text.startsWith("\ufeff") ? text.slice(1) : text;
  const delimiter = findDelimiter(source);
  const rows = splitRows(source, delimiter);
  const header = rows.shift()?.cells.map((name) => name.trim()) ?? [];
  return { delimiter, header, rows };
}

function findDelimiter(text: string): string {
  const first = text.slice(0, text.search(/\r?\n|$/));
  const counts = DELIMITERS.map((each) => first.split(each).length);
  return DELIMITERS[counts.indexOf(Math.max(...counts))] ?? ",";
}

function splitRows(text: string, delimiter: string): CsvRow[] {
  const rows: CsvRow[] = [];
  let cells: string[] = [];
  let at = 0;
  let line = 1;
  let began = 1;
  const endRow = () => {
    if (cells.length > 1 || cells[0] !== "") rows.push({ line: began, cells });
    cells = [];
  };
  while (at < text.length) {
    if (cells.length === 0) began = line;
    if (text[at] === '"') {
      const cell = readQuoted(text, at, line);
      cells.push(cell.text);
      at = cell.end;
      line += cell.breaks;
    } else {
      const end = endOfCell(text, at, delimiter);
      cells.push(text.slice(at, end));
      at = end;
    }
    if (at >= text.length) break;
    if (text[at] === delimiter) {
      at += 1;
      if (at === text.length) cells.push("");
      continue;
    }
    at += text.startsWith("\r\n", at) ? 2 : 1;
    line += 1;
    endRow();
  }
  if (cells.length > 0) endRow();
  return rows;
}

function endOfCell(text: string, from: number, delimiter: string): number {
  let at = from;
  while (at < text.length && text[at] !== delimiter && text[at] !== "\n" && !text.startsWith("\r\n", at))
    at += 1;
  return at;
}

function readQuoted(text: string, from: number, line: number): { text: string; end: number; breaks: number } {
  let at = from + 1;
  let found = "";
  for (;;) {
    const quote = text.indexOf('"', at);
    if (quote < 0) throw new Error(`line ${line}: a quoted cell does not end`);
    found += text.slice(at, quote);
    at = quote + 1;
    if (text[at] !== '"') break;
    found += '"';
    at += 1;
  }
  return { text: found, end: at, breaks: found.split("\n").length - 1 };
}

const TIME_NAMES = /^(ts|time|timestamp|date|datetime|_time|at|created_at|tsdb_timestamp)$/i;
const TAG_NAMES =
  /(^|_)(host|hostname|name|id|region|zone|dc|device|sensor|type|tag|job|instance|level|symbol)$/i;

/** Guess what columns are. A column of text with few different values is a tag, numbers are fields. */
export function guessPlan(csv: Csv, table: string): ConversionPlan {
  const sample = csv.rows.slice(0, SAMPLE_ROWS);
  const values = csv.header.map((_, at) =>
    sample.map(({ cells }) => cells[at] ?? "").filter((cell) => cell !== ""),
  );
  const types = values.map(guessType);
  let time = csv.header.findIndex((name) => TIME_NAMES.test(name));
  if (time < 0)
    time = values.findIndex((cells) => cells.length > 0 && cells.every((cell) => textToNs(cell) !== null));
  const columns = csv.header.map((name, at): ColumnPlan => {
    const type = types[at] ?? "text";
    return { name, role: at === time ? "time" : guessRole(name, type, values[at] ?? []), type };
  });
  if (!columns.some(({ role }) => role === "field")) {
    const last = columns.findLast(({ role }) => role === "tag");
    if (last) last.role = "field";
  }
  return { table, columns, unit: guessUnit(values[time] ?? []) };
}

function guessRole(name: string, type: FieldType, cells: string[]): Role {
  if (cells.length === 0) return "skip";
  if (type !== "text") return TAG_NAMES.test(name) && type === "integer" ? "tag" : "field";
  const different = new Set(cells).size;
  return TAG_NAMES.test(name) || different <= Math.max(1, cells.length / 4) ? "tag" : "field";
}

function guessType(cells: string[]): FieldType {
  if (cells.length === 0) return "float";
  if (cells.every((cell) => isInteger(cell))) return "integer";
  if (cells.every((cell) => isNumber(cell))) return "float";
  return cells.every((cell) => booleanOf(cell) !== null) ? "boolean" : "text";
}

/** The unit of numbers by their magnitude: each reaches from 1970 to 2128. */
export function guessUnit(cells: string[]): TimeUnit {
  if (!cells.every((cell) => /^-?\d+(\.\d+)?$/.test(cell.trim()))) return "text";
  const largest = cells.reduce((most, cell) => Math.max(most, Math.abs(Number(cell))), 0);
  if (largest < 5e9) return "s";
  if (largest < 5e12) return "ms";
  return largest < 5e15 ? "us" : "ns";
}

function isInteger(cell: string): boolean {
  if (!/^[-+]?\d{1,19}$/.test(cell)) return false;
  const value = BigInt(cell.replace(/^\+/, ""));
  return value >= -(2n ** 63n) && value < 2n ** 63n;
}

function isNumber(cell: string): boolean {
  return /^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$/.test(cell) && Number.isFinite(Number(cell));
}

function booleanOf(cell: string): boolean | null {
  const text = cell.toLowerCase();
  if (text === "true" || text === "t" || text === "yes") return true;
  return text === "false" || text === "f" || text === "no" ? false : null;
}

const ISO =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?)?\s*(Z|UTC|[-+]\d\d:?\d\d)?$/i;

/** Nanoseconds since 1970 of a time like 2024-05-01T12:00:00.5+02:00; null if it is none. Without a zone it is UTC. */
export function textToNs(text: string): bigint | null {
  const found = ISO.exec(text.trim());
  if (!found) return null;
  const [, year, month, day, hour = "0", minute = "0", second = "0", fraction = "", zone = ""] = found;
  const parts = [year, month, day, hour, minute, second].map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const ms = Date.UTC(parts[0], parts[1] - 1, parts[2], parts[3], parts[4], parts[5]);
  const date = new Date(ms);
  const isReal =
    date.getUTCMonth() + 1 === parts[1] &&
    date.getUTCDate() === parts[2] &&
    parts[3] < 24 &&
    parts[4] < 60 &&
    parts[5] < 60;
  if (!isReal) return null;
  const offset = /^([-+])(\d\d):?(\d\d)$/.exec(zone);
  const shift = offset
    ? (Number(offset[2]) * 60 + Number(offset[3])) * (offset[1] === "-" ? -60_000 : 60_000)
    : 0;
  return BigInt(ms - shift) * 1_000_000n + BigInt(fraction.padEnd(9, "0"));
}

function numberToNs(text: string, unit: Exclude<TimeUnit, "text">): bigint | null {
  const found = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text.trim());
  if (!found) return null;
  const [, sign, whole = "0", fraction = ""] = found;
  const digits = String(NS_OF[unit]).length - 1;
  const ns = BigInt(whole) * NS_OF[unit] + BigInt(fraction.slice(0, digits).padEnd(digits, "0") || "0");
  return sign ? -ns : ns;
}

/** Make line protocol of all rows. */
export function convertCsv(csv: Csv, plan: ConversionPlan): Conversion {
  const lines: string[] = [];
  const csvLines: number[] = [];
  const errors: CsvError[] = [];
  for (const row of csv.rows) {
    const made = convertRow(row, csv, plan);
    if (typeof made !== "string") {
      errors.push(made);
      continue;
    }
    // A text with line breaks takes several lines.
    for (const piece of made.split("\n")) {
      lines.push(piece);
      csvLines.push(row.line);
    }
  }
  return { text: lines.join("\n"), csvLines, errors };
}

function convertRow(row: CsvRow, csv: Csv, plan: ConversionPlan): string | CsvError {
  const refuse = (column: string, message: string): CsvError => ({ line: row.line, column, message });
  if (row.cells.length !== csv.header.length) {
    return refuse("", `${row.cells.length} cells, but the header has ${csv.header.length}`);
  }
  if (plan.table.startsWith("#")) return refuse("", "a table of line protocol cannot begin with #");
  let tags = "";
  let time = "";
  const fields: string[] = [];
  for (const [at, column] of plan.columns.entries()) {
    const cell = row.cells[at] ?? "";
    if (column.role === "skip" || cell === "") continue;
    if (column.role === "time") {
      const ns = plan.unit === "text" ? textToNs(cell) : numberToNs(cell, plan.unit);
      if (ns === null)
        return refuse(column.name, `${JSON.stringify(cell)} is not a time ${describeUnit(plan.unit)}`);
      time = ` ${ns}`;
    } else if (column.role === "tag") {
      if (/[\n\r]/.test(cell)) return refuse(column.name, "a tag cannot have a line break");
      if (cell.endsWith("\\"))
        return refuse(column.name, "a tag cannot end with a backslash in line protocol");
      tags += `,${escapeKey(column.name)}=${escapeKey(cell)}`;
    } else {
      const value = fieldValue(cell, column.type);
      if (value === null)
        return refuse(column.name, `${JSON.stringify(cell)} is not ${describeType(column.type)}`);
      fields.push(`${escapeKey(column.name)}=${value}`);
    }
  }
  if (fields.length === 0) return refuse("", "no field has a value");
  return `${escapeTable(plan.table)}${tags} ${fields.join(",")}${time}`;
}

function fieldValue(cell: string, type: FieldType): string | null {
  switch (type) {
    case "integer":
      return isInteger(cell) ? `${cell.replace(/^\+/, "")}i` : null;
    case "float":
      return isNumber(cell) ? cell.replace(/^\+/, "") : null;
    case "boolean": {
      const value = booleanOf(cell);
      return value === null ? null : String(value);
    }
    case "text":
      return `"${cell.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
  }
}

function describeType(type: FieldType): string {
  return { integer: "a whole number", float: "a number", boolean: "true or false", text: "a text" }[type];
}

function describeUnit(unit: TimeUnit): string {
  return unit === "text" ? "like 2024-05-01T12:00:00Z" : `in ${unit}`;
}

// A backslash in a name or a tag is itself, except before what it escapes.
function escapeKey(text: string): string {
  return text.replace(/([,= ])/g, "\\$1");
}

function escapeTable(text: string): string {
  return text.replace(/([, ])/g, "\\$1");
}
