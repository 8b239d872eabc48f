import { useEffect, useState } from "preact/hooks";
import { isAbort, messageOf } from "../api/client";

export interface Loaded<T> {
  value: T | null;
  error: string;
  isLoading: boolean;
  reload(): void;
}

/** What a request returns, asked for again whenever one of `reasons` changes; the request before it is cancelled. */
export function useLoaded<T>(
  load: (signal: AbortSignal) => Promise<T>,
  reasons: readonly unknown[],
): Loaded<T> {
  const [state, setState] = useState<{ value: T | null; error: string; isLoading: boolean }>({
    value: null,
    error: "",
    isLoading: true,
  });
  const [round, setRound] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    setState({ value: null, error: "", isLoading: true });
    load(controller.signal).then(
      (value) => controller.signal.aborted || setState({ value, error: "", isLoading: false }),
      (error) => {
        if (controller.signal.aborted || isAbort(error)) return;
        setState({ value: null, error: messageOf(error), isLoading: false });
      },
    );
    return () => controller.abort();
  }, [...reasons, round]);
  return { ...state, reload: () => setRound((now) => now + 1) };
}
