// The Prometheus text format of /metrics: samples by name, and how fast counters grow.

export interface MetricSample {
  labels: Record<string, string>;
  value: number;
}

export type Metrics = Map<string, MetricSample[]>;

/** Read a page of metrics. A line that is none is left out: the page shows what it understands. */
export function parseMetrics(text: string): Metrics {
  const metrics: Metrics = new Map();
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const found = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})?\s+(\S+)(?:\s+-?\d+)?$/.exec(line);
    if (!found) continue;
    const [, name = "", labels = "", value = ""] = found;
    const samples = metrics.get(name) ?? [];
    samples.push({ labels: parseLabels(labels), value: parseNumber(value) });
    metrics.set(name, samples);
  }
  return metrics;
}

function parseLabels(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const [, name = "", value = ""] of text.matchAll(/([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g)) {
    labels[name] = value.replace(/\\(.)/g, (_, char: string) => (char === "n" ? "\n" : char));
  }
  return labels;
}

function parseNumber(text: string): number {
  if (text === "+Inf" || text === "Inf") return Number.POSITIVE_INFINITY;
  return text === "-Inf" ? Number.NEGATIVE_INFINITY : Number(text);
}

/** The sum of the samples of a metric that have these labels; null if there is none. */
export function total(metrics: Metrics, name: string, labels: Record<string, string> = {}): number | null {
  const wanted = Object.entries(labels);
  const samples = (metrics.get(name) ?? []).filter((each) =>
    wanted.every(([key, value]) => each.labels[key] === value),
  );
  return samples.length === 0 ? null : samples.reduce((sum, { value }) => sum + value, 0);
}

/** How many points a history keeps: five minutes at one every two seconds. */
export const HISTORY_MAX = 150;

export interface Rate {
  atMs: number;
  perSecond: number;
}

/** The growth of counters over time. A counter that became smaller has started anew: its process has. */
export class RateHistory {
  private last = new Map<string, { atMs: number; value: number }>();
  private readonly kept = new Map<string, Rate[]>();

  add(name: string, atMs: number, value: number | null): void {
    if (value === null) return;
    const before = this.last.get(name);
    this.last.set(name, { atMs, value });
    if (!before || atMs <= before.atMs) return;
    const grown = value >= before.value ? value - before.value : value;
    const points = this.kept.get(name) ?? [];
    points.push({ atMs, perSecond: (grown * 1000) / (atMs - before.atMs) });
    this.kept.set(name, points.slice(-HISTORY_MAX));
  }

  points(name: string): readonly Rate[] {
    return this.kept.get(name) ?? [];
  }

  latest(name: string): number | null {
    return this.points(name).at(-1)?.perSecond ?? null;
  }
}
