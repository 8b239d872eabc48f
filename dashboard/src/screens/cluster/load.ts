// Nodes, regions, procedures and failovers of a cluster, and what can be asked of it.
import { messageOf } from "../../api/client";
import { queryObjects, queryTable, quoteText } from "../../api/sql";

export interface NodeRow {
  peer_id: number | bigint;
  peer_type: string;
  peer_addr: string;
  peer_hostname: string;
  total_cpu_millicores: number;
  total_memory_bytes: number;
  cpu_usage_millicores: number;
  memory_usage_bytes: number;
  version: string;
  uptime: string;
  active_time: string | null;
  node_status: string | null;
}

/** What a node tells of itself beside the columns. */
export interface NodeStatus {
  is_alive?: boolean;
  is_leader?: boolean;
  log_lag_seconds?: number;
  log_unshipped_bytes?: number;
}

export interface PeerRow {
  table_schema: string;
  table_name: string;
  region_id: number | bigint;
  peer_id: number | bigint | null;
  peer_addr: string | null;
  status: string | null;
  down_seconds: number | null;
  /** Why it is down. */
  reason: string | null;
}

export interface RegionStatistics {
  region_id: number | bigint;
  region_rows: number | null;
  disk_size: number | null;
  memtable_size: number | null;
  unflushed_seconds: number | null;
  state: string | null;
  reason: string | null;
}

export interface ProcedureRow {
  procedure_id: string;
  procedure_type: string;
  start_time: number | null;
  end_time: number | null;
  status: string;
  lock_keys: string | null;
  /** How often it was tried to finish it after it had been interrupted. */
  attempts?: number | bigint | null;
  last_error?: string | null;
}

export interface FailoverRow {
  failover_id: string;
  region_id: number | bigint;
  from_peer_id: number | bigint;
  to_peer_id: number | bigint | null;
  state: string;
  reason: string;
  start_time: number;
  end_time: number | null;
  lost_from_entry: number | bigint | null;
  lost_to_entry: number | bigint | null;
  /** Null until the lost node is back and has sent what it had. */
  recovered_rows: number | bigint | null;
  last_error: string | null;
}

export type Part<T> = { rows: T[]; error: string };

export interface ClusterFacts {
  nodes: Part<NodeRow>;
  peers: Part<PeerRow>;
  /** How many regions each node has, by its id. */
  regions: Map<string, number>;
  statistics: Map<string, RegionStatistics>;
  statisticsError: string;
  procedures: Part<ProcedureRow>;
  failovers: Part<FailoverRow>;
}

/** More regions than this are not shown; the filter finds the others. */
export const REGIONS_MAX = 500;
const SCHEMA = "information_schema";

export async function loadCluster(filter: string, signal: AbortSignal): Promise<ClusterFacts> {
  const [nodes, [peers, statistics], counts, procedures, failovers] = await Promise.all([
    rowsOf<NodeRow>(`SELECT * FROM ${SCHEMA}.cluster_info`, signal),
    loadRegions(filter, signal),
    rowsOf<{ peer_id: number | bigint | null; n: number }>(
      `SELECT peer_id, count(*) AS n FROM ${SCHEMA}.region_peers GROUP BY peer_id`,
      signal,
    ),
    rowsOf<ProcedureRow>(`SELECT * FROM ${SCHEMA}.procedure_info ORDER BY start_time DESC LIMIT 100`, signal),
    rowsOf<FailoverRow>(
      `SELECT * FROM ${SCHEMA}.region_failovers ORDER BY start_time DESC LIMIT 100`,
      signal,
    ),
  ]);
  if (nodes.error && peers.error) throw nodes.failure;
  return {
    nodes,
    peers,
    regions: new Map(counts.rows.map(({ peer_id, n }) => [String(peer_id), Number(n)])),
    statistics: new Map(statistics.rows.map((row) => [String(row.region_id), row])),
    statisticsError: statistics.error,
    procedures,
    failovers,
  };
}

/** The regions of the tables whose names have the filter in them, and the statistics of those that are shown. */
async function loadRegions(
  filter: string,
  signal: AbortSignal,
): Promise<[Part<PeerRow>, Part<RegionStatistics>]> {
  const wanted = filter.trim();
  const like = wanted
    ? ` WHERE table_schema || '.' || table_name LIKE ${quoteText(`%${escapeLike(wanted)}%`)}`
    : "";
  const peers = await rowsOf<PeerRow>(
    `SELECT table_schema, table_name, region_id, peer_id, peer_addr, status, down_seconds, reason
     FROM ${SCHEMA}.region_peers${like} ORDER BY table_schema, table_name, region_id LIMIT ${REGIONS_MAX + 1}`,
    signal,
  );
  if (peers.rows.length === 0) return [peers, { rows: [], error: "" }];
  const ids = peers.rows.map(({ region_id }) => String(region_id)).join(", ");
  const statistics = await rowsOf<RegionStatistics>(
    `SELECT region_id, region_rows, disk_size, memtable_size, unflushed_seconds, state, reason
     FROM ${SCHEMA}.region_statistics WHERE region_id IN (${ids})`,
    signal,
  );
  return [peers, statistics];
}

async function rowsOf<T>(sql: string, signal: AbortSignal): Promise<Part<T> & { failure: unknown }> {
  try {
    return { rows: await queryObjects<T>(sql, { signal }), error: "", failure: null };
  } catch (failure) {
    return { rows: [], error: messageOf(failure), failure };
  }
}

function escapeLike(text: string): string {
  return text.replace(/[\\%_]/g, "\\$&");
}

export function statusOf(node: NodeRow): NodeStatus {
  try {
    return node.node_status === null ? {} : (JSON.parse(node.node_status) as NodeStatus);
  } catch {
    return {};
  }
}

export function isStandalone(nodes: readonly NodeRow[]): boolean {
  return nodes.length === 1 && nodes[0]?.peer_type === "STANDALONE";
}

/** The live datanodes, by their ids. */
export function liveDatanodes(nodes: readonly NodeRow[]): NodeRow[] {
  return nodes.filter((node) => node.peer_type === "DATANODE" && statusOf(node).is_alive !== false);
}

/** Begin to move a region; the id of the procedure. */
export async function migrateRegion(region: string, from: string, to: string): Promise<string> {
  return firstCell(`ADMIN migrate_region(${digits(region)}, ${digits(from)}, ${digits(to)})`);
}

export async function balanceRegions(): Promise<string> {
  return firstCell("ADMIN balance_regions()");
}

/** Whether a procedure or failover has ended without doing what it was for. */
export function hasFailed(state: string): boolean {
  return ["Failed", "Cancelled", "Undone"].includes(state);
}

export interface ProcedureState {
  status: string;
  error: string | null;
}

export async function procedureState(id: string): Promise<ProcedureState> {
  return JSON.parse(await firstCell(`ADMIN procedure_state(${quoteText(id)})`)) as ProcedureState;
}

async function firstCell(sql: string): Promise<string> {
  const cell = (await queryTable(sql)).rows[0]?.[0];
  return typeof cell === "object" && cell !== null ? JSON.stringify(cell) : String(cell);
}

function digits(text: string): string {
  if (!/^\d+$/.test(text)) throw new Error(`${text} is not an id`);
  return text;
}
