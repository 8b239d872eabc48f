// What is asked for, in the fragment of the address: a search can be shared as a link.
import { parseRange, type TimeRange, writeRange } from "../../parts/time-range";
import type { FieldFilter, TextMode } from "./search";
import { type LogTable, textColumns } from "./tables";

const ANY_TIME = "any";
const DEFAULT_RANGE: TimeRange = { last: 3600 };

export interface Asked {
  table: string;
  message: string;
  text: string;
  mode: TextMode;
  /** Null: at any time. */
  range: TimeRange | null;
  filters: FieldFilter[];
}

export function askedFrom(state: URLSearchParams, tables: readonly LogTable[]): Asked {
  const table = tables.find(({ name }) => name === state.get("table")) ?? tables[0];
  const message = state.get("message");
  const mode = state.get("mode");
  return {
    table: table?.name ?? "",
    message: table && message && textColumns(table).includes(message) ? message : (table?.message ?? ""),
    text: state.get("q") ?? "",
    mode: mode === "term" || mode === "part" ? mode : "words",
    range: state.get("range") === ANY_TIME ? null : (parseRange(state.get("range") ?? "") ?? DEFAULT_RANGE),
    filters: table ? parseFilters(state.get("filters"), table) : [],
  };
}

export function stateOf({ table, message, text, mode, range, filters }: Asked): Record<string, string> {
  return {
    table,
    message,
    ...(text && { q: text, mode }),
    range: range ? writeRange(range) : ANY_TIME,
    ...(filters.length > 0 && {
      filters: JSON.stringify(filters.map(({ column, value, isNot }) => [column, isNot, plain(value)])),
    }),
  };
}

function plain(value: FieldFilter["value"]): unknown {
  return typeof value === "bigint" ? { integer: String(value) } : value;
}

function parseFilters(text: string | null, table: LogTable): FieldFilter[] {
  try {
    const found = JSON.parse(text ?? "[]") as [string, boolean, unknown][];
    return found.flatMap(([column, isNot, value]) =>
      table.columns.some(({ name }) => name === column)
        ? [{ column, isNot: Boolean(isNot), value: unplain(value) }]
        : [],
    );
  } catch {
    return [];
  }
}

function unplain(value: unknown): FieldFilter["value"] {
  if (typeof value === "object" && value !== null)
    return BigInt(String((value as { integer?: unknown }).integer ?? 0));
  return value as FieldFilter["value"];
}
