// Writing line protocol, and what the server says a write would do.
import { call, callJson } from "../../api/client";

export interface DryLine {
  line: number;
  outcome: "fits" | "refused" | "malformed";
  table?: string;
  time?: string;
  is_time_of_arrival?: boolean;
  creates_table?: boolean;
  adds_columns?: string[];
  reason: string | null;
  character?: number;
}

export interface DryRun {
  rows: number;
  created_tables: string[];
  added_columns: { table: string; column: string; type: string }[];
  rejections: { table: string; reason: string; place: number | null; rows: number }[];
  lines: DryLine[];
  lines_total: number;
  unread_from: number | null;
}

export type Precision = "ns" | "us" | "ms" | "s" | "auto";

export interface Target {
  database: string;
  precision: Precision;
  signal?: AbortSignal;
}

const PATH = "/v1/influxdb/write";

export function dryRun(lines: string, { database, precision, signal }: Target): Promise<DryRun> {
  return callJson<DryRun>(PATH, {
    params: { db: database, precision, dry_run: "true" },
    body: lines,
    signal,
  });
}

export async function writeLines(lines: string, { database, precision, signal }: Target): Promise<void> {
  await call(PATH, { params: { db: database, precision }, body: lines, signal });
}

/** What a line would do, in words. */
export function describeLine(line: DryLine): string {
  if (line.outcome !== "fits") return line.reason ?? "";
  const added = line.adds_columns ?? [];
  if (line.creates_table) return `creates the table ${line.table}`;
  if (added.length > 0)
    return `adds ${added.length === 1 ? "the column" : "the columns"} ${added.join(", ")}`;
  return "";
}

/** Whether all of it would be written. */
export function isClean(result: DryRun): boolean {
  return result.rejections.length === 0 && result.unread_from === null && result.lines_total > 0;
}
