// Query: SQL and PromQL with completion; results as table, chart and file; a history, and addresses to share.
import type { Extension } from "@codemirror/state";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { callJson, messageOf } from "../../api/client";
import { get } from "../../api/prometheus";
import { chooseDatabase, currentDatabase, useDatabase } from "../../frame/database";
import { useScreenKeys } from "../../frame/keys";
import { currentPlace, keepState } from "../../frame/place";
import { formatDuration } from "../../parts/cells";
import { Editor, type Mark } from "../../parts/editor/editor";
import { loadCatalog, sqlLanguage } from "../../parts/editor/sql";
import { RangeField } from "../../parts/range-field";
import { EmptyState, ErrorBox } from "../../parts/states";
import { Tabs } from "../../parts/tabs";
import { parseDuration, stepOf, writeDuration } from "../../parts/time-range";
import type { Shortcut } from "../registry";
import { DemoOffer } from "./demo-offer";
import { errorPlace } from "./error-place";
import { remember } from "./history";
import { HistoryDialog } from "./history-dialog";
import "./query.css";
import { Results } from "./results";
import { type Run, useRunner } from "./run";
import { type Language, type QueryState, readState, writeState } from "./state";

export const shortcuts: Shortcut[] = [
  { keys: "Ctrl Enter", meaning: "Run the query" },
  { keys: "Ctrl Space", meaning: "Complete what is being typed" },
  { keys: "e", meaning: "Go to the editor" },
  { keys: "h", meaning: "History" },
  { keys: "+ -", meaning: "Zoom the chart that has the focus" },
];

const LANGUAGES = [
  ["sql", "SQL"],
  ["promql", "PromQL"],
] as const;

const HINTS: Record<Language, string> = {
  sql: "SELECT … FROM …   Ctrl+Enter runs it; $start and $end stand for the chosen time",
  promql: "sum by (job) (rate(http_requests_total[5m]))   Ctrl+Enter runs it",
};

export default function Query() {
  const database = useDatabase();
  const [state, setState] = useState<QueryState>(() => readState(currentPlace().state, database));
  const texts = useRef<Record<Language, string>>({ sql: "", promql: "", [state.language]: state.text });
  const { run, start, cancel } = useRunner();
  const [isHistoryOpen, setHistoryOpen] = useState(false);
  const [problem, setProblem] = useState("");
  const language = useLanguage(state.language, state.database);
  const mark = useMark(run, state.text);

  const change = (changes: Partial<QueryState>) => setState((now) => ({ ...now, ...changes }));
  const execute = (changes: Partial<QueryState> = {}) => {
    const next = { ...state, ...changes };
    setState(next);
    setProblem("");
    if (!next.text.trim()) return;
    remember({ language: next.language, text: next.text, database: next.database, at: Date.now() });
    start(next);
  };

  // The database of an address counts, and later the one that is chosen in the bar above.
  useEffect(() => chooseDatabase(state.database), []);
  useEffect(() => {
    if (database !== state.database && database === currentDatabase()) change({ database });
  }, [database]);
  useEffect(() => keepState(writeState(state)), [state]);
  useEffect(() => {
    const onMove = () => {
      const next = readState(currentPlace().state, currentDatabase());
      setState(next);
      chooseDatabase(next.database);
    };
    window.addEventListener("popstate", onMove);
    return () => window.removeEventListener("popstate", onMove);
  }, []);
  // An address runs by itself only if it cannot change anything, or comes from another screen of this page: statements
  // in links from elsewhere wait for the user.
  useEffect(() => {
    const isOurs = (history.state as { run?: boolean } | null)?.run === true;
    if (state.text && (isOurs || state.language === "promql")) start(state);
  }, []);
  useScreenKeys({
    h: () => setHistoryOpen(true),
    e: () => document.querySelector<HTMLElement>(".editor")?.focus(),
  });

  const switchLanguage = (next: Language, text = texts.current[next]) => {
    texts.current[state.language] = state.text;
    change({ language: next, text, view: next === "promql" ? "chart" : "table" });
  };
  const format = async () => {
    try {
      change({ text: await formatted(state) });
      setProblem("");
    } catch (error) {
      setProblem(messageOf(error));
    }
  };
  return (
    <div class="query">
      <section class="panel" aria-label="Query">
        <header class="panel-head">
          <Tabs
            label="Language"
            tabs={LANGUAGES}
            active={state.language}
            onChoose={(next) => switchLanguage(next)}
          />
          <RangeField range={state.range} onChange={(range) => change({ range })} />
          {state.language === "promql" && <PromqlFields state={state} onChange={change} />}
        </header>
        <Editor
          label={state.language === "sql" ? "SQL statement" : "PromQL query"}
          text={state.text}
          onChange={(text) => change({ text })}
          onRun={() => execute()}
          language={language}
          mark={mark}
          hint={HINTS[state.language]}
        />
        <footer class="query-actions">
          {run.phase === "running" ? (
            <button type="button" class="button danger" onClick={cancel}>
              Cancel <Elapsed since={run.since} />
            </button>
          ) : (
            <button
              type="button"
              class="button primary"
              onClick={() => execute()}
              disabled={!state.text.trim()}
              title="Ctrl+Enter"
            >
              Run
            </button>
          )}
          <button type="button" class="button" onClick={() => setHistoryOpen(true)}>
            History
          </button>
          <button type="button" class="button" onClick={format} disabled={!state.text.trim()}>
            Format
          </button>
          <CopyLink />
        </footer>
      </section>
      {problem && <ErrorBox message={problem} />}
      {run.phase === "failed" && <ErrorBox message={run.message} />}
      {run.phase === "cancelled" && (
        <EmptyState title="Cancelled">
          After {formatDuration(run.afterMs)}; the server has stopped the query.
        </EmptyState>
      )}
      {run.phase === "idle" && <DemoOffer onExample={(changes) => execute(changes)} />}
      {run.phase === "done" && (
        <Results
          outcome={run.outcome}
          view={state.view}
          onView={(view) => change({ view })}
          onZoom={(from, to) => execute({ range: { start: Math.floor(from), end: Math.ceil(to) } })}
        />
      )}
      {isHistoryOpen && (
        <HistoryDialog
          onClose={() => setHistoryOpen(false)}
          onChoose={({ language: chosen, text, database: wanted }) => {
            setHistoryOpen(false);
            if (chosen === state.language) change({ text });
            else switchLanguage(chosen, text);
            change({ database: wanted });
            chooseDatabase(wanted);
          }}
        />
      )}
    </div>
  );
}

function PromqlFields({
  state,
  onChange,
}: {
  state: QueryState;
  onChange: (changes: Partial<QueryState>) => void;
}) {
  const seconds = "last" in state.range ? state.range.last : state.range.end - state.range.start;
  return (
    <>
      <label class="inline-field">
        <span>Step</span>
        <input
          class="step-field"
          placeholder={`auto (${writeDuration(stepOf(seconds))})`}
          value={state.step === null ? "" : writeDuration(state.step)}
          disabled={state.isInstant}
          onChange={(event) => onChange({ step: parseDuration(event.currentTarget.value.trim()) })}
        />
      </label>
      <label class="inline-field">
        <input
          type="checkbox"
          checked={state.isInstant}
          onChange={(event) =>
            onChange({
              isInstant: event.currentTarget.checked,
              view: event.currentTarget.checked ? "table" : "chart",
            })
          }
        />
        <span>Only at the end</span>
      </label>
    </>
  );
}

function Elapsed({ since }: { since: number }) {
  const [now, setNow] = useState(performance.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), 100);
    return () => clearInterval(timer);
  }, []);
  return <span class="elapsed">{((now - since) / 1000).toFixed(1)} s</span>;
}

function CopyLink() {
  const [said, setSaid] = useState("");
  const copy = () =>
    navigator.clipboard.writeText(location.href).then(
      () => setSaid("Copied"),
      () => setSaid("Copy the address of the page"),
    );
  useEffect(() => {
    const timer = said ? setTimeout(() => setSaid(""), 2000) : undefined;
    return () => clearTimeout(timer);
  }, [said]);
  return (
    <button type="button" class="button" onClick={copy}>
      <span aria-live="polite">{said || "Copy link"}</span>
    </button>
  );
}

/** The language for the editor, with what can be completed once that is loaded. */
function useLanguage(language: Language, database: string): Extension {
  const [loaded, setLoaded] = useState<Extension>([]);
  useEffect(() => {
    const controller = new AbortController();
    const show = (found: Extension) => controller.signal.aborted || setLoaded(found);
    // Without a catalog there is still completion of keywords; queries say what is wrong with the connection.
    const load =
      language === "sql"
        ? loadCatalog(database, controller.signal).then(sqlLanguage)
        : import("../../parts/editor/promql").then(({ promqlLanguage }) => promqlLanguage(database));
    show(language === "sql" ? sqlLanguage({}) : []);
    load.then(show, () => {});
    return () => controller.abort();
  }, [language, database]);
  return loaded;
}

/** Where the error of the last run is, as long as the text is still the one that ran. */
function useMark(run: Run, text: string): Mark | null {
  return useMemo(() => {
    if (run.phase !== "failed" || run.text !== text) return null;
    const place = errorPlace(text, run.message);
    return place && { ...place, message: run.message };
  }, [run, text]);
}

async function formatted({ language, text, database }: QueryState): Promise<string> {
  if (language === "promql") return get<string>("format_query", { query: text }, { database });
  const { formatted: made } = await callJson<{ formatted: string }>("/v1/sql/format", {
    form: { sql: text },
  });
  return made;
}
