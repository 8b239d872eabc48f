// PromQL in the editor, with metrics, labels and values from the server.
import { autocompletion } from "@codemirror/autocomplete";
import type { Extension } from "@codemirror/state";
import { PromQLExtension } from "@prometheus-io/codemirror-promql";
import { send } from "../../api/client";

/** What completion looks back at: also metrics that nobody writes any more are of interest. */
const LOOKBACK_MS = 365 * 86_400_000;

export function promqlLanguage(database: string): Extension {
  const ask = (input: RequestInfo, init: RequestInit = {}): Promise<Response> =>
    send(String(input), {
      method: init.method === "POST" ? "POST" : "GET",
      ...(init.body ? { body: String(init.body) } : {}),
      headers: { "content-type": "application/x-www-form-urlencoded", "x-tsdb-db-name": database },
      signal: init.signal ?? undefined,
    });
  const language = new PromQLExtension().setComplete({
    remote: { url: "/v1/prometheus", fetchFn: ask, lookbackInterval: LOOKBACK_MS },
  });
  return [language.asExtension(), autocompletion({ icons: false })];
}
