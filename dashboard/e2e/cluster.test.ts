// Every screen against a real cluster: of its own, or that with a frontend at TSDB_CLUSTER_URL.
import { readFileSync } from "node:fs";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { checkAccessibility, checkWidth, open, PHONE, screenshot, startBrowser } from "./browser";
import { type Cluster, START_MS_MAX, startCluster } from "./cluster";
import { loadDemo } from "./server";
import { accept, ask, editorOf, LONG, messagesOf, waitRows } from "./steps";

const GIVEN = process.env.TSDB_CLUSTER_URL;
const PARTS = "PARTITION ON COLUMNS (host) (host < 'm', host >= 'm')";
const TABLES = [
  `CREATE TABLE IF NOT EXISTS seen_moving (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host)) ${PARTS}`,
  `CREATE TABLE IF NOT EXISTS seen_parted (host STRING, ts TIMESTAMP(3) TIME INDEX, v DOUBLE, PRIMARY KEY (host)) ${PARTS}`,
  "CREATE TABLE IF NOT EXISTS seen_logs (host STRING, level STRING, ts TIMESTAMP(3) TIME INDEX, " +
    `message STRING FULLTEXT INDEX, PRIMARY KEY (host)) ${PARTS} WITH (append_mode = 'true')`,
];
/** The first and the last are in different regions. */
const HOSTS = ["alpha", "bravo", "tango", "zulu"];
const POINTS = 100;
/** Messages have times of their own, as those of a cluster that is there may have some of an earlier run. */
const RUN = Date.now();
const FAILOVER_MS_MAX = 150_000;
const SCREEN_MS_MAX = 60_000;

let url: string;
let cluster: Cluster | undefined;
let browser: Browser;

beforeAll(async () => {
  if (!GIVEN) cluster = await startCluster();
  url = GIVEN ?? cluster?.url ?? "";
  browser = await startBrowser();
  loadDemo(url);
  for (const statement of TABLES) await sql(statement);
  await sql("INSERT INTO seen_moving VALUES ('a', 1000, 1.5), ('z', 1000, 2.5)");
  await sql("TRUNCATE TABLE seen_parted");
  await write(
    HOSTS.flatMap((host, at) =>
      Array.from(
        { length: POINTS },
        (_, back) => `seen_parted,host=${host} v=${at + Math.sin(back / 9)} ${RUN - back * 1000}`,
      ),
    ),
  );
  await write(
    Array.from({ length: 450 }, (_, back) => {
      const host = HOSTS[back % HOSTS.length];
      const level = back % 5 ? "info" : "error";
      const text = back % 5 ? `request ${back} served` : `connection of ${RUN} lost, retry ${back}`;
      return `seen_logs,host=${host} level="${level}",message="${text}" ${RUN - back * 100}`;
    }),
  );
}, START_MS_MAX + 180_000);
afterAll(async () => {
  await browser?.close();
  await cluster?.stop();
});

for (const theme of ["light", "dark"] as const) {
  test(`query: SQL over the regions of several nodes, as table, chart and file, ${theme}`, async () => {
    const { page, context, problems } = await open(browser, url, "query", { theme });
    await ask(page, "SELECT host, count(*) AS n FROM seen_parted GROUP BY host ORDER BY host");
    await waitRows(page, "4 rows");
    const cells = page.getByRole("region", { name: "Rows" }).getByRole("cell");
    expect(await cells.allTextContents()).toEqual(HOSTS.flatMap((host) => [host, String(POINTS)]));
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Download CSV" }).click(),
    ]);
    expect(readFileSync(await download.path(), "utf-8")).toBe(
      ["host,n", ...HOSTS.map((host) => `${host},${POINTS}`), ""].join("\r\n"),
    );
    await ask(page, "SELECT ts, host, v FROM seen_parted ORDER BY ts");
    await waitRows(page, "400 rows");
    await page.getByRole("tab", { name: "Chart" }).click();
    for (const host of HOSTS) await page.getByRole("button", { name: host }).waitFor();
    await checkAccessibility(page);
    await screenshot(page, `cluster-query-${theme}`);
    expect(problems).toEqual([]);
    await context.close();
  });
}

test("query: PromQL, completion and errors", async () => {
  const { page, context, problems } = await open(browser, url, "query");
  await page.getByRole("tab", { name: "PromQL" }).click();
  await ask(page, "sum by (code) (rate(http_requests_total[5m]))");
  await waitRows(page, "3 series");
  await page.getByRole("button", { name: /code="200"/ }).waitFor();
  await checkAccessibility(page);
  await screenshot(page, "cluster-query-promql");
  await page.getByRole("tab", { name: "SQL" }).click();
  await ask(page, "SELECT wrong FROM seen_parted");
  await page.locator(".cm-lintRange-error", { hasText: "wrong" }).waitFor();
  await page.getByRole("alert").waitFor();
  await editorOf(page).click();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("SELECT v FROM seen_p");
  await accept(page, page.getByRole("option", { name: /seen_parted/ }));
  expect(await editorOf(page).textContent()).toBe("SELECT v FROM seen_parted");
  expect(problems).toEqual([]);
  await context.close();
});

test("explore: a partitioned table with its columns, rows, definition and plot", async () => {
  const { page, context, problems } = await open(browser, url, "explore");
  await page.getByRole("cell", { name: "seen_parted" }).click();
  const details = page.getByRole("region", { name: "seen_parted", exact: true });
  await details.getByRole("cell", { name: "host" }).first().waitFor();
  await details.getByRole("button", { name: "Count rows" }).click();
  await details.getByText("400 rows", { exact: true }).waitFor();
  await checkAccessibility(page);
  await screenshot(page, "cluster-explore-columns");
  await details.getByRole("tab", { name: "Rows" }).click();
  for (const host of HOSTS) await details.getByRole("cell", { name: host }).first().waitFor();
  await details.getByRole("tab", { name: "Definition" }).click();
  await details.getByText(/PARTITION ON COLUMNS/).waitFor();
  await details.getByRole("tab", { name: "Plot" }).click();
  for (const host of HOSTS) await details.getByRole("button", { name: host }).waitFor();
  await checkAccessibility(page);
  await screenshot(page, "cluster-explore-plot");
  expect(problems).toEqual([]);
  await context.close();
});

test("explore: a metric with its labels and plot, in the dark", async () => {
  const { page, context, problems } = await open(browser, url, "explore#list=metrics", { theme: "dark" });
  await page.getByRole("cell", { name: "http_requests_total" }).click();
  const details = page.getByRole("region", { name: "http_requests_total", exact: true });
  await details.getByRole("cell", { name: "code", exact: true }).click();
  await details.getByRole("cell", { name: "404" }).waitFor();
  await checkAccessibility(page);
  await details.getByRole("tab", { name: "Plot" }).click();
  await details
    .getByRole("button", { name: /code="404"/ })
    .first()
    .waitFor();
  await checkAccessibility(page);
  await screenshot(page, "cluster-explore-metric-dark");
  expect(problems).toEqual([]);
  await context.close();
});

test("logs: of all regions, newest first, paged by time, searched and followed", async () => {
  const { page, context, problems } = await open(browser, url, "logs#table=seen_logs");
  const messages = messagesOf(page);
  const poll = { timeout: 60_000 };
  await messages.first().waitFor();
  await expect.poll(() => page.getByLabel("Table").inputValue(), poll).toBe("seen_logs");
  await expect.poll(() => messages.count(), poll).toBe(200);
  expect(await messages.nth(1).textContent()).toContain("request 1 served");
  await page.getByRole("button", { name: "Older messages" }).click();
  await expect.poll(() => messages.count(), poll).toBe(400);
  await page.getByRole("searchbox", { name: "Text" }).fill(`"of ${RUN}" AND retry`);
  await page.keyboard.press("Enter");
  await expect.poll(() => messages.count(), poll).toBe(90);
  await messages.first().getByRole("button").click();
  await page
    .getByRole("button", { name: /^Only host/ })
    .first()
    .click();
  await expect.poll(() => messages.count(), poll).toBeLessThan(30);
  await checkAccessibility(page);
  await screenshot(page, "cluster-logs");
  await page.goto(`${url}/dashboard/logs#table=seen_logs`);
  await page.reload();
  await messages.first().waitFor();
  await page.getByRole("button", { name: "Follow" }).click();
  for (const host of ["alpha", "zulu"]) {
    await write([`seen_logs,host=${host} level="warn",message="came to ${host} at ${RUN}" ${Date.now()}`]);
    await page.getByText(`came to ${host} at ${RUN}`).waitFor();
  }
  await screenshot(page, "cluster-logs-live");
  expect(problems).toEqual([]);
  await context.close();
});

test("ingest: a dry run, and then the rows are in the regions of several nodes", async () => {
  const { page, context, problems } = await open(browser, url, "ingest");
  await sql("DROP TABLE IF EXISTS seen_fresh");
  const field = page.getByLabel("Lines: table,tag=value field=value time");
  await field.fill('seen_fresh,host=a v=1 1700000000\nseen_parted,host=alpha v="x" 1700000000');
  await page.keyboard.press("Control+Enter");
  await page.getByText("Nothing would be written").waitFor();
  expect(await page.getByRole("button", { name: "Write" }).isDisabled()).toBe(true);
  await checkAccessibility(page);
  await screenshot(page, "cluster-ingest-problems");
  await field.fill(
    "seen_fresh,host=a v=1 1700000000\nseen_parted,host=aa v=7 1700000000\nseen_parted,host=zz v=8 1700000000",
  );
  await page.getByRole("button", { name: "Dry run" }).click();
  await page.getByText("3 rows would be written").waitFor();
  await page.getByText("Creates: seen_fresh").waitFor();
  const exists = "SELECT count(*) FROM information_schema.tables WHERE table_name = 'seen_fresh'";
  expect(await sql(exists)).toEqual([[0]]);
  await page.getByRole("button", { name: "Write" }).click();
  await page.getByText("3 rows were written.").waitFor();
  await checkAccessibility(page);
  await screenshot(page, "cluster-ingest-written");
  expect(await sql("SELECT count(*) FROM seen_fresh")).toEqual([[1]]);
  const written = "SELECT host, v FROM seen_parted WHERE host IN ('aa', 'zz') ORDER BY host";
  expect(await sql(written)).toEqual([
    ["aa", 7],
    ["zz", 8],
  ]);
  expect(problems).toEqual([]);
  await context.close();
});

test("ingest: CSV is written, and snippets have the addresses of this frontend", async () => {
  const { page, context, problems } = await open(browser, url, "ingest#way=csv", { theme: "dark" });
  await sql("DROP TABLE IF EXISTS seen_climate");
  await page
    .getByLabel("CSV, with names in the first line")
    .fill('time,room,degrees\n2024-05-01T12:00:00Z,"a, b",20.5\n2024-05-01T12:00:10Z,"a, b",21\n');
  await page.getByLabel("Table").fill("seen_climate");
  await page.getByLabel("What room is").selectOption("tag");
  await page.getByRole("button", { name: "Dry run" }).click();
  await page.getByText("2 rows would be written").waitFor();
  await page.getByRole("button", { name: "Write" }).click();
  await page.getByText("2 rows were written.").waitFor();
  expect(await sql("SELECT count(*) FROM seen_climate WHERE room = 'a, b'")).toEqual([[2]]);
  await checkAccessibility(page);
  await screenshot(page, "cluster-ingest-csv-dark");
  await page.goto("about:blank");
  await page.goto(`${url}/dashboard/ingest#way=programs`);
  await page.getByRole("heading", { name: "Line protocol" }).waitFor();
  const snippets = await page.getByRole("tabpanel").textContent();
  expect(snippets).toContain(`${url}/v1/influxdb/write?db=public`);
  expect(snippets).toMatch(/mysql -h 127\.0\.0\.1 -P \d+ -u me/);
  await checkAccessibility(page);
  expect(problems).toEqual([]);
  await context.close();
});

test("status: of a frontend; a statement is cancelled, and requests to object storage have a price", async () => {
  const { page, context, problems } = await open(browser, url, "status");
  await page.getByText("those of this frontend").waitFor();
  await page.getByRole("heading", { name: "Requests to object storage" }).waitFor();
  expect(await page.getByText("on a local disk").count()).toBe(0);
  const counted = await sql("SELECT count(*) FROM information_schema.storage_requests");
  const bill = counted[0]?.[0] ? /^([2-9] nodes, )?about \$\d/ : "None was counted.";
  await page.getByText(bill).waitFor();
  await page.getByText("rows wait for").first().waitFor();
  expect(await page.locator("main [title]").count()).toBe(0);
  const running = sql(LONG).then(
    () => "ended",
    (error: Error) => error.message,
  );
  await page
    .getByRole("button", { name: /^Cancel / })
    .first()
    .click();
  await page.getByRole("button", { name: "Cancel the statement" }).click();
  expect(await running).toMatch(/cancel|kill/i);
  await page.getByText("Nothing runs at the moment.").waitFor();
  await checkAccessibility(page);
  await screenshot(page, "cluster-status");
  await page.getByRole("heading", { name: "Refused rows" }).scrollIntoViewIfNeeded();
  await screenshot(page, "cluster-status-end");
  expect(problems).toEqual([]);
  await context.close();
});

test("cluster: nodes, regions and procedures are shown, and a region moves by click", async () => {
  const { page, context, problems } = await open(browser, url, "cluster");
  await page.getByText("live datanodes").waitFor();
  await page.getByText("leads", { exact: true }).waitFor();
  await page.getByText("create table", { exact: true }).first().waitFor();
  await checkAccessibility(page);
  await screenshot(page, "cluster");
  const [region, from] = (await places("seen_moving"))[0] ?? [0, 0];
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
  expect(new Map(await places("seen_moving")).get(region)).toBe(Number(target));
  await page.getByText("migrate region", { exact: true }).first().waitFor();
  expect(await sql("SELECT sum(v) FROM seen_moving")).toEqual([[4]]);
  expect(problems).toEqual([]);
  await context.close();
});

test(
  "every screen of a frontend fits a phone, in the dark",
  async () => {
    for (const [path, ready] of [
      ["query", "Run"],
      ["explore", "seen_parted"],
      ["logs", "Search"],
      ["ingest", "Dry run"],
      ["status", "Requests to object storage"],
      ["cluster", "Failovers"],
    ] as const) {
      const options = { viewport: PHONE, theme: "dark" } as const;
      const { page, context, problems } = await open(browser, url, path, options);
      await page.getByText(ready, { exact: true }).first().waitFor();
      await checkWidth(page);
      await checkAccessibility(page);
      await screenshot(page, `phone-cluster-${path}-dark`);
      expect(problems).toEqual([]);
      await context.close();
    }
  },
  6 * SCREEN_MS_MAX,
);

// The last one: afterwards the cluster has a node less.
test.skipIf(GIVEN)(
  "cluster: a killed datanode is shown, why its regions are down, and their failover",
  async () => {
    const { page, context, problems } = await open(browser, url, "cluster");
    await page.getByText("3 live datanodes").waitFor();
    const [region, lost] = (await places("seen_parted"))[0] ?? [0, 0];
    const table = (name: string) => page.getByRole("region", { name, exact: true });
    const row = table("Regions")
      .getByRole("row")
      .filter({ hasText: String(region) });
    // Without failovers, the region is down for as long as it takes to look at it.
    await cluster?.switchFailovers(false);
    cluster?.killDatanode(lost);
    await row.getByText(/^down for/).waitFor({ timeout: FAILOVER_MS_MAX });
    await row.getByText(`datanode ${lost} has not been heard of`).waitFor();
    await table("Nodes")
      .getByText(/^silent for/)
      .waitFor();
    await checkAccessibility(page);
    await page.getByLabel("Filter regions by table").fill("seen_parted");
    await screenshot(page, "cluster-region-down");
    await cluster?.switchFailovers(true);
    const failover = table("Failovers")
      .getByRole("row")
      .filter({ hasText: String(region) });
    await failover.getByText("Done", { exact: true }).waitFor({ timeout: FAILOVER_MS_MAX });
    const [reason] = (await sql(
      `SELECT reason FROM information_schema.region_failovers WHERE region_id = ${region}`,
    )) as string[][];
    expect(reason?.[0]).toBeTruthy();
    await failover.getByRole("cell", { name: reason?.[0] ?? "", exact: true }).waitFor();
    await failover.getByText(new RegExp(`^${lost} → \\d$`)).waitFor();
    await row.getByText("alive", { exact: true }).waitFor();
    await checkAccessibility(page);
    await screenshot(page, "cluster-failover");
    await page.emulateMedia({ colorScheme: "dark" });
    await page.setViewportSize(PHONE);
    await checkWidth(page);
    await table("Failovers").scrollIntoViewIfNeeded();
    await screenshot(page, "phone-cluster-failover-dark");
    expect(await sql("SELECT count(*) FROM seen_parted WHERE ts > '2024-01-01'")).toEqual([[400]]);
    expect(problems).toEqual([]);
    await context.close();
  },
  2 * FAILOVER_MS_MAX + 120_000,
);

async function sql(statement: string): Promise<unknown[][]> {
  const answer = await fetch(`${url}/v1/sql`, {
    method: "POST",
    body: new URLSearchParams({ sql: statement }),
  });
  if (!answer.ok) throw new Error(await answer.text());
  const { output } = (await answer.json()) as { output: { records?: { rows: unknown[][] } }[] };
  return output[0]?.records?.rows ?? [];
}

async function write(lines: string[]): Promise<void> {
  const path = "/v1/influxdb/write?precision=ms";
  const answer = await fetch(url + path, { method: "POST", body: lines.join("\n") });
  if (!answer.ok) throw new Error(await answer.text());
}

async function places(table: string): Promise<[number, number][]> {
  const found = await sql(
    `SELECT region_id, peer_id FROM information_schema.region_peers WHERE table_name = '${table}' ORDER BY 1`,
  );
  return found as [number, number][];
}
