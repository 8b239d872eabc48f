// Cluster against a real one: of its own, or that with a frontend at TSDB_CLUSTER_URL.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { checkAccessibility, checkWidth, open, PHONE, screenshot, startBrowser } from "./browser";
import { type Cluster, START_MS_MAX, startCluster } from "./cluster";

let url: string;
let cluster: Cluster | undefined;
let browser: Browser;

beforeAll(async () => {
  const given = process.env.TSDB_CLUSTER_URL;
  if (!given) cluster = await startCluster();
  url = given ?? cluster?.url ?? "";
  browser = await startBrowser();
  await sql(
    "CREATE TABLE IF NOT EXISTS seen_moving (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host)) " +
      "PARTITION ON COLUMNS (host) (host < 'm', host >= 'm')",
  );
  await sql("INSERT INTO seen_moving VALUES ('a', 1000, 1.5), ('z', 1000, 2.5)");
}, START_MS_MAX + 60_000);
afterAll(async () => {
  await browser?.close();
  await cluster?.stop();
});

test("nodes, regions and procedures are shown, and a region moves by click", async () => {
  const { page, context, problems } = await open(browser, url, "cluster");
  await page.getByText("live datanodes").waitFor();
  await page.getByText("leads", { exact: true }).waitFor();
  await page.getByText("create table", { exact: true }).first().waitFor();
  await checkAccessibility(page);
  await screenshot(page, "cluster");
  const [region, from] = (await places())[0] ?? [0, 0];
  await page.getByRole("button", { name: `Move region ${region} of seen_moving` }).click();
  const dialog = page.getByRole("dialog", { name: `Move region ${region}` });
  const target = await dialog.getByLabel("To").inputValue();
  expect(target).not.toBe(String(from));
  await checkAccessibility(page);
  await screenshot(page, "cluster-move");
  await dialog.getByRole("button", { name: `Move it to node ${target}` }).click();
  await dialog.getByText(`The region is on node ${target}.`).waitFor();
  await screenshot(page, "cluster-moved");
  await dialog.getByRole("button", { name: "Close", exact: true }).last().click();
  expect(new Map(await places()).get(region)).toBe(Number(target));
  await page.getByText("migrate region", { exact: true }).first().waitFor();
  expect(await sql("SELECT sum(v) FROM seen_moving")).toEqual([[4]]);
  expect(problems).toEqual([]);
  await context.close();
});

test("status of a frontend, the dark, and a phone", async () => {
  const { page, context, problems } = await open(browser, url, "status", { theme: "dark" });
  await page.getByText("those of this frontend").waitFor();
  await checkAccessibility(page);
  await screenshot(page, "cluster-status-dark");
  await page.setViewportSize(PHONE);
  await page.getByRole("navigation").getByRole("link", { name: "Cluster" }).click();
  await page.getByText("live datanodes").waitFor();
  await checkWidth(page);
  await screenshot(page, "phone-cluster-dark");
  expect(problems).toEqual([]);
  await context.close();
});

async function sql(statement: string): Promise<unknown[][]> {
  const answer = await fetch(`${url}/v1/sql`, {
    method: "POST",
    body: new URLSearchParams({ sql: statement }),
  });
  if (!answer.ok) throw new Error(await answer.text());
  const { output } = (await answer.json()) as { output: { records?: { rows: unknown[][] } }[] };
  return output[0]?.records?.rows ?? [];
}

async function places(): Promise<[number, number][]> {
  const found = await sql(
    "SELECT region_id, peer_id FROM information_schema.region_peers WHERE table_name = 'seen_moving' ORDER BY 1",
  );
  return found as [number, number][];
}
