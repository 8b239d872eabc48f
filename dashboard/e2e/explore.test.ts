// The screen Explore: with demo data, and with an empty database that the page fills.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { checkAccessibility, checkWidth, open, PHONE, screenshot, startBrowser } from "./browser";
import { type Server, startServer } from "./server";

let server: Server;
let browser: Browser;

beforeAll(async () => {
  [server, browser] = await Promise.all([startServer(), startBrowser()]);
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

test("an empty database is filled with demo data by the page", async () => {
  const { page, context, problems } = await open(browser, server.url, "explore");
  await page.getByRole("heading", { name: "This database has no tables" }).waitFor();
  await screenshot(page, "explore-empty");
  await page.getByRole("button", { name: "Load demo data" }).click();
  await page.getByRole("cell", { name: "host_metrics" }).waitFor();
  const counted = JSON.stringify(await server.sql("SELECT count(*) FROM host_metrics"));
  expect(counted).toContain("[[5405]]");
  expect(problems).toEqual([]);
  await context.close();
});

for (const theme of ["light", "dark"] as const) {
  test(`tables with columns, rows, definition and plot, ${theme}`, async () => {
    const { page, context, problems } = await open(browser, server.url, "explore", { theme });
    await page.getByRole("cell", { name: "host_metrics" }).click();
    const details = page.getByRole("region", { name: "host_metrics", exact: true });
    await details.getByRole("cell", { name: "usage_user" }).waitFor();
    await details.getByRole("button", { name: "Count rows" }).click();
    await details.getByText("5,405 rows", { exact: true }).waitFor();
    await checkAccessibility(page);
    await screenshot(page, `explore-columns-${theme}`);
    await details.getByRole("tab", { name: "Rows" }).click();
    await details.getByRole("cell", { name: "host-4" }).first().waitFor();
    await details.getByRole("tab", { name: "Definition" }).click();
    await details.getByText("CREATE TABLE").waitFor();
    await details.getByRole("tab", { name: "Plot" }).click();
    await details.getByRole("button", { name: /host-0/ }).waitFor();
    await checkAccessibility(page);
    await screenshot(page, `explore-plot-${theme}`);
    await details.getByRole("button", { name: "Open in Query" }).click();
    await page.getByRole("heading", { level: 1, name: "Query" }).waitFor();
    await page.getByRole("region", { name: "Result" }).waitFor();
    expect(problems).toEqual([]);
    await context.close();
  });
}

test("metrics with labels, values and cardinality", async () => {
  const { page, context, problems } = await open(browser, server.url, "explore#list=metrics");
  await page.getByRole("cell", { name: "http_requests_total" }).click();
  const details = page.getByRole("region", { name: "http_requests_total", exact: true });
  await details.getByRole("cell", { name: "code", exact: true }).click();
  await details.getByRole("cell", { name: "404" }).waitFor();
  await checkAccessibility(page);
  await screenshot(page, "explore-metrics");
  await details.getByRole("tab", { name: "Plot" }).click();
  await details
    .getByRole("button", { name: /code="404"/ })
    .first()
    .waitFor();
  await screenshot(page, "explore-metric-plot");
  expect(problems).toEqual([]);
  await context.close();
});

test("the screen works on a phone", async () => {
  const { page, context } = await open(browser, server.url, "explore", { viewport: PHONE });
  await page.getByRole("cell", { name: "host_metrics" }).click();
  await page.getByRole("cell", { name: "usage_user" }).waitFor();
  await checkWidth(page);
  await screenshot(page, "explore-phone");
  await context.close();
});
