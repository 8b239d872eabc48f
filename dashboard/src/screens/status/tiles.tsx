// The row of tiles at the top: what the server is, how long it runs, how much it takes and does.
import type { ComponentChildren } from "preact";
import { countOf, formatBytes, formatCount, formatDuration, formatValue } from "../../parts/cells";
import { Meter, Spark } from "../common/info-table";
import type { MemoryRow } from "./load";
import { type Metrics, type RateHistory, total } from "./metrics";

export const FRONTEND = "tsdb-frontend";

interface Props {
  metrics: Metrics;
  rates: RateHistory;
  memory: MemoryRow[];
  nowMs: number;
}

export function Tiles({ metrics, rates, memory, nowMs }: Props) {
  const version = metrics.get("tsdb_app_version")?.[0]?.labels;
  // The regions of a cluster are on other nodes than a frontend.
  const isEngineHere = version?.app !== FRONTEND;
  const started = total(metrics, "process_start_time_seconds");
  const all = memory.find(({ owner }) => owner === "all_processes");
  const rows = total(metrics, "tsdb_ingest_rows_total");
  return (
    <div class="tiles">
      <Tile title="Uptime">
        <p class="tile-value">{started === null ? "unknown" : formatDuration(nowMs - started * 1000)}</p>
        <p class="soft">
          {version?.app} {version?.version}
        </p>
      </Tile>
      <Tile title="Memory">
        <p class="tile-value">{all ? formatBytes(Number(all.bytes)) : "unknown"}</p>
        {all?.limit_bytes ? (
          <>
            <p class="soft">of {formatBytes(Number(all.limit_bytes))}</p>
            <Meter value={Number(all.bytes)} max={Number(all.limit_bytes)} label="Memory used of the limit" />
          </>
        ) : null}
      </Tile>
      <RateTile title="Rows written per second" rates={rates} name="rows">
        {rows === null ? "none since the start" : `${formatCount(rows)} since the start`}
      </RateTile>
      <RateTile title="Statements per second" rates={rates} name="statements">
        {formatCount(total(metrics, "tsdb_servers_queries_running") ?? 0)} running,{" "}
        {formatCount(total(metrics, "tsdb_servers_queries_waiting") ?? 0)} waiting
      </RateTile>
      <RateTile title="Rows refused per second" rates={rates} name="rejected">
        {formatCount(total(metrics, "tsdb_ingest_rejected_rows_total") ?? 0)} since the start
      </RateTile>
      {isEngineHere && <EngineTiles metrics={metrics} rates={rates} />}
    </div>
  );
}

function EngineTiles({ metrics, rates }: Pick<Props, "metrics" | "rates">) {
  return (
    <>
      <RateTile title="Rows flushed per second" rates={rates} name="flushed">
        {formatBytes(total(metrics, "tsdb_engine_write_buffer_bytes") ?? 0)} in the write buffer
      </RateTile>
      <RateTile title="Bytes compacted per second" rates={rates} name="compacted" format={formatBytes}>
        {formatCount(total(metrics, "tsdb_engine_compactions_running") ?? 0)} running
      </RateTile>
      <Tile title="Data files">
        <p class="tile-value">{formatBytes(total(metrics, "tsdb_engine_data_bytes") ?? 0)}</p>
        <p class="soft">
          {countOf(total(metrics, "tsdb_engine_data_files") ?? 0, "file")} of{" "}
          {countOf(total(metrics, "tsdb_engine_regions") ?? 0, "region")}
        </p>
      </Tile>
    </>
  );
}

function Tile({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section class="tile">
      <h2>{title}</h2>
      {children}
    </section>
  );
}

function formatRate(value: number): string {
  return formatValue(Number(value.toPrecision(3)));
}

interface RateTileProps {
  title: string;
  rates: RateHistory;
  name: string;
  format?: (value: number) => string;
  children: ComponentChildren;
}

function RateTile({ title, rates, name, format = formatRate, children }: RateTileProps) {
  const latest = rates.latest(name);
  const values = rates.points(name).map(({ perSecond }) => perSecond);
  return (
    <Tile title={title}>
      <p class="tile-value">{latest === null ? "…" : format(latest)}</p>
      <p class="soft">{children}</p>
      <Spark values={values} label={`${title}, the last ${values.length * 2} seconds`} />
    </Tile>
  );
}
