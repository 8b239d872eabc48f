// What the server knows about tables and metrics.
import { cardinality, labelNames, labelValues } from "../../api/prometheus";
import { type Column, queryObjects, queryTable, quoteName, quoteText, type Table } from "../../api/sql";
import { isNumeric, isTime } from "../../parts/cells";

export interface TableEntry {
  name: string;
  kind: string;
  engine: string;
  /** The rows by the statistics of the engine; null for tables that share their storage with others. */
  rows: number | null;
  bytes: number | null;
}

export interface ColumnEntry {
  name: string;
  type: string;
  /** TAG, FIELD or TIMESTAMP. */
  role: string;
  isNullable: boolean;
  defaultText: string;
}

interface Asked {
  database: string;
  signal?: AbortSignal | undefined;
}

const TABLES_MAX = 50_000;
export const SAMPLE_ROWS = 100;
const PLOT_ROWS = 10_000;

export async function listTables(asked: Asked): Promise<TableEntry[]> {
  const found = await queryObjects<Record<string, string | number | null>>(
    "SELECT table_name, table_type, engine, table_rows, data_length FROM information_schema.tables " +
      `WHERE table_schema = ${quoteText(asked.database)} ORDER BY table_name`,
    { ...asked, rowsMax: TABLES_MAX },
  );
  // Tables that the server makes up are only of interest in databases that hold nothing else.
  const own = found.filter(({ table_type }) => table_type !== "LOCAL TEMPORARY");
  return (own.length || asked.database === "public" ? own : found).map((each) => {
    // Metrics are tables of their own on a physical one, which has the rows of all.
    const isShared = each.engine === "metric" && !each.table_rows;
    return {
      name: String(each.table_name),
      kind: String(each.table_type),
      engine: String(each.engine ?? ""),
      rows: isShared ? null : Number(each.table_rows ?? 0),
      bytes: isShared ? null : Number(each.data_length ?? 0),
    };
  });
}

export async function listColumns(table: string, asked: Asked): Promise<ColumnEntry[]> {
  const found = await queryObjects<Record<string, string | null>>(
    "SELECT column_name, tsdb_data_type, semantic_type, is_nullable, column_default FROM information_schema.columns " +
      `WHERE table_schema = ${quoteText(asked.database)} AND table_name = ${quoteText(table)} ORDER BY ordinal_position`,
    asked,
  );
  return found.map((each) => ({
    name: String(each.column_name),
    type: String(each.tsdb_data_type),
    role: String(each.semantic_type ?? ""),
    isNullable: each.is_nullable === "YES",
    defaultText: each.column_default ?? "",
  }));
}

export async function showCreate(table: TableEntry, asked: Asked): Promise<string> {
  const what = table.kind === "VIEW" ? "VIEW" : "TABLE";
  const { rows } = await queryTable(`SHOW CREATE ${what} ${quoteName(table.name)}`, asked);
  return String(rows[0]?.[1] ?? "");
}

export async function countRows(table: string, asked: Asked): Promise<number> {
  const { rows } = await queryTable(`SELECT count(*) FROM ${quoteName(table)}`, asked);
  return Number(rows[0]?.[0] ?? 0);
}

/** The newest rows, or any if the table has no time. */
export function sampleSql(table: string, columns: ColumnEntry[]): string {
  const time = timeOf(columns);
  const order = time ? ` ORDER BY ${quoteName(time)} DESC` : "";
  return `SELECT * FROM ${quoteName(table)}${order} LIMIT ${SAMPLE_ROWS}`;
}

export function numericFields(columns: ColumnEntry[]): string[] {
  return columns.filter(({ role, type }) => role === "FIELD" && isNumeric(type)).map(({ name }) => name);
}

/** The newest values of a field, with the tags that tell the series apart; null if the table has no time. */
export function plotSql(table: string, columns: ColumnEntry[], field: string): string | null {
  const time = timeOf(columns);
  if (!time) return null;
  const tags = columns.filter(({ role }) => role === "TAG").map(({ name }) => name);
  const wanted = [time, ...tags, field].map(quoteName).join(", ");
  return `SELECT ${wanted} FROM ${quoteName(table)} ORDER BY ${quoteName(time)} DESC LIMIT ${PLOT_ROWS}`;
}

function timeOf(columns: ColumnEntry[]): string | undefined {
  return columns.find(({ role, type }) => role === "TIMESTAMP" || isTime(type))?.name;
}

export interface MetricEntry {
  name: string;
  /** The number of its series; null if it appeared while they were counted. */
  series: number | null;
}

/** All metrics, those with most series first. */
export async function listMetrics(asked: Asked): Promise<{ metrics: MetricEntry[]; seriesInAll: number }> {
  const [names, counts] = await Promise.all([labelValues("__name__", undefined, asked), cardinality(asked)]);
  const known = new Map(counts.seriesCountByMetricName.map(({ name, value }) => [name, value]));
  const metrics = names.map((name) => ({ name, series: known.get(name) ?? null }));
  metrics.sort(
    (left, right) => (right.series ?? -1) - (left.series ?? -1) || (left.name < right.name ? -1 : 1),
  );
  return { metrics, seriesInAll: counts.headStats.numSeries };
}

export interface LabelEntry {
  name: string;
  values: string[];
}

/** The labels of a metric with all their values. */
export async function listLabels(metric: string, asked: Asked): Promise<LabelEntry[]> {
  const match = selectorOf(metric);
  const names = (await labelNames(match, asked)).filter((name) => name !== "__name__");
  return Promise.all(names.map(async (name) => ({ name, values: await labelValues(name, match, asked) })));
}

export function selectorOf(metric: string): string {
  return `{__name__=${JSON.stringify(metric)}}`;
}

/** A query that shows something of a metric: of counters the rate. */
export function plotQuery(metric: string): string {
  const bare = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/.test(metric) ? metric : selectorOf(metric);
  return /_(total|count|sum|bucket)$/.test(metric) ? `rate(${bare}[5m])` : bare;
}

/** Rows for a table of the page that does not come from SQL. */
export function localTable(columns: [name: string, type: string][], rows: Table["rows"]): Table {
  return { columns: columns.map(([name, type]): Column => ({ name, type })), rows, isCut: false };
}
