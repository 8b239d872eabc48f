// Searching logs: the statements, pages by time, and what is new at the end.
//
// - A page ends where a time ends, so the next begins before that time and misses nothing: rows have no other order.
// - The tail asks again for the last seconds as well, because rows arrive late, and drops those that it has shown.
import type { Cell, Table } from "../../api/sql";
import { quoteName, quoteText } from "../../api/sql";
import type { LogTable } from "./tables";

export type TextMode = "words" | "term" | "part";

export interface FieldFilter {
  column: string;
  /** Null: the column has no value. */
  value: string | number | bigint | boolean | null;
  isNot: boolean;
}

export interface Search {
  table: LogTable;
  message: string;
  text: string;
  mode: TextMode;
  filters: FieldFilter[];
  /** Half open, in ticks of the time column; null is no bound. */
  from: bigint | null;
  to: bigint | null;
}

export const PAGE_ROWS = 200;
/** Rows of one time that a page takes before it gives up to have all of them. */
export const SAME_TIME_MAX = 5000;
export const TAIL_ROWS_MAX = 1000;
export const SHOWN_ROWS_MAX = 5000;
/** How late a row may come to be in the tail. */
export const LATE_MS = 5000;

const TICKS: Record<string, bigint> = { "0": 1n, "3": 1000n, "6": 1_000_000n, "9": 1_000_000_000n };

/** Ticks of a second of a time column, from its type as information_schema has it: timestamp(3). */
export function ticksOf(type: string): bigint {
  const digits =
    /\((\d)\)/.exec(type)?.[1] ??
    (/nano/i.test(type)
      ? "9"
      : /micro/i.test(type)
        ? "6"
        : /second$/i.test(type) && !/milli/i.test(type)
          ? "0"
          : "3");
  return TICKS[digits] ?? 1000n;
}

export function ticksFromMs(ms: number, ticks: bigint): bigint {
  const value = BigInt(Math.round(ms));
  return ticks >= 1000n ? value * (ticks / 1000n) : value / 1000n;
}

export function msFromTicks(value: bigint, ticks: bigint): number {
  return ticks >= 1000n ? Number(value / (ticks / 1000n)) : Number(value) * 1000;
}

/** 2024-05-01T12:00:00.123456789Z: as a literal it means the same in every time zone. */
export function timeLiteral(value: bigint, ticks: bigint): string {
  const seconds = value >= 0n || value % ticks === 0n ? value / ticks : value / ticks - 1n;
  const rest = value - seconds * ticks;
  const digits = String(ticks).length - 1;
  const whole = new Date(Number(seconds) * 1000).toISOString().slice(0, -5);
  return `${whole}${digits ? `.${String(rest).padStart(digits, "0")}` : ""}Z`;
}

/** Conditions of a search, joined by AND; empty if there are none. */
export function conditionsOf(search: Search): string[] {
  const { table, filters } = search;
  const time = quoteName(table.time.name);
  const ticks = ticksOf(table.time.type);
  const conditions: string[] = [];
  if (search.from !== null) conditions.push(`${time} >= ${quoteText(timeLiteral(search.from, ticks))}`);
  if (search.to !== null) conditions.push(`${time} < ${quoteText(timeLiteral(search.to, ticks))}`);
  const text = textCondition(search);
  return [...conditions, ...(text ? [text] : []), ...filters.map(filterCondition)];
}

function textCondition({ text, mode, message }: Search): string {
  if (text.trim() === "") return "";
  const column = quoteName(message);
  if (mode === "words") return `matches(${column}, ${quoteText(text.trim())})`;
  if (mode === "term") return `matches_term(${column}, ${quoteText(text.trim())})`;
  return `${column} LIKE ${quoteText(`%${text.replace(/[\\%_]/g, "\\$&")}%`)}`;
}

function filterCondition({ column, value, isNot }: FieldFilter): string {
  const name = quoteName(column);
  if (value === null) return `${name} IS ${isNot ? "NOT " : ""}NULL`;
  const literal = typeof value === "string" ? quoteText(value) : String(value);
  // A row without the value is not the value either.
  return isNot ? `(${name} <> ${literal} OR ${name} IS NULL)` : `${name} = ${literal}`;
}

export function selectSql(search: Search, limit: number): string {
  const { table } = search;
  const columns = table.columns.map(({ name }) => quoteName(name)).join(", ");
  const conditions = conditionsOf(search);
  const where = conditions.length > 0 ? ` WHERE ${conditions.join(" AND ")}` : "";
  return `SELECT ${columns} FROM ${quoteName(table.name)}${where} ORDER BY ${quoteName(table.time.name)} DESC LIMIT ${limit}`;
}

export function countSql(search: Search, bucketSeconds: number): string {
  const { table } = search;
  const conditions = conditionsOf(search);
  const where = conditions.length > 0 ? ` WHERE ${conditions.join(" AND ")}` : "";
  const bucket = `date_bin(INTERVAL '${bucketSeconds} seconds', ${quoteName(table.time.name)})`;
  return `SELECT ${bucket} AS bucket, count(*) AS n FROM ${quoteName(table.name)}${where} GROUP BY bucket ORDER BY bucket`;
}

export type LogRow = Cell[];

export interface Page {
  rows: LogRow[];
  /** Older rows are before this time; null if there are none. */
  before: bigint | null;
  /** All rows have one time, and there are more of them than are read. */
  isOverfull: boolean;
}

type Run = (sql: string) => Promise<Table>;

/** Read the newest rows of a search that are not older than its range allows. */
export async function loadPage(search: Search, run: Run, pageRows = PAGE_ROWS): Promise<Page> {
  const at = timeAt(search.table);
  const { rows } = await run(selectSql(search, pageRows + 1));
  if (rows.length <= pageRows) return { rows, before: null, isOverfull: false };
  const cut = tick(rows[pageRows], at);
  const whole = rows.filter((row) => tick(row, at) > cut);
  if (whole.length > 0) return { rows: whole, before: cut + 1n, isOverfull: false };
  // The whole page has one time: read all of it, so that the next page can begin before.
  const same = await run(selectSql({ ...search, from: cut, to: cut + 1n }, SAME_TIME_MAX + 1));
  const hasOlder = search.from === null || cut > search.from;
  return {
    rows: same.rows.slice(0, SAME_TIME_MAX),
    before: hasOlder ? cut : null,
    isOverfull: same.rows.length > SAME_TIME_MAX,
  };
}

export function timeAt(table: LogTable): number {
  return table.columns.findIndex(({ semantic }) => semantic === "TIMESTAMP");
}

export function tick(row: LogRow | undefined, at: number): bigint {
  return BigInt((row?.[at] as number | bigint | null) ?? 0);
}

export interface Tail {
  rows: LogRow[];
  /** Whether more rows came than are read at a time: some between are not shown. */
  hasGap: boolean;
}

/** The search of the next look at the tail: all that is newer than the last row, and the last seconds before it. */
export function tailSearch(search: Search, shown: LogRow[], startMs: number): Search {
  const ticks = ticksOf(search.table.time.type);
  const newest = shown[0] === undefined ? ticksFromMs(startMs, ticks) : tick(shown[0], timeAt(search.table));
  const from = newest - ticksFromMs(LATE_MS, ticks);
  return { ...search, from: search.from !== null && search.from > from ? search.from : from, to: null };
}

/** The rows of `found` that are not among `shown`; equal rows are counted. */
export function newRows(found: LogRow[], shown: LogRow[]): LogRow[] {
  const counts = new Map<string, number>();
  for (const row of shown) {
    const key = keyOf(row);
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return found.filter((row) => {
    const key = keyOf(row);
    const left = counts.get(key) ?? 0;
    if (left > 0) counts.set(key, left - 1);
    return left === 0;
  });
}

function keyOf(row: LogRow): string {
  return JSON.stringify(row, (_, value: unknown) => (typeof value === "bigint" ? `${value}n` : value));
}

/** Put new rows among those that are shown, the newest first, no more than can be shown. */
export function mergeTail(shown: LogRow[], added: LogRow[], at: number): LogRow[] {
  if (added.length === 0) return shown;
  const merged = [...added, ...shown].sort((left, right) => {
    const [mine, other] = [tick(left, at), tick(right, at)];
    return mine < other ? 1 : mine > other ? -1 : 0;
  });
  return merged.slice(0, SHOWN_ROWS_MAX);
}
