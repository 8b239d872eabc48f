// Tables of the cluster: nodes, regions, procedures, failovers.
import { useZone } from "../../frame/zone";
import { countOf, formatBytes, formatCount, formatDuration, formatMillis } from "../../parts/cells";
import { InfoTable, Meter, Reasoned } from "../common/info-table";
import {
  type ClusterFacts,
  type FailoverRow,
  hasFailed,
  type NodeRow,
  type NodeStatus,
  type Part,
  type PeerRow,
  type ProcedureRow,
  REGIONS_MAX,
  statusOf,
} from "./load";

export function Nodes({ nodes, regions }: { nodes: Part<NodeRow>; regions: Map<string, number> }) {
  return (
    <InfoTable
      title="Nodes"
      rows={nodes.rows}
      keyOf={(node) => `${node.peer_type} ${node.peer_addr}`}
      empty={nodes.error || "The server names none."}
      aside={
        nodes.rows.some((node) => statusOf(node).log_lag_seconds !== undefined) && (
          <span class="soft">
            Log behind: age and size of the log entries that the object store does not have yet.
          </span>
        )
      }
      columns={[
        { title: "Node", cell: (node) => <strong>{nameOf(node)}</strong> },
        { title: "State", cell: (node) => <NodeState node={node} status={statusOf(node)} /> },
        { title: "Address", cell: (node) => node.peer_addr },
        {
          title: "Regions",
          isNumber: true,
          cell: (node) => (hasRegions(node) ? formatCount(regions.get(String(node.peer_id)) ?? 0) : ""),
        },
        { title: "Log behind", isNumber: true, cell: (node) => <Lag status={statusOf(node)} /> },
        {
          title: "CPU",
          isNumber: true,
          cell: (node) => (
            <Used
              value={node.cpu_usage_millicores}
              max={node.total_cpu_millicores}
              format={cores}
              what="CPU"
            />
          ),
        },
        {
          title: "Memory",
          isNumber: true,
          cell: (node) => (
            <Used
              value={node.memory_usage_bytes}
              max={node.total_memory_bytes}
              format={formatBytes}
              what="Memory"
            />
          ),
        },
        { title: "Uptime", cell: (node) => (node.version ? node.uptime : "") },
        { title: "Version", cell: (node) => node.version },
      ]}
    />
  );
}

/** When a node was heard, from text such as 2m1s390ms. */
export function heard(since: string): string {
  const rough = withoutMillis(since);
  return rough ? `heard ${rough} ago` : "heard just now";
}

/** Milliseconds matter to nobody, and change at every look. */
function withoutMillis(duration: string): string {
  return duration.replace(/\d+ms$/, "").replace(/(?<=[a-z])(?=\d)/g, " ");
}

function nameOf(node: NodeRow): string {
  const kind = node.peer_type.toLowerCase();
  return node.peer_type === "DATANODE" ? `${kind} ${node.peer_id}` : kind;
}

function hasRegions(node: NodeRow): boolean {
  return node.peer_type === "DATANODE" || node.peer_type === "STANDALONE";
}

function NodeState({ node, status }: { node: NodeRow; status: NodeStatus }) {
  if (status.is_leader !== undefined)
    return (
      <span class={`badge ${status.is_leader ? "good" : ""}`}>{status.is_leader ? "leads" : "follows"}</span>
    );
  if (status.is_alive === false)
    return <span class="badge bad">{`silent for ${withoutMillis(node.active_time ?? "") || "long"}`}</span>;
  return <span class="badge good">{node.active_time ? heard(node.active_time) : "answers"}</span>;
}

function Lag({ status }: { status: NodeStatus }) {
  const { log_lag_seconds: seconds, log_unshipped_bytes: bytes = 0 } = status;
  if (seconds === undefined || status.is_alive === false) return null;
  const kind = seconds > 10 ? "bad" : seconds > 2 ? "warn" : "";
  return (
    <span class={`badge ${kind}`}>
      {bytes === 0 ? "0 s" : `${formatDuration(seconds * 1000)}, ${formatBytes(bytes)}`}
    </span>
  );
}

function Used({
  value,
  max,
  format,
  what,
}: {
  value: number;
  max: number;
  format: (value: number) => string;
  what: string;
}) {
  if (!max) return null;
  return (
    <>
      {format(Number(value))} of {format(Number(max))}
      <Meter value={Number(value)} max={Number(max)} label={`${what} used`} />
    </>
  );
}

function cores(millicores: number): string {
  return (millicores / 1000).toFixed(millicores % 1000 === 0 ? 0 : 2);
}

interface RegionsProps {
  facts: ClusterFacts;
  filter: string;
  onFilter: (text: string) => void;
  /** None where regions cannot be moved. */
  onMove: ((region: PeerRow) => void) | null;
}

export function Regions({ facts, filter, onFilter, onMove }: RegionsProps) {
  const shown = facts.peers.rows.slice(0, REGIONS_MAX);
  const statistics = (row: PeerRow) => facts.statistics.get(String(row.region_id));
  const move = {
    title: "Move",
    cell: (row: PeerRow) => (
      <button
        type="button"
        class="button small"
        aria-label={`Move region ${row.region_id} of ${row.table_name}`}
        disabled={row.peer_id === null}
        onClick={() => onMove?.(row)}
      >
        Move…
      </button>
    ),
  };
  return (
    <InfoTable
      title="Regions"
      rows={shown}
      keyOf={(row) => String(row.region_id)}
      empty={facts.peers.error || (filter ? "No table has this in its name." : "There are no tables yet.")}
      aside={
        <>
          <input
            type="search"
            aria-label="Filter regions by table"
            placeholder="Filter by table"
            value={filter}
            onInput={(event) => onFilter(event.currentTarget.value)}
          />
          {facts.peers.rows.length > REGIONS_MAX && (
            <span class="soft">the first {REGIONS_MAX}; filter to see others</span>
          )}
          {facts.statisticsError && <span class="error-text">{facts.statisticsError}</span>}
        </>
      }
      columns={[
        { title: "Table", cell: (row) => `${row.table_schema}.${row.table_name}` },
        { title: "Region", cell: (row) => String(row.region_id) },
        {
          title: "Node",
          cell: (row) => (row.peer_id === null ? "nowhere" : `${row.peer_id}, ${row.peer_addr}`),
        },
        { title: "State", cell: (row) => <RegionState row={row} why={statistics(row)?.reason} /> },
        { title: "Rows", isNumber: true, cell: (row) => count(statistics(row)?.region_rows) },
        { title: "On disk", isNumber: true, cell: (row) => bytes(statistics(row)?.disk_size) },
        { title: "In memory", isNumber: true, cell: (row) => bytes(statistics(row)?.memtable_size) },
        ...(onMove ? [move] : []),
      ]}
    />
  );
}

/** The state of a region; why it is down, or else why its node tells nothing of it. */
function RegionState({ row, why }: { row: PeerRow; why: string | null | undefined }) {
  const status = row.status ?? "UNKNOWN";
  const kind = status === "ALIVE" ? "good" : status === "MOVING" ? "warn" : "bad";
  const since = row.down_seconds === null ? "" : ` for ${formatDuration(Number(row.down_seconds) * 1000)}`;
  return <Reasoned kind={kind} state={status.toLowerCase() + since} reason={row.reason ?? why} />;
}

function count(value: number | null | undefined): string {
  return value === null || value === undefined ? "" : formatCount(Number(value));
}

function bytes(value: number | null | undefined): string {
  return value === null || value === undefined ? "" : formatBytes(Number(value));
}

export function Procedures({ part }: { part: Part<ProcedureRow> }) {
  useZone();
  return (
    <InfoTable
      title="Procedures"
      rows={part.rows}
      keyOf={(row) => row.procedure_id}
      empty={part.error || "No table or region was changed lately."}
      columns={[
        { title: "Kind", cell: (row) => row.procedure_type.replaceAll("_", " ") },
        { title: "Of", isWide: true, cell: (row) => row.lock_keys ?? "" },
        {
          title: "State",
          cell: (row) => (
            <Reasoned
              kind={stateKind(row.status)}
              state={row.status}
              reason={row.attempts ? countOf(Number(row.attempts), "attempt") : ""}
              error={row.last_error ?? null}
            />
          ),
        },
        {
          title: "Began",
          cell: (row) => (row.start_time === null ? "" : formatMillis(Number(row.start_time), 0)),
        },
        { title: "Took", isNumber: true, cell: (row) => took(row.start_time, row.end_time) },
        { title: "Id", cell: (row) => <code>{row.procedure_id}</code> },
      ]}
    />
  );
}

export function Failovers({ part }: { part: Part<FailoverRow> }) {
  useZone();
  return (
    <InfoTable
      title="Failovers"
      rows={part.rows}
      keyOf={(row) => `${row.failover_id} ${row.region_id}`}
      empty={part.error || "No region was taken from a lost node."}
      columns={[
        { title: "When", cell: (row) => formatMillis(Number(row.start_time), 0) },
        { title: "Region", cell: (row) => String(row.region_id) },
        { title: "From → to", cell: (row) => `${row.from_peer_id} → ${row.to_peer_id ?? "nowhere yet"}` },
        {
          title: "State",
          cell: (row) => (
            <Reasoned kind={stateKind(row.state)} state={row.state} reason="" error={row.last_error} />
          ),
        },
        { title: "Reason", isWide: true, cell: (row) => row.reason },
        { title: "Took", isNumber: true, cell: (row) => took(row.start_time, row.end_time) },
        { title: "Entries at risk", cell: (row) => lost(row) },
        { title: "Rows that came back", cell: (row) => cameBack(row) },
      ]}
    />
  );
}

export function lost({
  lost_from_entry: from,
  lost_to_entry: to,
}: Pick<FailoverRow, "lost_from_entry" | "lost_to_entry">): string {
  return from === null ? "none" : `${from} to ${to ?? "the last"}`;
}

/** What the lost node had and sent when it was back. */
export function cameBack({
  lost_from_entry: from,
  recovered_rows: rows,
}: Pick<FailoverRow, "lost_from_entry" | "recovered_rows">): string {
  if (rows !== null) return Number(rows) === 0 ? "0, none was missing" : formatCount(Number(rows));
  return from === null ? "" : "the node is not back yet";
}

function took(start: number | null, end: number | null): string {
  return start === null || end === null ? "" : formatDuration(Math.max(0, Number(end) - Number(start)));
}

function stateKind(state: string): string {
  if (hasFailed(state)) return "bad";
  return state === "Done" ? "good" : "warn";
}
