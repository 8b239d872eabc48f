import { expect, test } from "vitest";
import { parseAddresses, reachable } from "../src/screens/ingest/addresses";
import { describeLine, isClean } from "../src/screens/ingest/dry-run";
import { makeSnippets } from "../src/screens/ingest/snippets";

const CONFIG = `mode = "standalone"

[http]
addr = "0.0.0.0:4000"  # default
timeout = "30s"

[grpc]
addr = "0.0.0.0:4001"  # default

[mysql]
enable = false  # default
addr = "127.0.0.1:4002"

[mysql.tls]
mode = "disable"

[postgres]
enable = true
addr = "10.0.0.5:4003"

[[region_engine]]
addr = "not of a section"
`;

test("addresses come from the configuration; one that listens everywhere has the name of the page", () => {
  const found = reachable(parseAddresses(CONFIG), "db.example");
  expect(found).toEqual({ grpc: "db.example:4001", mysql: null, postgres: "10.0.0.5:4003", opentsdb: null });
});

test("snippets have the addresses and the database, and leave out what is off", () => {
  const addresses = {
    http: "http://db:4000",
    grpc: "db:4001",
    mysql: null,
    postgres: "db:4003",
    opentsdb: null,
  };
  const snippets = makeSnippets(addresses, "my db");
  const names = snippets.map(({ name }) => name);
  expect(names).toEqual([
    "line-protocol",
    "telegraf",
    "prometheus",
    "vector",
    "otlp",
    "opentsdb",
    "postgres",
    "grpc",
  ]);
  expect(snippets[0]?.text).toContain("http://db:4000/v1/influxdb/write?db=my%20db");
  expect(snippets.at(-1)?.text).toContain("grpc://db:4001");
});

test("a dry run is clean only if every line was read and fits", () => {
  const clean = {
    rows: 1,
    created_tables: [],
    added_columns: [],
    rejections: [],
    lines: [],
    lines_total: 1,
    unread_from: null,
  };
  expect(isClean(clean)).toBe(true);
  expect(isClean({ ...clean, lines_total: 0 })).toBe(false);
  expect(isClean({ ...clean, unread_from: 5 })).toBe(false);
  expect(isClean({ ...clean, rejections: [{ table: "", reason: "x", place: 1, rows: 1 }] })).toBe(false);
  const added = describeLine({ line: 1, outcome: "fits", reason: null, adds_columns: ["a", "b"] });
  expect(added).toBe("adds the columns a, b");
});
