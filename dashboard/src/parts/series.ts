// Results as lines of a chart: one axis of times, and values of every series on it.
import { parseValue, type Series, seriesName } from "../api/prometheus";
import type { Table } from "../api/sql";
import { formatCell, isNumeric, isTime, toMillis, toNumber } from "./cells";

/** A value; null interrupts the line, undefined (no sample at this time) does not. */
export type Point = number | null | undefined;

export interface ChartSeries {
  name: string;
  values: Point[];
}

export interface ChartData {
  /** Seconds since 1970, ascending. */
  times: number[];
  series: ChartSeries[];
  /** Series that were left out because there are too many. */
  dropped: number;
}

/** More lines than this cannot be told apart, nor drawn quickly. */
export const SERIES_MAX = 200;

/** The lines of a table, or why there are none: it needs a time and a number; texts tell series apart. */
export function chartOfTable(table: Pick<Table, "columns" | "rows">): ChartData | string {
  const { columns, rows } = table;
  const at = columns.map((_, index) => index);
  const time = at.find((index) => isTime(columns[index]?.type ?? ""));
  const numbers = at.filter((index) => isNumeric(columns[index]?.type ?? ""));
  const texts = at.filter((index) => index !== time && !numbers.includes(index));
  if (time === undefined) return "a chart needs a column of times";
  if (numbers.length === 0) return "a chart needs a column of numbers";
  const type = columns[time]?.type ?? "";
  const collector = new Collector();
  for (const row of rows) {
    const when = row[time];
    if (typeof when !== "number" && typeof when !== "bigint") continue;
    const seconds = toMillis(when, type) / 1000;
    const labels = texts.map((index) => formatCell(row[index], columns[index]?.type ?? "")).join(" · ");
    for (const index of numbers) {
      const column = columns[index]?.name ?? "";
      const name = numbers.length === 1 && labels ? labels : labels ? `${labels} · ${column}` : column;
      collector.add(name, seconds, toNumber(row[index] ?? null));
    }
  }
  return collector.finish();
}

/** The lines of a PromQL result. With the steps of the query, missing samples are gaps. */
export function chartOfSeries(
  found: Series[],
  steps?: { start: number; end: number; step: number },
): ChartData {
  if (!steps) {
    const collector = new Collector();
    for (const { metric, values } of found) {
      for (const [at, text] of values) collector.add(seriesName(metric), at, parseValue(text));
    }
    return collector.finish();
  }
  const { start, end, step } = steps;
  const count = Math.max(1, Math.floor((end - start) / step + 1e-6) + 1);
  const times = Array.from({ length: count }, (_, at) => start + at * step);
  const series = found.slice(0, SERIES_MAX).map(({ metric, values }) => {
    const points: Point[] = new Array(count).fill(null);
    for (const [at, text] of values) {
      const value = parseValue(text);
      points[Math.round((at - start) / step)] = Number.isFinite(value) ? value : null;
    }
    return { name: seriesName(metric), values: points };
  });
  return { times, series, dropped: Math.max(0, found.length - SERIES_MAX) };
}

/** Brings series with times of their own onto one axis. */
class Collector {
  private readonly points = new Map<string, Map<number, number | null>>();
  private readonly times = new Set<number>();
  private readonly dropped = new Set<string>();

  add(name: string, seconds: number, value: number | null): void {
    let series = this.points.get(name);
    if (!series) {
      if (this.points.size >= SERIES_MAX) {
        this.dropped.add(name);
        return;
      }
      series = new Map();
      this.points.set(name, series);
    }
    series.set(seconds, value !== null && Number.isFinite(value) ? value : null);
    this.times.add(seconds);
  }

  finish(): ChartData {
    const times = Float64Array.from(this.times).sort();
    const named = [...this.points].sort(([left], [right]) =>
      left.localeCompare(right, "en", { numeric: true }),
    );
    const series = named.map(([name, points]) => ({
      name,
      values: Array.from(times, (at) => points.get(at)),
    }));
    return { times: [...times], series, dropped: this.dropped.size };
  }
}
