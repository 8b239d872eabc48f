// Which tables hold logs, and which of their columns is the message.
import { queryObjects, quoteText } from "../../api/sql";

export interface LogColumn {
  name: string;
  type: string;
  semantic: "TAG" | "FIELD" | "TIMESTAMP";
  hasFulltext: boolean;
}

export interface LogTable {
  name: string;
  columns: LogColumn[];
  time: LogColumn;
  /** The column that is shown as the message at first. */
  message: string;
  /** Whether it looks like a table of logs. */
  isLog: boolean;
}

interface ColumnRow {
  table_name: string;
  column_name: string;
  data_type: string;
  semantic_type: string;
}

/** How many columns are read; a database with more shows the tables of those. */
const COLUMNS_MAX = 20_000;
const MESSAGE_NAMES = [/^(message|msg|body|line|log|log_line|text)$/i, /(message|body|log_?line)$/i];

/** All tables with a column of text, those that look like logs first. */
export async function loadLogTables(database: string, signal: AbortSignal): Promise<LogTable[]> {
  const schema = quoteText(database);
  const [columns, indexes] = await Promise.all([
    queryObjects<ColumnRow>(
      `SELECT table_name, column_name, data_type, semantic_type FROM information_schema.columns
       WHERE table_schema = ${schema} AND (semantic_type = 'TIMESTAMP' OR semantic_type = 'TAG' OR semantic_type = 'FIELD')
       ORDER BY table_name, ordinal_position LIMIT ${COLUMNS_MAX}`,
      { database, signal },
    ),
    queryObjects<{ table_name: string; column_name: string }>(
      `SELECT table_name, column_name FROM information_schema.statistics
       WHERE table_schema = ${schema} AND index_type = 'FULLTEXT' LIMIT ${COLUMNS_MAX}`,
      { database, signal },
    ),
  ]);
  return findLogTables(columns, new Set(indexes.map((each) => `${each.table_name}\0${each.column_name}`)));
}

export function findLogTables(rows: ColumnRow[], fulltext: ReadonlySet<string>): LogTable[] {
  const byTable = new Map<string, LogColumn[]>();
  for (const row of rows) {
    const columns = byTable.get(row.table_name) ?? [];
    columns.push({
      name: row.column_name,
      type: row.data_type.toLowerCase(),
      semantic: row.semantic_type as LogColumn["semantic"],
      hasFulltext: fulltext.has(`${row.table_name}\0${row.column_name}`),
    });
    byTable.set(row.table_name, columns);
  }
  const tables = [...byTable].flatMap(([name, columns]) => describeTable(name, columns) ?? []);
  return tables.sort(
    (left, right) => Number(right.isLog) - Number(left.isLog) || (left.name < right.name ? -1 : 1),
  );
}

function describeTable(name: string, columns: LogColumn[]): LogTable | null {
  const time = columns.find(({ semantic }) => semantic === "TIMESTAMP");
  const texts = columns.filter((each) => each.semantic === "FIELD" && isText(each.type));
  const message = texts.find(({ hasFulltext }) => hasFulltext) ?? findMessage(texts);
  if (!time || texts.length === 0) return null;
  return { name, columns, time, message: (message ?? texts[0])?.name ?? "", isLog: message !== undefined };
}

function findMessage(texts: LogColumn[]): LogColumn | undefined {
  for (const pattern of MESSAGE_NAMES) {
    const found = texts.find(({ name }) => pattern.test(name));
    if (found) return found;
  }
  return undefined;
}

export function isText(type: string): boolean {
  return /^(string|text|varchar|char)/i.test(type);
}

/** The columns of text: what can be a message. */
export function textColumns(table: LogTable): string[] {
  return table.columns
    .filter((each) => each.semantic !== "TIMESTAMP" && isText(each.type))
    .map(({ name }) => name);
}

/** The column that says how severe a message is, if there is one. */
export function levelColumn(table: LogTable): string | undefined {
  const patterns = [/^(level|severity|severity_text|log_?level|lvl)$/i, /(^|_)(level|severity)(_text)?$/i];
  for (const pattern of patterns) {
    const found = table.columns.find((each) => pattern.test(each.name) && isText(each.type));
    if (found) return found.name;
  }
  return undefined;
}

export type Severity = "bad" | "warn" | "good" | "";

export function severityOf(level: unknown): Severity {
  const text = String(level ?? "").toLowerCase();
  if (/^(err|fatal|crit|alert|emerg|panic)/.test(text)) return "bad";
  if (/^warn/.test(text)) return "warn";
  return /^(info|notice)/.test(text) ? "good" : "";
}
