// What to paste into other programs, with the addresses of this server, the database of the page, and the user who is
// logged in. The password is never in them.
import type { Addresses, Endpoint } from "./addresses";

export interface Snippet {
  name: string;
  title: string;
  /** Where it goes, or what to know. */
  note: string;
  text: string;
}

/** Stands for the password, which the reader puts in. */
const PASSWORD = "PASSWORD";
const ANYBODY = "me";

export function makeSnippets(addresses: Addresses, database: string): Snippet[] {
  const { mysql, postgres, grpc, user } = addresses;
  return [
    ...httpSnippets(addresses, database),
    openTsdbSnippet(addresses),
    ...(mysql ? [mysqlSnippet(mysql, user, database)] : []),
    ...(postgres ? [postgresSnippet(postgres, user, database)] : []),
    ...(grpc ? [flightSnippet(grpc, user)] : []),
  ];
}

function httpSnippets({ http, user }: Addresses, database: string): Snippet[] {
  const db = encodeURIComponent(database);
  return [
    {
      name: "line-protocol",
      title: "Line protocol",
      note: "With curl. Clients of InfluxDB 1, 2 and 3 take the same address; dry_run=true only tells what would happen.",
      text: `curl -i${curlLogin(user)} '${http}/v1/influxdb/write?db=${db}&precision=s' \\
  --data-binary "cpu,host=web-1 usage=0.5 $(date +%s)"`,
    },
    {
      name: "telegraf",
      title: "Telegraf",
      note: "In telegraf.conf. A measurement becomes a table; the token is user:password, if there are users.",
      text: `[[outputs.influxdb_v2]]
  urls = ["${http}/v1/influxdb"]
  bucket = "${database}"
  organization = ""
  token = ${user === null ? '""' : quoted(`${user}:${PASSWORD}`)}`,
    },
    {
      name: "prometheus",
      title: "Prometheus",
      note: "In prometheus.yml.",
      text: `remote_write:
  - url: ${http}/v1/prometheus/write?db=${db}${prometheusLogin(user)}
    metadata_config:
      send_interval: 1m
remote_read:
  - url: ${http}/v1/prometheus/read?db=${db}${prometheusLogin(user)}
    read_recent: true`,
    },
    {
      name: "vector",
      title: "Vector",
      note: "In vector.toml; inputs names a source of metrics.",
      text: `[sinks.tsdb]
type = "prometheus_remote_write"
inputs = ["metrics"]
endpoint = "${http}/v1/prometheus/write?db=${db}"${vectorLogin(user)}`,
    },
    {
      name: "otlp",
      title: "OpenTelemetry",
      note: "In the configuration of the collector. Logs have an exporter of their own: the pipeline is for traces only.",
      text: collectorText(http, user, database),
    },
  ];
}

function collectorText(http: string, user: string | null, database: string): string {
  const login = user === null ? "" : "\n    auth: {authenticator: basicauth/tsdb}";
  const extension =
    user === null
      ? ""
      : `extensions:
  basicauth/tsdb:
    client_auth: {username: ${quoted(user)}, password: ${PASSWORD}}
`;
  return `${extension}exporters:
  otlphttp:
    endpoint: ${http}/v1/otlp${login}
    headers:
      x-tsdb-db-name: ${database}
      x-tsdb-pipeline-name: tsdb_trace_v1
  otlphttp/logs:
    endpoint: ${http}/v1/otlp${login}
    headers:
      x-tsdb-db-name: ${database}
service:${user === null ? "" : "\n  extensions: [basicauth/tsdb]"}
  pipelines:
    metrics: {receivers: [otlp], exporters: [otlphttp]}
    traces: {receivers: [otlp], exporters: [otlphttp]}
    logs: {receivers: [otlp], exporters: [otlphttp/logs]}`;
}

function openTsdbSnippet({ http, opentsdb, user }: Addresses): Snippet {
  const title = { name: "opentsdb", title: "OpenTSDB" };
  if (opentsdb === null) {
    const note = "Off: set opentsdb.enable = true and restart the server.";
    return { ...title, note, text: "[opentsdb]\nenable = true" };
  }
  const overHttp = `curl -i${curlLogin(user)} '${http}/v1/opentsdb/api/put' \\
  -d '{"metric": "sys.cpu", "timestamp": 1700000000, "value": 18, "tags": {"host": "web-1"}}'`;
  if (user !== null) {
    return { ...title, note: "Over HTTP: telnet has no login, so its put is refused.", text: overHttp };
  }
  const byTelnet = `echo "put sys.cpu $(date +%s) 18 host=web-1" | nc -q 1 ${host(opentsdb)} ${port(opentsdb)}`;
  return { ...title, note: "Over HTTP, and by telnet.", text: `${overHttp}\n\n${byTelnet}` };
}

function mysqlSnippet(mysql: Endpoint, user: string | null, database: string): Snippet {
  const tls = mysql.usesTls ? " --ssl-mode=REQUIRED" : "";
  const login = `-u ${shellWord(user ?? ANYBODY)}${user === null ? "" : " -p"}`;
  return {
    name: "mysql",
    title: "MySQL",
    note: mysql.usesTls
      ? "With the client of MySQL; that of MariaDB has --ssl in place of --ssl-mode. Every driver of MySQL works."
      : "With the client of MySQL; every driver of MySQL works.",
    text: `mysql -h ${host(mysql)} -P ${port(mysql)}${tls} ${login} ${shellWord(database)}

CREATE TABLE cpu (host STRING, ts TIMESTAMP(3) TIME INDEX, \`usage\` DOUBLE, PRIMARY KEY (host));
INSERT INTO cpu (host, ts, \`usage\`) VALUES ('web-1', now(), 0.5);`,
  };
}

function postgresSnippet(postgres: Endpoint, user: string | null, database: string): Snippet {
  const name = user ?? ANYBODY;
  const address = `${encodeURIComponent(name)}@${postgres.address}/${encodeURIComponent(database)}`;
  return {
    name: "postgres",
    title: "PostgreSQL",
    note: "With psql; every driver of PostgreSQL works.",
    text: `psql ${
      postgres.usesTls
        ? shellWord(`postgresql://${address}?sslmode=require`)
        : `-h ${host(postgres)} -p ${port(postgres)} -U ${shellWord(name)} ${shellWord(database)}`
    }

CREATE TABLE cpu (host STRING, ts TIMESTAMP(3) TIME INDEX, usage DOUBLE, PRIMARY KEY (host));
INSERT INTO cpu (host, ts, usage) VALUES ('web-1', now(), 0.5);`,
  };
}

function flightSnippet(grpc: Endpoint, user: string | null): Snippet {
  const login = user === null ? "" : `, db_kwargs={"username": ${quoted(user)}, "password": "${PASSWORD}"}`;
  return {
    name: "grpc",
    title: "gRPC and Flight",
    note: "With ADBC from Python: pip install adbc-driver-flightsql pyarrow.",
    text: `import adbc_driver_flightsql.dbapi as flight

with flight.connect("grpc${grpc.usesTls ? "+tls" : ""}://${grpc.address}"${login}, autocommit=True) as connection:
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM cpu LIMIT 10")
        print(cursor.fetch_arrow_table())`,
  };
}

/** curl asks for the password itself. */
function curlLogin(user: string | null): string {
  return user === null ? "" : ` -u ${shellWord(user)}`;
}

function prometheusLogin(user: string | null): string {
  return user === null ? "" : `\n    basic_auth: {username: ${quoted(user)}, password: ${PASSWORD}}`;
}

function vectorLogin(user: string | null): string {
  return user === null
    ? ""
    : `\nauth = {strategy = "basic", user = ${quoted(user)}, password = "${PASSWORD}"}`;
}

/** A string of TOML, YAML and Python alike. */
function quoted(text: string): string {
  return JSON.stringify(text);
}

/** A word of a shell, in quotes if it needs them. */
function shellWord(text: string): string {
  return /^[\w.@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function host({ address }: Endpoint): string {
  return address.slice(0, address.lastIndexOf(":"));
}

function port({ address }: Endpoint): string {
  return address.slice(address.lastIndexOf(":") + 1);
}
