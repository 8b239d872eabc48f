// What the screen Cluster makes of the words of the server.
import { expect, test } from "vitest";
import { cameBack, heard, lost } from "../src/screens/cluster/panels";

test.each([
  ["555ms", "heard just now"],
  ["1s390ms", "heard 1s ago"],
  ["2m1s390ms", "heard 2m 1s ago"],
  ["2m", "heard 2m ago"],
])("a node that was active %s ago", (since, said) => expect(heard(since)).toBe(said));

test.each([
  [null, null, null, "none", ""],
  [7, null, null, "7 to the last", "the node is not back yet"],
  [7, 9, 0, "7 to 9", "0, none was missing"],
  [7, 9, 1200, "7 to 9", "1,200"],
])("entries at risk from %s to %s, of which %s rows came back", (from, to, rows, atRisk, back) => {
  const failover = { lost_from_entry: from, lost_to_entry: to, recovered_rows: rows };
  expect([lost(failover), cameBack(failover)]).toEqual([atRisk, back]);
});
