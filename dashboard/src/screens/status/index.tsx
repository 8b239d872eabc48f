// Status: what this server does right now. Asked every two seconds while the page is visible.
import { useRef, useState } from "preact/hooks";
import { ErrorBox, Loading } from "../../parts/states";
import "../common/common.css";
import { useScreenKeys } from "../../frame/keys";
import { useZone } from "../../frame/zone";
import { formatMillis } from "../../parts/cells";
import { usePoll } from "../common/poll";
import { loadStatus, type StatusFacts } from "./load";
import { RateHistory, total } from "./metrics";
import { Compactions, Memory, Regions, Rejections, Slow, Statements } from "./panels";
import { Storage } from "./storage";
import { FRONTEND, Tiles } from "./tiles";

const EVERY_MS = 2000;

export const shortcuts = [
  { keys: "p", meaning: "Pause, or go on" },
  { keys: "r", meaning: "Refresh now" },
];

export default function StatusScreen() {
  const [isPaused, setPaused] = useState(false);
  const rates = useRef(new RateHistory());
  useZone();
  const { value, error, atMs, refresh } = usePoll(
    async (signal) => {
      const facts = await loadStatus(signal);
      noteRates(rates.current, facts, Date.now());
      return facts;
    },
    isPaused ? null : EVERY_MS,
    [],
  );
  useScreenKeys({ p: () => setPaused(!isPaused), r: refresh });
  if (!value) return error ? <ErrorBox message={error} onRetry={refresh} /> : <Loading what="the status" />;
  const isFrontend = value.metrics.get("tsdb_app_version")?.[0]?.labels.app === FRONTEND;
  const started = total(value.metrics, "process_start_time_seconds");
  return (
    <div class="screen">
      <div class="live">
        <p class="soft">
          <span class={isPaused || error ? "dot stale" : "dot"} aria-hidden="true" />{" "}
          {isPaused ? "Paused" : "Live"}, as of {formatMillis(atMs, 0)}
        </p>
        <button
          type="button"
          class="button small"
          aria-pressed={isPaused}
          onClick={() => setPaused(!isPaused)}
        >
          {isPaused ? "Go on" : "Pause"}
        </button>
      </div>
      {error && <ErrorBox message={error} onRetry={refresh} />}
      {value.metricsError && <ErrorBox message={`/metrics: ${value.metricsError}`} />}
      {isFrontend && (
        <p class="soft">
          Rates, memory and statements are those of this frontend; regions, compactions and requests to object
          storage are those of all datanodes.
        </p>
      )}
      <Tiles metrics={value.metrics} rates={rates.current} memory={value.memory.rows} nowMs={atMs} />
      <Statements part={value.statements} onKilled={refresh} />
      <Slow part={value.slow} />
      <Regions part={value.regions} />
      <div class="screen-columns">
        <Compactions part={value.compactions} />
        <Memory part={value.memory} />
      </div>
      <Storage
        part={value.storage}
        starts={value.starts}
        startedMs={started === null ? null : started * 1000}
        nowMs={atMs}
        isFrontend={isFrontend}
      />
      <Rejections part={value.rejections} />
    </div>
  );
}

function noteRates(rates: RateHistory, { metrics }: StatusFacts, atMs: number): void {
  const counters = {
    rows: "tsdb_ingest_rows_total",
    statements: "tsdb_database_statements_total",
    rejected: "tsdb_ingest_rejected_rows_total",
    flushed: "tsdb_engine_flush_rows_total",
    compacted: "tsdb_engine_compaction_written_bytes_total",
  };
  // A counter with labels does not exist before it counts; as long as there are metrics it is zero.
  for (const [name, metric] of Object.entries(counters)) {
    rates.add(name, atMs, metrics.size > 0 ? (total(metrics, metric) ?? 0) : null);
  }
}
