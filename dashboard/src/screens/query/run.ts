// Runs the query of the screen: one at a time, can be cancelled, with the time it takes.
import { useEffect, useRef, useState } from "preact/hooks";
import { isAbort, messageOf } from "../../api/client";
import { type PromqlResult, queryInstant, queryRange } from "../../api/prometheus";
import { runSql, type SqlResult } from "../../api/sql";
import { boundsOf, stepOf } from "../../parts/time-range";
import { fillRange, type QueryState } from "./state";

export interface Steps {
  start: number;
  end: number;
  step: number;
}

export type Outcome = { state: QueryState; elapsedMs: number } & (
  | { kind: "sql"; sql: string; result: SqlResult }
  /** Without steps the query was evaluated at the end of its range only. */
  | { kind: "promql"; result: PromqlResult; time: number; steps: Steps | null }
);

export type Run =
  | { phase: "idle" }
  | { phase: "running"; since: number }
  | { phase: "cancelled"; afterMs: number }
  | { phase: "failed"; message: string; text: string }
  | { phase: "done"; outcome: Outcome };

export interface Runner {
  run: Run;
  start(state: QueryState): void;
  cancel(): void;
}

export function useRunner(): Runner {
  const [run, setRun] = useState<Run>({ phase: "idle" });
  const controller = useRef<AbortController | null>(null);
  // The server cancels the query of a client that leaves.
  useEffect(() => () => controller.current?.abort(), []);
  const start = (state: QueryState) => {
    controller.current?.abort();
    const mine = new AbortController();
    controller.current = mine;
    const since = performance.now();
    performance.mark("tsdb:run");
    setRun({ phase: "running", since });
    execute(state, mine.signal).then(
      (outcome) => {
        if (controller.current !== mine) return;
        setRun({ phase: "done", outcome: { ...outcome, state, elapsedMs: performance.now() - since } });
      },
      (error) => {
        if (controller.current !== mine) return;
        if (isAbort(error)) setRun({ phase: "cancelled", afterMs: performance.now() - since });
        else setRun({ phase: "failed", message: messageOf(error), text: state.text });
      },
    );
  };
  return { run, start, cancel: () => controller.current?.abort() };
}

type Executed =
  | { kind: "sql"; sql: string; result: SqlResult }
  | { kind: "promql"; result: PromqlResult; time: number; steps: Steps | null };

async function execute(state: QueryState, signal: AbortSignal): Promise<Executed> {
  const asked = { database: state.database, signal };
  const { start, end } = boundsOf(state.range);
  if (state.language === "sql") {
    const sql = fillRange(state.text, { start, end });
    return { kind: "sql", sql, result: await runSql(sql, asked) };
  }
  if (state.isInstant) {
    return { kind: "promql", result: await queryInstant(state.text, end, asked), time: end, steps: null };
  }
  const steps = alignedSteps(start, end, state.step);
  return { kind: "promql", result: await queryRange(state.text, steps, asked), time: end, steps };
}

/** Steps at multiples of their length: the same times each time the query runs. */
export function alignedSteps(start: number, end: number, chosen: number | null): Steps {
  const step = chosen ?? stepOf(end - start);
  const last = Math.floor(end / step) * step;
  return { start: Math.min(Math.ceil(start / step) * step, last), end: last, step };
}
