// What the screen Status makes of rows of several nodes.
import { expect, test } from "vitest";
import { billOf, formatDollars, sumRequests, troublesOf } from "../src/screens/status/bill";
import type { CompactionRow, StorageRow } from "../src/screens/status/load";
import { compactionKey } from "../src/screens/status/panels";

const HOUR_MS = 3_600_000;
const NOW_MS = 1_700_000_000_000;

function row(changes: Partial<StorageRow>): StorageRow {
  const counts = { requests: 1, errors: 0, retries: 0, bytes: 10, estimated_cost: 0.5 };
  return { node_id: 1, store: "S3", operation: "put", purpose: "log", ...counts, ...changes };
}

test("requests of several nodes are summed by store, operation and purpose, the dearest first", () => {
  const sums = sumRequests([
    row({ estimated_cost: 0.1 }),
    row({ operation: "get", estimated_cost: 1, requests: 7 }),
    row({ node_id: 2, estimated_cost: 0.2, errors: 3, bytes: 5 }),
  ]);
  expect(sums.map(({ operation, requests, errors, bytes }) => [operation, requests, errors, bytes])).toEqual([
    ["get", 7, 0, 10],
    ["put", 2, 3, 15],
  ]);
  expect(sums[1]?.estimated_cost).toBeCloseTo(0.3);
});

test("rows of a server that does not name nodes are summed alike", () => {
  const { node_id: _, ...nameless } = row({});
  expect(sumRequests([nameless, nameless])[0]?.requests).toBe(2);
  expect(billOf([nameless], [], NOW_MS - HOUR_MS, NOW_MS)).toEqual({ total: 0.5, perMonth: 360, nodes: 1 });
});

test("the bill of a month is that of each node at its rate since its own start", () => {
  const starts = [
    { peer_id: 1, start_time: NOW_MS - HOUR_MS },
    { peer_id: 2, start_time: NOW_MS - 2 * HOUR_MS },
  ];
  const rows = [row({}), row({ operation: "get" }), row({ node_id: 2, estimated_cost: 2 })];
  expect(billOf(rows, starts, null, NOW_MS)).toEqual({ total: 3, perMonth: 720 + 720, nodes: 2 });
});

test("nothing is said of a month while a node has just started, or its start is not known", () => {
  const starts = [{ peer_id: 1, start_time: NOW_MS - 59_000 }];
  expect(billOf([row({})], starts, NOW_MS - HOUR_MS, NOW_MS).perMonth).toBeNull();
  expect(billOf([row({})], [], null, NOW_MS).perMonth).toBeNull();
});

test("what is wrong with a store is said once for each node", () => {
  const down = { state: "down", last_error: "connection refused" };
  const rows = [
    row({ state: "ok", reason: null }),
    row({ ...down, node_id: 2 }),
    row({ ...down, node_id: 2, operation: "get" }),
    row({ state: "refusing", reason: "403", node_id: null }),
  ];
  expect(troublesOf(rows)).toEqual(["S3 is down for node 2: connection refused", "S3 is refusing: 403"]);
});

test.each([
  [0, "$0.00"],
  [0.00012, "$0.0001"],
  [12.3456, "$12.35"],
])("%s dollars are written as %s", (amount, text) => expect(formatDollars(amount)).toBe(text));

test("compactions of different nodes with the same number are different rows", () => {
  const compaction = { compaction_id: 3, region_id: 7, start_time: 5 } as CompactionRow;
  const keys = [
    compactionKey(compaction),
    compactionKey({ ...compaction, node_id: 2 }),
    compactionKey({ ...compaction, region_id: 8 }),
    compactionKey({ ...compaction, start_time: 6 }),
  ];
  expect(new Set(keys).size).toBe(4);
});
