import { expect, test } from "vitest";
import { HISTORY_MAX, parseMetrics, RateHistory, total } from "../src/screens/status/metrics";

const PAGE = `# HELP rows_total Rows.
# TYPE rows_total counter
rows_total{protocol="influxdb"} 3000.0
rows_total{protocol="otlp"} 1e3
up 1
odd{a="x\\"y\\\\z\\n",b="{}"} +Inf 1700000000000
not a metric at all
empty{} NaN
`;

test("samples have labels and values", () => {
  const metrics = parseMetrics(PAGE);
  expect([...metrics.keys()]).toEqual(["rows_total", "up", "odd", "empty"]);
  expect(metrics.get("odd")).toEqual([
    { labels: { a: 'x"y\\z\n', b: "{}" }, value: Number.POSITIVE_INFINITY },
  ]);
  expect(metrics.get("empty")?.[0]?.value).toBeNaN();
});

test("sums of all samples, and of some", () => {
  const metrics = parseMetrics(PAGE);
  expect(total(metrics, "rows_total")).toBe(4000);
  expect(total(metrics, "rows_total", { protocol: "otlp" })).toBe(1000);
  expect(total(metrics, "rows_total", { protocol: "none" })).toBeNull();
  expect(total(metrics, "missing")).toBeNull();
});

test("rates are growth per second, also after a restart, and their history is bounded", () => {
  const rates = new RateHistory();
  rates.add("rows", 0, 100);
  expect(rates.latest("rows")).toBeNull();
  rates.add("rows", 2000, 300);
  expect(rates.latest("rows")).toBe(100);
  rates.add("rows", 4000, 50);
  expect(rates.latest("rows")).toBe(25);
  rates.add("rows", 4000, 60);
  rates.add("rows", 6000, null);
  expect(rates.points("rows")).toHaveLength(2);
  for (let at = 0; at < 2 * HISTORY_MAX; at++) rates.add("rows", 10_000 + at * 1000, at);
  expect(rates.points("rows")).toHaveLength(HISTORY_MAX);
});
