// The rows of a search: the first page, older ones, and what arrives while somebody looks.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { isAbort, messageOf } from "../../api/client";
import { queryTable } from "../../api/sql";
import { stepOf } from "../../parts/time-range";
import { repeat } from "../common/poll";
import {
  countSql,
  type LogRow,
  loadPage,
  mergeTail,
  msFromTicks,
  newRows,
  type Search,
  SHOWN_ROWS_MAX,
  selectSql,
  TAIL_ROWS_MAX,
  tailSearch,
  ticksOf,
  timeAt,
} from "./search";

export interface Bar {
  atMs: number;
  count: number;
}

export interface Feed {
  rows: LogRow[];
  /** Whether there are older rows than those. */
  hasOlder: boolean;
  isLoading: boolean;
  error: string;
  /** What is missing between the rows, if anything. */
  notice: string;
  older(): void;
}

interface State {
  rows: LogRow[];
  before: bigint | null;
  error: string;
  notice: string;
  isLoading: boolean;
}

const TAIL_MS = 2000;
const NOTHING: State = { rows: [], before: null, error: "", notice: "", isLoading: true };
const OVERFULL =
  "More rows than can be shown have one and the same time. Narrow the search to see the others.";
const GAP = `More than ${TAIL_ROWS_MAX} rows came at once: some of them are not shown. Narrow the search to see all.`;

/** The rows of a search, and with `isLive` also those that come. A new search object starts over. */
export function useFeed(search: Search | null, database: string, isLive: boolean): Feed {
  const [state, setState] = useState<State>(NOTHING);
  const shown = useRef(state);
  shown.current = state;
  const running = useRef<AbortController | null>(null);

  const load = useCallback(
    async (wanted: Search, add: boolean) => {
      running.current?.abort();
      const mine = new AbortController();
      running.current = mine;
      setState((old) => (add ? { ...old, isLoading: true, error: "" } : NOTHING));
      try {
        const page = await loadPage(wanted, (sql) => queryTable(sql, { database, signal: mine.signal }));
        if (mine.signal.aborted) return;
        setState((old) => ({
          rows: add ? [...old.rows, ...page.rows].slice(0, SHOWN_ROWS_MAX) : page.rows,
          before: page.before,
          error: "",
          notice: page.isOverfull ? OVERFULL : add ? old.notice : "",
          isLoading: false,
        }));
      } catch (error) {
        if (mine.signal.aborted || isAbort(error)) return;
        setState((old) => ({ ...old, isLoading: false, error: messageOf(error) }));
      }
    },
    [database],
  );

  useEffect(() => {
    if (search) void load(search, false);
    return () => running.current?.abort();
  }, [search, load]);

  useEffect(() => {
    if (!search || !isLive) return;
    return followTail(search, database, () => shown.current, setState);
  }, [search, database, isLive]);

  const older = useCallback(() => {
    const { before, isLoading } = shown.current;
    if (search && before !== null && !isLoading) void load({ ...search, to: before }, true);
  }, [search, load]);
  const isFull = state.rows.length >= SHOWN_ROWS_MAX;
  return {
    rows: state.rows,
    hasOlder: state.before !== null && !isFull,
    isLoading: state.isLoading,
    error: state.error,
    notice: isFull ? `These are ${SHOWN_ROWS_MAX} rows. Narrow the search to see others.` : state.notice,
    older,
  };
}

type SetState = (update: (old: State) => State) => void;

/** Look for new rows again and again while the page is visible; returns how to stop. */
function followTail(search: Search, database: string, shown: () => State, setState: SetState): () => void {
  const startMs = Date.now();
  const look = async (signal: AbortSignal) => {
    const { rows, isLoading } = shown();
    if (isLoading) return;
    try {
      const sql = selectSql(tailSearch(search, rows, startMs), TAIL_ROWS_MAX);
      const found = await queryTable(sql, { database, signal });
      if (!signal.aborted) setState((old) => addTail(old, found.rows, timeAt(search.table)));
    } catch (error) {
      if (signal.aborted || isAbort(error)) return;
      setState((old) => ({ ...old, error: messageOf(error) }));
    }
  };
  return repeat(look, TAIL_MS);
}

function addTail(old: State, found: LogRow[], at: number): State {
  const added = newRows(found, old.rows);
  const hasGap = added.length >= TAIL_ROWS_MAX;
  if (added.length === 0 && !old.error) return old;
  return { ...old, rows: mergeTail(old.rows, added, at), error: "", notice: hasGap ? GAP : old.notice };
}

const BARS = 60;
const COUNTS_MS = 10_000;

export interface Counts {
  bars: Bar[];
  seconds: number;
  total: number;
  fromMs: number;
  toMs: number;
}

/** How many rows of a search there are over time; null while that is not known, or without a range. */
export function useCounts(search: Search | null, database: string, isLive: boolean): Counts | null {
  const [counts, setCounts] = useState<Counts | null>(null);
  useEffect(() => {
    setCounts(null);
    if (!search || search.from === null) return;
    const load = async (signal: AbortSignal) => {
      try {
        const found = await loadCounts(search, database, signal);
        if (!signal.aborted) setCounts(found);
      } catch {
        // The rows are what matters: their request says what is wrong.
      }
    };
    const first = new AbortController();
    void load(first.signal);
    const stop = isLive ? repeat(load, COUNTS_MS) : undefined;
    return () => {
      first.abort();
      stop?.();
    };
  }, [search, database, isLive]);
  return counts;
}

async function loadCounts(search: Search, database: string, signal: AbortSignal): Promise<Counts> {
  const ticks = ticksOf(search.table.time.type);
  const fromMs = msFromTicks(search.from ?? 0n, ticks);
  const toMs = search.to === null ? Date.now() : msFromTicks(search.to, ticks);
  const seconds = stepOf((toMs - fromMs) / 1000, BARS);
  const { rows } = await queryTable(countSql(search, seconds), { database, signal, rowsMax: 10 * BARS });
  const bars = rows.map(([bucket, count]) => ({
    atMs: msFromTicks(BigInt(bucket as number | bigint), ticks),
    count: Number(count),
  }));
  return { bars, seconds, total: bars.reduce((sum, { count }) => sum + count, 0), fromMs, toMs };
}
