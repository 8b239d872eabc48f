// What to paste into other programs, with the addresses of this server and the database of the page.
import type { Addresses } from "./addresses";

export interface Snippet {
  name: string;
  title: string;
  /** Where it goes, or what to know. */
  note: string;
  text: string;
}

export function makeSnippets(addresses: Addresses, database: string): Snippet[] {
  const { http, grpc, mysql, postgres, opentsdb } = addresses;
  const db = encodeURIComponent(database);
  const snippets: (Snippet | null)[] = [
    {
      name: "line-protocol",
      title: "Line protocol",
      note: "With curl. Clients of InfluxDB 1, 2 and 3 take the same address; dry_run=true only tells what would happen.",
      text: `curl -i '${http}/v1/influxdb/write?db=${db}&precision=s' \\\n  --data-binary "cpu,host=web-1 usage=0.5 $(date +%s)"`,
    },
    {
      name: "telegraf",
      title: "Telegraf",
      note: "In telegraf.conf. A measurement becomes a table; the token is user:password, if there are users.",
      text: `[[outputs.influxdb_v2]]
  urls = ["${http}/v1/influxdb"]
  bucket = "${database}"
  organization = ""
  token = ""`,
    },
    {
      name: "prometheus",
      title: "Prometheus",
      note: "In prometheus.yml.",
      text: `remote_write:
  - url: ${http}/v1/prometheus/write?db=${db}
    metadata_config:
      send_interval: 1m
remote_read:
  - url: ${http}/v1/prometheus/read?db=${db}
    read_recent: true`,
    },
    {
      name: "vector",
      title: "Vector",
      note: "In vector.toml; inputs names a source of metrics.",
      text: `[sinks.tsdb]
type = "prometheus_remote_write"
inputs = ["metrics"]
endpoint = "${http}/v1/prometheus/write?db=${db}"`,
    },
    {
      name: "otlp",
      title: "OpenTelemetry",
      note: "In the configuration of the collector. Logs have an exporter of their own: the pipeline is for traces only.",
      text: `exporters:
  otlphttp:
    endpoint: ${http}/v1/otlp
    headers:
      x-tsdb-db-name: ${database}
      x-tsdb-pipeline-name: tsdb_trace_v1
  otlphttp/logs:
    endpoint: ${http}/v1/otlp
    headers:
      x-tsdb-db-name: ${database}
service:
  pipelines:
    metrics: {receivers: [otlp], exporters: [otlphttp]}
    traces: {receivers: [otlp], exporters: [otlphttp]}
    logs: {receivers: [otlp], exporters: [otlphttp/logs]}`,
    },
    {
      name: "opentsdb",
      title: "OpenTSDB",
      note: opentsdb
        ? "Over HTTP, and by telnet."
        : "Off: set opentsdb.enable = true and restart the server.",
      text: opentsdb
        ? `curl -i '${http}/v1/opentsdb/api/put' \\
  -d '{"metric": "sys.cpu", "timestamp": 1700000000, "value": 18, "tags": {"host": "web-1"}}'

echo "put sys.cpu $(date +%s) 18 host=web-1" | nc -q 1 ${spaced(opentsdb)}`
        : "[opentsdb]\nenable = true",
    },
    mysql === null
      ? null
      : {
          name: "mysql",
          title: "MySQL",
          note: "With the client of MySQL; every driver of MySQL works.",
          text: `mysql -h ${host(mysql)} -P ${port(mysql)} -u me ${database}

CREATE TABLE cpu (host STRING, ts TIMESTAMP(3) TIME INDEX, \`usage\` DOUBLE, PRIMARY KEY (host));
INSERT INTO cpu (host, ts, \`usage\`) VALUES ('web-1', now(), 0.5);`,
        },
    postgres === null
      ? null
      : {
          name: "postgres",
          title: "PostgreSQL",
          note: "With psql; every driver of PostgreSQL works.",
          text: `psql -h ${host(postgres)} -p ${port(postgres)} -U me ${database}

CREATE TABLE cpu (host STRING, ts TIMESTAMP(3) TIME INDEX, usage DOUBLE, PRIMARY KEY (host));
INSERT INTO cpu (host, ts, usage) VALUES ('web-1', now(), 0.5);`,
        },
    grpc === null
      ? null
      : {
          name: "grpc",
          title: "gRPC and Flight",
          note: "With ADBC from Python: pip install adbc-driver-flightsql pyarrow.",
          text: `import adbc_driver_flightsql.dbapi as flight

with flight.connect("grpc://${grpc}", autocommit=True) as connection:
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM cpu LIMIT 10")
        print(cursor.fetch_arrow_table())`,
        },
  ];
  return snippets.filter((each) => each !== null);
}

function host(address: string): string {
  return address.slice(0, address.lastIndexOf(":"));
}

function port(address: string): string {
  return address.slice(address.lastIndexOf(":") + 1);
}

function spaced(address: string): string {
  return `${host(address)} ${port(address)}`;
}
