// What the address of the screen says: everything that is needed to see the same again.
import { parseDuration, parseRange, type TimeRange, writeDuration, writeRange } from "../../parts/time-range";

export type Language = "sql" | "promql";
export type View = "table" | "chart";

export interface QueryState {
  language: Language;
  text: string;
  database: string;
  view: View;
  range: TimeRange;
  /** The step of PromQL in seconds; null for one that suits the range. */
  step: number | null;
  /** Whether PromQL is evaluated at one time, the end of the range. */
  isInstant: boolean;
}

export const DEFAULT_RANGE: TimeRange = { last: 3600 };

export function readState(params: URLSearchParams, database: string): QueryState {
  return {
    language: params.get("lang") === "promql" ? "promql" : "sql",
    text: params.get("q") ?? "",
    database: params.get("db") ?? database,
    view: params.get("view") === "chart" ? "chart" : "table",
    range: parseRange(params.get("range") ?? "") ?? DEFAULT_RANGE,
    step: parseDuration(params.get("step") ?? ""),
    isInstant: params.get("instant") === "1",
  };
}

export function writeState(state: QueryState): Record<string, string> {
  return {
    lang: state.language,
    q: state.text,
    db: state.database,
    view: state.view,
    range: writeRange(state.range),
    ...(state.step !== null && { step: writeDuration(state.step) }),
    ...(state.isInstant && { instant: "1" }),
  };
}

/** Put the ends of the range where a statement says $start and $end. */
export function fillRange(sql: string, bounds: { start: number; end: number }): string {
  const literal = (seconds: number) => `to_timestamp_millis(${Math.round(seconds * 1000)})`;
  return sql.replace(/\$(start|end)\b/g, (_, name: "start" | "end") => literal(bounds[name]));
}
