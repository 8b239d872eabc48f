// What the screen asks of the server: metrics, and tables of information_schema.
import { call, messageOf } from "../../api/client";
import { queryObjects, quoteText, runSql } from "../../api/sql";
import { type Metrics, parseMetrics } from "./metrics";

export interface MemoryRow {
  owner: string;
  bytes: number;
  limit_bytes: number | null;
  state: string;
  reason: string | null;
}

export interface StatementRow {
  id: string;
  schemas: string;
  query: string;
  client: string;
  frontend: string;
  elapsed_time: number;
}

export interface SlowQueryRow {
  timestamp: number | bigint;
  cost: number;
  threshold: number;
  query: string;
  is_promql: boolean;
}

export interface CompactionRow {
  /** Of the node that told it, if it is one of several. */
  node_id?: number | bigint | null;
  compaction_id: number;
  region_id: number | bigint;
  table_schema: string;
  table_name: string;
  state: string;
  reason: string;
  start_time: number;
  duration_millis: number | null;
  progress: number;
  input_files: number;
  output_files: number;
  input_bytes: number;
  output_bytes: number;
  error: string | null;
}

export interface RegionRow {
  region_id: number | bigint;
  table_id: number;
  table_name: string;
  memtable_rows: number | null;
  memtable_size: number | null;
  flush_state: string | null;
  flush_reason: string | null;
  compaction_state: string | null;
  compaction_reason: string | null;
  last_flush_error: string | null;
  last_compaction_error: string | null;
  quarantined_files: number | null;
  state: string | null;
  reason: string | null;
}

export interface RejectionRow {
  timestamp: number;
  protocol: string;
  database: string;
  table: string;
  place: number | null;
  reason: string;
  rows: number;
}

export interface StorageRow {
  /** Of the node that asked. */
  node_id?: number | bigint | null;
  store: string;
  operation: string;
  purpose: string;
  requests: number;
  errors: number;
  retries: number;
  bytes: number;
  estimated_cost: number;
  /** Of the store as the node sees it, if it tells. */
  state?: string | null;
  reason?: string | null;
  last_error?: string | null;
}

/** When a node started, in milliseconds since 1970. */
export interface NodeStartRow {
  peer_id: number | bigint;
  start_time: number;
}

/** What was asked, or why there is no answer. */
export type Part<T> = { rows: T[]; error: string };

export interface StatusFacts {
  metrics: Metrics;
  metricsError: string;
  memory: Part<MemoryRow>;
  statements: Part<StatementRow>;
  slow: Part<SlowQueryRow>;
  compactions: Part<CompactionRow>;
  regions: Part<RegionRow>;
  rejections: Part<RejectionRow>;
  storage: Part<StorageRow>;
  starts: Part<NodeStartRow>;
}

const ROWS_MAX = 50;
/** The screen's own statements are not shown among those that run. */
const OWN = "/* dashboard status */";
const SCHEMA = "information_schema";

// A region that neither flushes nor compacts and has no trouble is not shown.
const BUSY_REGIONS = `SELECT r.region_id, r.table_id, t.table_name, r.memtable_rows, r.memtable_size, r.flush_state, r.flush_reason,
  r.compaction_state, r.compaction_reason, r.last_flush_error, r.last_compaction_error, r.quarantined_files, r.state, r.reason
  FROM ${SCHEMA}.region_statistics r LEFT JOIN ${SCHEMA}.tables t ON r.table_id = t.table_id
  WHERE r.flush_state <> 'idle' OR r.compaction_state <> 'idle' OR r.last_flush_error IS NOT NULL
    OR r.last_compaction_error IS NOT NULL OR r.quarantined_files > 0 OR r.memtable_rows > 0
  ORDER BY r.memtable_size DESC LIMIT ${ROWS_MAX}`;

export async function loadStatus(signal: AbortSignal): Promise<StatusFacts> {
  const [page, memory, statements, slow, compactions, regions, rejections, storage, starts] =
    await Promise.all([
      loadMetrics(signal),
      rowsOf<MemoryRow>(
        `SELECT owner, bytes, limit_bytes, state, reason FROM ${SCHEMA}.memory_usage`,
        signal,
      ),
      rowsOf<StatementRow>(
        `SELECT id, schemas, query, client, frontend, CAST(elapsed_time AS BIGINT) AS elapsed_time FROM ${SCHEMA}.process_list
       WHERE query NOT LIKE '%${OWN}%' ORDER BY elapsed_time DESC LIMIT ${ROWS_MAX}`,
        signal,
      ),
      loadSlow(signal),
      rowsOf<CompactionRow>(
        `SELECT * FROM ${SCHEMA}.compaction_history ORDER BY start_time DESC LIMIT ${ROWS_MAX}`,
        signal,
      ),
      rowsOf<RegionRow>(BUSY_REGIONS, signal),
      rowsOf<RejectionRow>(
        `SELECT * FROM ${SCHEMA}.ingest_rejections ORDER BY "timestamp" DESC LIMIT ${ROWS_MAX}`,
        signal,
      ),
      rowsOf<StorageRow>(`SELECT * FROM ${SCHEMA}.storage_requests`, signal),
      rowsOf<NodeStartRow>(
        `SELECT peer_id, start_time FROM ${SCHEMA}.cluster_info
       WHERE peer_type IN ('DATANODE', 'STANDALONE') AND start_time IS NOT NULL`,
        signal,
      ),
    ]);
  if (page.failure && memory.failure) throw page.failure;
  return {
    metrics: page.metrics,
    metricsError: page.failure ? messageOf(page.failure) : "",
    memory,
    statements,
    slow,
    compactions,
    regions,
    rejections,
    storage,
    starts,
  };
}

async function loadMetrics(signal: AbortSignal): Promise<{ metrics: Metrics; failure: unknown }> {
  try {
    return { metrics: parseMetrics(await (await call("/metrics", { signal })).text()), failure: null };
  } catch (failure) {
    return { metrics: new Map(), failure };
  }
}

async function rowsOf<T>(sql: string, signal: AbortSignal): Promise<Part<T> & { failure: unknown }> {
  try {
    const marked = sql.replace("SELECT", `SELECT ${OWN}`);
    return { rows: await queryObjects<T>(marked, { signal }), error: "", failure: null };
  } catch (failure) {
    return { rows: [], error: messageOf(failure), failure };
  }
}

const SLOW_TABLE = "tsdb_private.slow_queries";

/** The table of slow queries is created with the first of them. */
async function loadSlow(signal: AbortSignal): Promise<Part<SlowQueryRow>> {
  const exists = await rowsOf<{ n: number }>(
    `SELECT count(*) AS n FROM ${SCHEMA}.tables WHERE table_schema = 'tsdb_private' AND table_name = 'slow_queries'`,
    signal,
  );
  if (exists.error || exists.rows[0]?.n === 0) return { rows: [], error: exists.error };
  return rowsOf<SlowQueryRow>(
    `SELECT "timestamp", cost, threshold, query, is_promql FROM ${SLOW_TABLE} ORDER BY "timestamp" DESC LIMIT ${ROWS_MAX}`,
    signal,
  );
}

export async function killStatement(id: string): Promise<void> {
  await runSql(`KILL ${quoteText(id)}`);
}
