// The Prometheus API: queries and what there is to query.
import { callJson } from "./client";

export type Labels = Record<string, string>;
export type Sample = [seconds: number, value: string];

export interface Series {
  metric: Labels;
  values: Sample[];
}

export interface PromqlResult {
  series: Series[];
  /** The kind of result that the server names: matrix, vector, scalar or string. */
  kind: string;
  warnings: string[];
}

export interface Asked {
  database?: string | undefined;
  signal?: AbortSignal | undefined;
}

interface Envelope<T> {
  data: T;
  warnings?: string[];
  infos?: string[];
}

type Histogram = [seconds: number, histogram: { count: string; sum: string }];

interface QueryData {
  resultType: string;
  result:
    | Sample
    | {
        metric: Labels;
        value?: Sample;
        values?: Sample[];
        histogram?: Histogram;
        histograms?: Histogram[];
      }[];
}

export const PROMETHEUS = "/v1/prometheus/api/v1";

export async function queryRange(
  query: string,
  range: { start: number; end: number; step: number },
  asked: Asked = {},
): Promise<PromqlResult> {
  const form = { query, start: String(range.start), end: String(range.end), step: String(range.step) };
  return read(await post<QueryData>("query_range", form, asked));
}

export async function queryInstant(query: string, time: number, asked: Asked = {}): Promise<PromqlResult> {
  return read(await post<QueryData>("query", { query, time: String(time) }, asked));
}

export interface CardinalityEntry {
  name: string;
  value: number;
}

export interface Cardinality {
  headStats: { numSeries: number; numLabelPairs: number };
  seriesCountByMetricName: CardinalityEntry[];
}

/** The number of series of each metric, of all of them: the server lists so many at a time. */
export async function cardinality(asked: Asked = {}, pageSize = 10_000): Promise<Cardinality> {
  const series: CardinalityEntry[] = [];
  for (;;) {
    const page = await get<Cardinality>("status/tsdb", { limit: pageSize, offset: series.length }, asked);
    series.push(...page.seriesCountByMetricName);
    if (page.seriesCountByMetricName.length < pageSize) return { ...page, seriesCountByMetricName: series };
  }
}

/** Names of labels; `match` is a selector. Without a time range the server looks at the last day: here, at all. */
export async function labelNames(match: string | undefined, asked: Asked = {}): Promise<string[]> {
  return get<string[]>("labels", { "match[]": match, start: 0, end: farFuture() }, asked);
}

export async function labelValues(
  label: string,
  match: string | undefined,
  asked: Asked = {},
): Promise<string[]> {
  const params = { "match[]": match, start: 0, end: farFuture() };
  return get<string[]>(`label/${encodeURIComponent(label)}/values`, params, asked);
}

/** One request to the Prometheus API; the data of its answer. */
export async function get<T>(
  path: string,
  params: Record<string, string | number | undefined>,
  asked: Asked = {},
): Promise<T> {
  const options = { params: { ...params, db: asked.database }, signal: asked.signal };
  return (await callJson<Envelope<T>>(`${PROMETHEUS}/${path}`, options)).data;
}

function post<T>(path: string, form: Record<string, string>, asked: Asked): Promise<Envelope<T>> {
  return callJson<Envelope<T>>(`${PROMETHEUS}/${path}`, {
    params: { db: asked.database },
    form,
    signal: asked.signal,
  });
}

function farFuture(): number {
  return Math.ceil(Date.now() / 1000) + 86_400;
}

function read({ data, warnings = [], infos = [] }: Envelope<QueryData>): PromqlResult {
  return { series: readSeries(data), kind: data.resultType, warnings: [...warnings, ...infos] };
}

/** Bring all kinds of results into one form. Of a native histogram the count is shown. */
export function readSeries({ resultType, result }: QueryData): Series[] {
  if (resultType === "scalar" || resultType === "string") return [{ metric: {}, values: [result as Sample] }];
  return (result as Exclude<QueryData["result"], Sample>).map((each) => {
    const floats = each.values ?? (each.value ? [each.value] : []);
    const histograms = each.histograms ?? (each.histogram ? [each.histogram] : []);
    const counts = histograms.map(([at, { count }]): Sample => [at, count]);
    return { metric: each.metric, values: [...floats, ...counts].sort((left, right) => left[0] - right[0]) };
  });
}

/** Parse the text of a value: numbers, NaN, +Inf, -Inf. */
export function parseValue(text: string): number {
  if (text === "+Inf" || text === "Inf") return Number.POSITIVE_INFINITY;
  if (text === "-Inf") return Number.NEGATIVE_INFINITY;
  return Number(text);
}

/** Write a series as people do: name{label="value", …}. */
export function seriesName(labels: Labels): string {
  const { __name__: name = "", ...rest } = labels;
  const inner = Object.entries(rest)
    .map(([label, value]) => `${label}=${JSON.stringify(value)}`)
    .join(", ");
  return inner || !name ? `${name}{${inner}}` : name;
}
