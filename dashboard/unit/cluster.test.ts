// What the screen Cluster makes of the words of the server.
import { expect, test } from "vitest";
import { heard } from "../src/screens/cluster/panels";

test.each([
  ["555ms", "heard just now"],
  ["1s390ms", "heard 1s ago"],
  ["2m1s390ms", "heard 2m 1s ago"],
  ["2m", "heard 2m ago"],
])("a node that was active %s ago", (since, said) => expect(heard(since)).toBe(said));
