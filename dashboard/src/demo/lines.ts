// The data of `tsdb demo`: the same tables, metrics and number of rows, with other values, as lines for the line protocol.
//
// The page writes it itself, over the same endpoint as any client: the server needs no code for it, and the rights of
// the user count. Every value is a function of its time and series, so loading twice replaces rows by equal ones.

export const TABLES = [
  "CREATE TABLE IF NOT EXISTS host_metrics (host STRING, region STRING, ts TIMESTAMP(3) TIME INDEX, " +
    "usage_user DOUBLE, usage_system DOUBLE, usage_idle DOUBLE, memory_used BIGINT, load1 DOUBLE, " +
    "PRIMARY KEY (host, region))",
  "CREATE TABLE IF NOT EXISTS app_logs (service STRING, host STRING, ts TIMESTAMP(3) TIME INDEX, level STRING, " +
    "message STRING FULLTEXT INDEX, PRIMARY KEY (service, host))",
];

export const HOURS = 3;
const STEP_SECONDS = 10;
/** Every how many seconds a service writes a line of log. */
const LOG_SECONDS = 30;
const HOSTS = 5;
const REGIONS = ["eu-west", "us-east", "ap-south"];
const SERVICES = ["web", "orders", "payments"];
const METHODS = [
  ["GET", 0.8],
  ["POST", 0.2],
] as const;
const BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];
const MEAN_SECONDS = 0.06;
const CODES = [
  ["200", 1],
  ["404", 0.03],
  ["500", 0.01],
] as const;
const MESSAGES: readonly (readonly [level: string, text: string])[] = [
  ["INFO", "GET /cart finished in # ms"],
  ["INFO", "user # logged in"],
  ["INFO", "order # accepted"],
  ["INFO", "GET /api/orders finished in # ms"],
  ["WARN", "slow query took # ms"],
  ["ERROR", "connection timeout after # ms to payments"],
];

/** The lines up to a time in seconds, one chunk for each of so many minutes. */
export function* demoChunks(end: number, minutes = 30): Generator<string> {
  const last = Math.floor(end / STEP_SECONDS) * STEP_SECONDS;
  const first = last - HOURS * 3600;
  for (let from = first; from <= last; from += minutes * 60) {
    const lines: string[] = [];
    for (let at = from; at < from + minutes * 60 && at <= last; at += STEP_SECONDS) {
      for (let host = 0; host < HOSTS; host += 1) lines.push(...hostLines(host, at));
      if (at % LOG_SECONDS === 0) lines.push(...logLines(at));
    }
    yield lines.join("\n");
  }
}

function hostLines(host: number, at: number): string[] {
  const name = `host-${host}`;
  const busy = busyness(host, at);
  const user = 70 * busy + 8 * noise(1, host, at);
  const system = 15 * busy + 3 * noise(2, host, at);
  const memory = Math.round(8e9 * (0.35 + 0.3 * busy + 0.05 * noise(3, host, at)));
  const fields =
    `usage_user=${user.toFixed(2)},usage_system=${system.toFixed(2)},usage_idle=${(100 - user - system).toFixed(2)},` +
    `memory_used=${memory}i,load1=${(4 * busy + noise(4, host, at)).toFixed(2)}`;
  const place = `instance=${name}:9100,job=web`;
  return [
    `host_metrics,host=${name},region=${REGIONS[host % REGIONS.length]} ${fields} ${at * 1000}`,
    ...METHODS.flatMap(([method, part]) =>
      CODES.map(([code, share]) => {
        const labels = `${place},method=${method},code=${code}`;
        return `http_requests_total,${labels} tsdb_value=${counter(host, at, 20 * part * share)} ${at * 1000}`;
      }),
    ),
    ...histogramLines(place, counter(host, at, 20), at),
    `up,${place} tsdb_value=1 ${at * 1000}`,
  ];
}

function histogramLines(place: string, count: number, at: number): string[] {
  const name = "http_request_duration_seconds";
  const buckets = [
    ...BUCKETS.map(
      (bound) => [String(bound), Math.floor(count * (1 - Math.exp(-bound / MEAN_SECONDS)))] as const,
    ),
    ["+Inf", count] as const,
  ];
  return [
    ...buckets.map(
      ([bound, total]) => `${name}_bucket,${place},le=${bound} tsdb_value=${total} ${at * 1000}`,
    ),
    `${name}_count,${place} tsdb_value=${count} ${at * 1000}`,
    `${name}_sum,${place} tsdb_value=${(count * MEAN_SECONDS).toFixed(3)} ${at * 1000}`,
  ];
}

function logLines(at: number): string[] {
  return SERVICES.map((service, which) => {
    const host = Math.floor(noise(5, which, at) * HOSTS);
    const [level, text] = MESSAGES[Math.floor(noise(6, which, at) * MESSAGES.length)] ?? ["INFO", "#"];
    const message = text.replace("#", String(5 + Math.floor(900 * noise(7, which, at) ** 3)));
    const millis = at * 1000 + Math.floor(noise(8, which, at) * 1000);
    return `app_logs,service=${service},host=host-${host} level="${level}",message="${message}" ${millis}`;
  });
}

/** How busy a host is, 0 to 1: waves of an hour and of ten minutes, each host at another time. */
function busyness(host: number, at: number): number {
  const slow = Math.sin((at / 3600 + host / 5) * 2 * Math.PI);
  const fast = Math.sin((at / 600 + host / 3) * 2 * Math.PI);
  return 0.45 + 0.25 * slow + 0.08 * fast + 0.12 * noise(0, host, at);
}

/** A total that always grows, at a rate that swings around the given one. */
function counter(host: number, at: number, rate: number): number {
  const period = 3600;
  const swing = (Math.cos((at / period + host / 5) * 2 * Math.PI) * period * 0.4) / (2 * Math.PI);
  return Math.floor(rate * ((at % 8_640_000) + period - swing));
}

/** A number from 0 to 1 that depends on all of its arguments, and looks random. */
function noise(kind: number, which: number, at: number): number {
  let mixed = Math.imul(at ^ (kind * 0x9e3779b1), 0x85ebca6b) ^ Math.imul(which + 1, 0xc2b2ae35);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x2c1b3c6d);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0x297a2d39);
  return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32;
}
