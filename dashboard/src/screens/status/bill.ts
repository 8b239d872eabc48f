// What requests to object storage cost: the sum over nodes, since they started and at this rate in a month.
import type { NodeStartRow, StorageRow } from "./load";

const MONTH_MS = 30 * 86_400_000;
/** In a shorter time a node has mostly started, which says nothing of a month. */
const SEEN_MS_MIN = 60_000;

/** Rows of the same store, operation and purpose become one, whichever nodes they are from; the dearest first. */
export function sumRequests(rows: readonly StorageRow[]): StorageRow[] {
  const sums = new Map<string, StorageRow>();
  for (const row of rows) {
    const key = requestKey(row);
    const sum = sums.get(key);
    sums.set(key, {
      store: row.store,
      operation: row.operation,
      purpose: row.purpose,
      requests: Number(row.requests) + (sum?.requests ?? 0),
      errors: Number(row.errors) + (sum?.errors ?? 0),
      retries: Number(row.retries) + (sum?.retries ?? 0),
      bytes: Number(row.bytes) + (sum?.bytes ?? 0),
      estimated_cost: Number(row.estimated_cost) + (sum?.estimated_cost ?? 0),
    });
  }
  return [...sums.values()].sort(
    (left, right) => right.estimated_cost - left.estimated_cost || right.requests - left.requests,
  );
}

export function requestKey({ store, operation, purpose }: StorageRow): string {
  return [store, operation, purpose].join(" ");
}

export interface Bill {
  /** Dollars since the nodes started. */
  total: number;
  /** Dollars in 30 days if all goes on like this; null as long as a node runs for too short a time to tell. */
  perMonth: number | null;
  nodes: number;
}

/** The bill of all nodes; one whose start is not known started when this server did. */
export function billOf(
  rows: readonly StorageRow[],
  starts: readonly NodeStartRow[],
  startedMs: number | null,
  nowMs: number,
): Bill {
  const startOf = new Map(starts.map(({ peer_id, start_time }) => [String(peer_id), Number(start_time)]));
  const costs = new Map<string, number>();
  for (const { node_id, estimated_cost } of rows) {
    const node = String(node_id ?? "");
    costs.set(node, (costs.get(node) ?? 0) + Number(estimated_cost));
  }
  let total = 0;
  let perMonth: number | null = 0;
  for (const [node, cost] of costs) {
    total += cost;
    const seenMs = nowMs - (startOf.get(node) ?? startedMs ?? nowMs);
    perMonth = perMonth === null || seenMs < SEEN_MS_MIN ? null : perMonth + (cost * MONTH_MS) / seenMs;
  }
  return { total, perMonth, nodes: costs.size };
}

/** What is wrong with stores, once for each node that says so. */
export function troublesOf(rows: readonly StorageRow[]): string[] {
  const found = rows
    .filter(({ state }) => state && state !== "ok")
    .map(({ store, state, reason, last_error, node_id }) => {
      const whose = node_id === undefined || node_id === null ? "" : ` for node ${node_id}`;
      return `${store} is ${state}${whose}: ${last_error || reason || "the reason is not known"}`;
    });
  return [...new Set(found)];
}

/** Dollars, with as many digits as say something. */
export function formatDollars(amount: number): string {
  return `$${amount.toFixed(amount >= 1 || amount === 0 ? 2 : 4)}`;
}
