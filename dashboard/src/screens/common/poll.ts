// Asking again and again, while somebody looks: nothing is asked while the page is hidden.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { isAbort, messageOf } from "../../api/client";
import { onCredentials } from "../../api/credentials";

/** Call `work` so long after its last end, again and again while the page is visible; returns how to stop. */
export function repeat(work: (signal: AbortSignal) => Promise<void>, everyMs: number): () => void {
  const stopped = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const run = async () => {
    if (!document.hidden) await work(stopped.signal);
    if (!stopped.signal.aborted) timer = setTimeout(() => void run(), everyMs);
  };
  timer = setTimeout(() => void run(), everyMs);
  return () => {
    clearTimeout(timer);
    stopped.abort();
  };
}

export interface Polled<T> {
  /** The last answer; it stays while a later request fails. */
  value: T | null;
  error: string;
  /** When the last answer came, in milliseconds since 1970. */
  atMs: number;
  refresh(): void;
}

/**
 * Call `load` now and so long after each answer, while the page is visible. The next request waits for the last:
 * a slow server is never asked twice at a time. With null it pauses. Other `keys` forget the value and begin anew.
 */
export function usePoll<T>(
  load: (signal: AbortSignal) => Promise<T>,
  everyMs: number | null,
  keys: readonly unknown[],
): Polled<T> {
  const [state, setState] = useState<Omit<Polled<T>, "refresh">>({ value: null, error: "", atMs: 0 });
  const latest = useRef(load);
  latest.current = load;
  const every = useRef(everyMs);
  every.current = everyMs;
  const refreshNow = useRef<() => void>(() => {});
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let running: AbortController | null = null;
    setState({ value: null, error: "", atMs: 0 });
    const run = async () => {
      clearTimeout(timer);
      running?.abort();
      const mine = new AbortController();
      running = mine;
      try {
        const value = await latest.current(mine.signal);
        if (!mine.signal.aborted) setState({ value, error: "", atMs: Date.now() });
      } catch (error) {
        if (!mine.signal.aborted && !isAbort(error)) setState((old) => ({ ...old, error: messageOf(error) }));
      }
      if (mine.signal.aborted) return;
      running = null;
      if (!document.hidden && every.current !== null) timer = setTimeout(run, every.current);
    };
    const onVisible = () => {
      clearTimeout(timer);
      if (!document.hidden && !running && every.current !== null) void run();
    };
    refreshNow.current = () => void run();
    void run();
    document.addEventListener("visibilitychange", onVisible);
    const forget = onCredentials(() => void run());
    return () => {
      clearTimeout(timer);
      running?.abort();
      document.removeEventListener("visibilitychange", onVisible);
      forget();
    };
    // The caller says what the requests depend on.
  }, [...keys]);
  const isFirst = useRef(true);
  useEffect(() => {
    // A pause ends with a request; the first one is made above.
    if (!isFirst.current && everyMs !== null) refreshNow.current();
    isFirst.current = false;
  }, [everyMs]);
  const refresh = useCallback(() => refreshNow.current(), []);
  return { ...state, refresh };
}
