// All metrics are counted, although an answer lists only so many.
import { afterEach, expect, test, vi } from "vitest";
import { cardinality } from "../src/api/prometheus";

afterEach(() => vi.unstubAllGlobals());

test.each([0, 2, 3, 6, 7])("%i metrics are asked for page by page", async (count) => {
  const all = Array.from({ length: count }, (_, at) => ({ name: `m${at}`, value: count - at }));
  const asked: string[] = [];
  const store = { getItem: () => null, setItem: () => {} };
  vi.stubGlobal("location", { pathname: "/dashboard/explore" });
  vi.stubGlobal("sessionStorage", store);
  vi.stubGlobal("localStorage", store);
  vi.stubGlobal("fetch", async (address: string) => {
    const query = new URL(address, "http://server").searchParams;
    const [offset, limit] = [Number(query.get("offset")), Number(query.get("limit"))];
    asked.push(`${offset}+${limit}`);
    const data = {
      headStats: { numSeries: 9, numLabelPairs: 1 },
      seriesCountByMetricName: all.slice(offset, offset + limit),
    };
    return new Response(JSON.stringify({ status: "success", data }));
  });
  const found = await cardinality({ database: "public" }, 3);
  expect(found.seriesCountByMetricName).toEqual(all);
  expect(found.headStats.numSeries).toBe(9);
  expect(asked).toEqual(Array.from({ length: Math.floor(count / 3) + 1 }, (_, page) => `${3 * page}+3`));
});
