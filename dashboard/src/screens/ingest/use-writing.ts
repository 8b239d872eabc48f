// Trying and writing lines: what was tried may be written, as long as nothing was changed since.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { isAbort, messageOf } from "../../api/client";
import { type DryRun, dryRun, isClean, type Precision, writeLines } from "./dry-run";

export interface Writing {
  isBusy: boolean;
  error: string;
  result: DryRun | null;
  /** How many rows the last write has written. */
  written: number | null;
  /** Whether the lines were tried as they are, and all of them fit. */
  canWrite: boolean;
  try(): void;
  write(): void;
}

interface State {
  lines: string;
  precision: Precision;
  result: DryRun | null;
  written: number | null;
  error: string;
  isBusy: boolean;
}

const NOTHING: State = { lines: "", precision: "ns", result: null, written: null, error: "", isBusy: false };

export function useWriting(database: string, lines: string, precision: Precision): Writing {
  const [state, setState] = useState<State>(NOTHING);
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);
  const run = useCallback(async (work: (signal: AbortSignal) => Promise<Partial<State>>) => {
    running.current?.abort();
    const mine = new AbortController();
    running.current = mine;
    setState((old) => ({ ...old, isBusy: true, error: "", written: null }));
    try {
      const found = await work(mine.signal);
      if (!mine.signal.aborted) setState((old) => ({ ...old, ...found, isBusy: false }));
    } catch (error) {
      if (mine.signal.aborted || isAbort(error)) return;
      setState((old) => ({ ...old, isBusy: false, error: messageOf(error) }));
    }
  }, []);
  const isCurrent = state.lines === lines && state.precision === precision;
  const canWrite =
    isCurrent && !state.isBusy && state.result !== null && isClean(state.result) && state.written === null;
  return {
    isBusy: state.isBusy,
    error: state.error,
    result: isCurrent ? state.result : null,
    written: isCurrent ? state.written : null,
    canWrite,
    try: () =>
      void run(async (signal) => ({
        lines,
        precision,
        result: await dryRun(lines, { database, precision, signal }),
      })),
    write: () => {
      if (!canWrite) return;
      const rows = state.result?.rows ?? 0;
      void run(async (signal) => {
        await writeLines(lines, { database, precision, signal });
        return { written: rows };
      });
    },
  };
}
