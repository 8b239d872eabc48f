import { expect, test } from "vitest";
import { type Addresses, parseAddresses, reachable } from "../src/screens/ingest/addresses";
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

[postgres.tls]
mode = "prefer"  # default
cert_path = "/etc/cert.pem"

[[region_engine]]
addr = "not of a section"
`;

test("addresses come from the configuration; one that listens everywhere has the name of the page", () => {
  const found = reachable(parseAddresses(CONFIG), "db.example");
  expect(found).toEqual({
    grpc: { address: "db.example:4001", usesTls: false },
    mysql: null,
    postgres: { address: "10.0.0.5:4003", usesTls: true },
    opentsdb: null,
  });
});

test.each([
  ["disable", false, false],
  ["prefer", false, true],
  ["require", true, true],
  ["verify_full", true, true],
])("with TLS %s, gRPC is encrypted: %s, MySQL and PostgreSQL are: %s", (mode, byGrpc, byOthers) => {
  const sections = ["grpc", "mysql", "postgres"].map(
    (name) => `[${name}]\naddr = "db:1"\n[${name}.tls]\nmode = "${mode}"\n`,
  );
  const { grpc, mysql, postgres } = reachable(parseAddresses(sections.join("")), "page");
  expect([grpc?.usesTls, mysql?.usesTls, postgres?.usesTls]).toEqual([byGrpc, byOthers, byOthers]);
});

const PLAIN: Addresses = {
  http: "http://db:4000",
  grpc: { address: "db:4001", usesTls: false },
  mysql: { address: "db:4002", usesTls: false },
  postgres: { address: "db:4003", usesTls: false },
  opentsdb: { address: "db:4242", usesTls: false },
  user: null,
};

function textsOf(addresses: Addresses, database: string): Record<string, string> {
  return Object.fromEntries(makeSnippets(addresses, database).map(({ name, text }) => [name, text]));
}

test("snippets have the addresses and the database, and leave out what is off", () => {
  const snippets = makeSnippets({ ...PLAIN, mysql: null, opentsdb: null }, "my db");
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
  expect(snippets.at(-1)?.text).toContain('"grpc://db:4001"');
});

test("without TLS and users, snippets speak of neither", () => {
  const texts = textsOf(PLAIN, "public");
  expect(texts.mysql).toMatch(/^mysql -h db -P 4002 -u me public\n/);
  expect(texts.postgres).toMatch(/^psql -h db -p 4003 -U me public\n/);
  expect(texts.opentsdb).toContain("nc -q 1 db 4242");
  expect(JSON.stringify(texts)).not.toMatch(/PASSWORD|ssl|tls|auth|curl -i -u/);
});

test("snippets ask for TLS where the server has it", () => {
  const addresses = {
    ...PLAIN,
    grpc: { address: "db:4001", usesTls: true },
    mysql: { address: "db:4002", usesTls: true },
    postgres: { address: "db:4003", usesTls: true },
  };
  const texts = textsOf(addresses, "public");
  expect(texts.grpc).toContain('flight.connect("grpc+tls://db:4001", autocommit=True)');
  expect(texts.mysql).toContain("mysql -h db -P 4002 --ssl-mode=REQUIRED -u me public");
  expect(texts.postgres).toContain("psql 'postgresql://me@db:4003/public?sslmode=require'");
});

test("snippets log in as the user of the page, in every protocol", () => {
  const texts = textsOf({ ...PLAIN, user: "ann" }, "public");
  expect(texts["line-protocol"]).toContain("curl -i -u ann 'http://db:4000/v1/influxdb/write");
  expect(texts.telegraf).toContain('token = "ann:PASSWORD"');
  expect(texts.prometheus?.match(/basic_auth: {username: "ann", password: PASSWORD}/g)).toHaveLength(2);
  expect(texts.vector).toContain('auth = {strategy = "basic", user = "ann", password = "PASSWORD"}');
  expect(texts.otlp?.match(/auth: {authenticator: basicauth\/tsdb}/g)).toHaveLength(2);
  expect(texts.otlp).toContain("extensions: [basicauth/tsdb]");
  expect(texts.opentsdb).toContain("curl -i -u ann ");
  expect(texts.opentsdb).not.toContain("nc -q");
  expect(texts.mysql).toContain("-u ann -p public");
  expect(texts.postgres).toContain("-U ann public\n");
  expect(texts.grpc).toContain('db_kwargs={"username": "ann", "password": "PASSWORD"}');
});

test("a name that a shell would take apart is quoted", () => {
  const texts = textsOf({ ...PLAIN, user: "o'neil $x" }, "public");
  expect(texts.mysql).toContain("-u 'o'\\''neil $x' -p");
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
