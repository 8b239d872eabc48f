// SQL over /v1/sql: statements in, tables out.
import { call, callJson } from "./client";

export interface Column {
  name: string;
  /** The type as the server names it: String, Float64, TimestampMillisecond, … */
  type: string;
}

export type Cell = string | number | bigint | boolean | null | unknown[] | { [key: string]: unknown };

export interface Table {
  columns: Column[];
  rows: Cell[][];
  /** Whether there were more rows than were asked for. */
  isCut: boolean;
}

/** What a statement came to: rows, or the number of rows that it changed. */
export type Output = { kind: "table"; table: Table } | { kind: "affected"; rows: number };

export interface SqlResult {
  outputs: Output[];
  executionMs: number;
}

export interface SqlOptions {
  database?: string | undefined;
  signal?: AbortSignal | undefined;
  /** Rows of each result; more are cut off. */
  rowsMax?: number;
}

/** The page never holds more rows of a result than this; downloads have all. */
export const ROWS_MAX = 50_000;

interface Answer {
  output?: {
    affectedrows?: number;
    records?: { schema: { column_schemas: { name: string; data_type: string }[] }; rows: Cell[][] };
  }[];
  execution_time_ms: number;
}

/** Run statements, separated by semicolons. */
export async function runSql(sql: string, options: SqlOptions = {}): Promise<SqlResult> {
  const rowsMax = options.rowsMax ?? ROWS_MAX;
  const answer = await callJson<Answer>("/v1/sql", {
    params: { db: options.database, limit: rowsMax + 1 },
    form: { sql },
    signal: options.signal,
  });
  return readAnswer(answer, rowsMax);
}

/** Run one statement and return its rows; a statement without rows gives a table without columns. */
export async function queryTable(sql: string, options: SqlOptions = {}): Promise<Table> {
  const { outputs } = await runSql(sql, options);
  const last = outputs.at(-1);
  return last?.kind === "table" ? last.table : { columns: [], rows: [], isCut: false };
}

/** Run one statement and return its rows as objects by column name. */
export async function queryObjects<T>(sql: string, options: SqlOptions = {}): Promise<T[]> {
  const table = await queryTable(sql, options);
  return table.rows.map(
    (row) => Object.fromEntries(table.columns.map((column, at) => [column.name, row[at]])) as T,
  );
}

export function readAnswer(answer: Answer, rowsMax: number): SqlResult {
  const outputs = (answer.output ?? []).map((each): Output => {
    if (!each.records) return { kind: "affected", rows: each.affectedrows ?? 0 };
    const columns = each.records.schema.column_schemas.map(({ name, data_type }) => ({
      name,
      type: data_type,
    }));
    const rows = each.records.rows;
    return { kind: "table", table: { columns, rows: rows.slice(0, rowsMax), isCut: rows.length > rowsMax } };
  });
  return { outputs, executionMs: answer.execution_time_ms };
}

export type DownloadFormat = "csvwithnames" | "json" | "arrow";

/** Run a statement and return all of its result in a format of the server. */
export async function downloadSql(
  sql: string,
  format: DownloadFormat,
  options: SqlOptions = {},
): Promise<Blob> {
  const response = await call("/v1/sql", {
    params: { db: options.database, format },
    form: { sql },
    signal: options.signal,
  });
  return response.blob();
}

/** Write a name as an identifier. */
export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Write a text as a literal. */
export function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
