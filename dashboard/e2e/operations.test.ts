// Logs, Ingest, Status and Cluster against one standalone server.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { checkAccessibility, checkWidth, open, PHONE, screenshot, startBrowser } from "./browser";
import { type Server, startServer } from "./server";
import { LONG, messagesOf } from "./steps";

let server: Server;
let browser: Browser;

const LEVELS = ["info", "info", "info", "warn", "error"];

beforeAll(async () => {
  [server, browser] = await Promise.all([startServer(), startBrowser()]);
  await server.sql(
    "CREATE TABLE app_logs (host STRING, level STRING, ts TIMESTAMP(3) TIME INDEX, message STRING FULLTEXT INDEX, " +
      "took DOUBLE, PRIMARY KEY (host)) WITH (append_mode = 'true')",
  );
  const now = Date.now();
  const lines = Array.from({ length: 900 }, (_, at) => {
    const level = LEVELS[at % LEVELS.length];
    const message =
      level === "error" ? `connection to db-${at % 3} lost, retry ${at}` : `request ${at} served`;
    return `app_logs,host=web-${at % 4} level="${level}",message="${message}",took=${at % 50} ${now - at * 2000}`;
  });
  await server.write(lines.join("\n"));
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

for (const theme of ["light", "dark"] as const) {
  test(`logs are shown newest first, paged by time and searched, ${theme}`, async () => {
    const { page, context, problems } = await open(browser, server.url, "logs", { theme });
    await messagesOf(page).first().waitFor();
    expect(await messagesOf(page).count()).toBe(200);
    expect(await messagesOf(page).first().textContent()).toContain("request 0 served");
    await page.getByRole("button", { name: "Older messages" }).click();
    await expect.poll(() => messagesOf(page).count(), { timeout: 60_000 }).toBe(400);
    await page.keyboard.press("/");
    await page.keyboard.type('"db-1" AND retry');
    await page.keyboard.press("Enter");
    await expect.poll(() => messagesOf(page).count(), { timeout: 60_000 }).toBe(60);
    expect(await messagesOf(page).first().textContent()).toContain("db-1 lost");
    await messagesOf(page).first().getByRole("button").click();
    await page
      .getByRole("button", { name: /^Only host/ })
      .first()
      .click();
    await expect.poll(() => messagesOf(page).count(), { timeout: 60_000 }).toBe(15);
    await messagesOf(page).first().getByRole("button").first().click();
    await checkAccessibility(page);
    await screenshot(page, `logs-${theme}`);
    const link = page.url();
    await page.goto("about:blank");
    await page.goto(link);
    await expect.poll(() => messagesOf(page).count(), { timeout: 60_000 }).toBe(15);
    expect(problems).toEqual([]);
    await context.close();
  });
}

test("logs: the keyboard goes from message to message, and what is wrong with a search is said", async () => {
  const { page, context } = await open(browser, server.url, "logs");
  await messagesOf(page).first().getByRole("button").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  expect(await messagesOf(page).nth(1).getByRole("button").first().getAttribute("aria-expanded")).toBe(
    "true",
  );
  await page.getByRole("searchbox", { name: "Text" }).fill('"never closed');
  await page.getByRole("button", { name: "Search" }).click();
  const alert = page.getByRole("alert");
  await alert.waitFor();
  expect(await alert.textContent()).toMatch(/quote|close|end/i);
  await context.close();
});

test("logs: what comes is shown while it is followed, once", async () => {
  const { page, context, problems } = await open(browser, server.url, "logs");
  await messagesOf(page).first().waitFor();
  await page.getByRole("button", { name: "Follow" }).click();
  const late = Date.now();
  await server.write(`app_logs,host=live level="warn",message="just came" ${late}`);
  await expect.poll(() => messagesOf(page).first().textContent(), { timeout: 60_000 }).toContain("just came");
  await server.write(`app_logs,host=live level="warn",message="came late" ${late - 1500}`);
  await page.getByText("came late").waitFor();
  await server.write(`app_logs,host=live level="warn",message="and another" ${late + 1}`);
  await page.getByText("and another").waitFor();
  expect(await page.getByText("just came").count()).toBe(1);
  expect(await page.getByText("came late").count()).toBe(1);
  await screenshot(page, "logs-live");
  expect(problems).toEqual([]);
  await context.close();
});

test("ingest: a dry run tells each line, and what was tried is written", async () => {
  const { page, context, problems } = await open(browser, server.url, "ingest");
  const field = page.getByLabel("Lines: table,tag=value field=value time");
  await field.fill(
    'fresh,host=a v=1 1700000000\nfresh,host=a v= 1700000001\napp_logs,host=a took="x" 1700000000',
  );
  await page.keyboard.press("Control+Enter");
  await page.getByText("Nothing would be written").waitFor();
  await page.getByText("cannot be read", { exact: true }).waitFor();
  await page.getByText("the request has String").waitFor();
  expect(await page.getByRole("button", { name: "Write" }).isDisabled()).toBe(true);
  await checkAccessibility(page);
  await screenshot(page, "ingest-problems");
  await page.getByRole("button", { name: "Show line 2" }).click();
  const selected = await field.evaluate((area: HTMLTextAreaElement) =>
    area.value.slice(area.selectionStart, area.selectionEnd),
  );
  expect(selected).toBe(" 1700000001");
  await field.fill(
    "fresh,host=a v=1 1700000000\nfresh,host=b v=2 1700000001\napp_logs,host=a extra=1i 1700000000",
  );
  await page.getByRole("button", { name: "Dry run" }).click();
  await page.getByText("3 rows would be written").waitFor();
  await page.getByText("Creates: fresh").waitFor();
  await page.getByText("Adds the column extra (Int64) to app_logs").waitFor();
  await page.getByText("2023-11-14 22:13:21").waitFor();
  await screenshot(page, "ingest-clean");
  expect(await count("information_schema.tables WHERE table_name = 'fresh'")).toBe(0);
  await page.getByRole("button", { name: "Write" }).click();
  await page.getByText("3 rows were written.").waitFor();
  expect(await count("fresh")).toBe(2);
  expect(problems).toEqual([]);
  await context.close();
});

test("ingest: CSV becomes rows by the columns that are chosen", async () => {
  const { page, context, problems } = await open(browser, server.url, "ingest#way=csv", { theme: "dark" });
  const field = page.getByLabel("CSV, with names in the first line");
  await field.fill('time,room,degrees\n2024-05-01T12:00:00Z,"a, b",20.5\n2024-05-01T12:00:10Z,"a, b",oops\n');
  await page.getByLabel("Table").fill("climate");
  await page.getByLabel("What degrees is").selectOption("field");
  await page.getByLabel("Type of degrees").selectOption("float");
  await page.getByText('"oops" is not a number').waitFor();
  expect(await page.getByRole("button", { name: "Dry run" }).isDisabled()).toBe(true);
  await field.fill('time,room,degrees\n2024-05-01T12:00:00Z,"a, b",20.5\n2024-05-01T12:00:10Z,"a, b",21\n');
  await page.getByLabel("What room is").selectOption("tag");
  await page.getByRole("button", { name: "Dry run" }).click();
  await page.getByText("2 rows would be written").waitFor();
  await checkAccessibility(page);
  await screenshot(page, "ingest-csv-dark");
  await page.getByRole("button", { name: "Write" }).click();
  await page.getByText("2 rows were written.").waitFor();
  expect(await count("climate WHERE room = 'a, b'")).toBe(2);
  expect(problems).toEqual([]);
  await context.close();
});

test("ingest: snippets have the addresses of this server", async () => {
  const { page, context, problems } = await open(browser, server.url, "ingest#way=programs");
  await page.getByRole("heading", { name: "Line protocol" }).waitFor();
  const all = await page.getByRole("tabpanel").textContent();
  expect(all).toContain(`${server.url}/v1/influxdb/write?db=public`);
  expect(all).toMatch(/mysql -h 127\.0\.0\.1 -P \d+/);
  await checkAccessibility(page);
  await screenshot(page, "ingest-programs");
  expect(problems).toEqual([]);
  await context.close();
});

test("status: running statements are shown and can be cancelled, refused rows are explained", async () => {
  const refused = fetch(`${server.url}/v1/influxdb/write`, { method: "POST", body: "app_logs took=t" });
  expect((await refused).status).toBe(400);
  const { page, context, problems } = await open(browser, server.url, "status");
  await page.getByText("Rows written per second").waitFor();
  await page.getByText("has the type Float64").waitFor();
  const running = server.sql(`${LONG} AND 'all of a long statement can be read' <> ''`).then(
    () => "ended",
    (error: Error) => error.message,
  );
  const statement = page.locator("details.long");
  await statement.locator("summary").focus();
  await page.keyboard.press("Enter");
  await expect.poll(() => statement.getAttribute("open"), { timeout: 60_000 }).not.toBeNull();
  await screenshot(page, "status-running");
  expect(await page.locator("main [title]").count()).toBe(0);
  await page
    .getByRole("button", { name: /^Cancel / })
    .first()
    .click();
  await screenshot(page, "status-cancel");
  await page.getByRole("button", { name: "Cancel the statement" }).click();
  expect(await running).toMatch(/cancel|kill/i);
  await page.getByText("Nothing runs at the moment.").waitFor();
  await checkAccessibility(page);
  await screenshot(page, "status-light");
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText("Paused").waitFor();
  expect(problems).toEqual([]);
  await context.close();
});

test("status and cluster in the dark", async () => {
  const { page, context, problems } = await open(browser, server.url, "status", { theme: "dark" });
  await page.getByText("Rows written per second").waitFor();
  await checkAccessibility(page);
  await screenshot(page, "status-dark");
  await page.getByRole("navigation").getByRole("link", { name: "Cluster" }).click();
  await page.getByText("This is one node").waitFor();
  await checkAccessibility(page);
  await screenshot(page, "cluster-one-dark");
  expect(problems).toEqual([]);
  await context.close();
});

test("cluster: a standalone says that it is one node, and shows its regions", async () => {
  const { page, context, problems } = await open(browser, server.url, "cluster");
  await page.getByText("This is one node").waitFor();
  await page.getByRole("cell", { name: "public.app_logs" }).waitFor();
  expect(await page.getByRole("button", { name: /^Move region/ }).count()).toBe(0);
  await page.getByLabel("Filter regions by table").fill("nothing like this");
  await page.getByText("No table has this in its name.").waitFor();
  await screenshot(page, "cluster-one");
  expect(problems).toEqual([]);
  await context.close();
});

test("the four screens fit a phone", async () => {
  for (const [path, ready] of [
    ["logs", "Search"],
    ["ingest", "Dry run"],
    ["ingest#way=programs", "OpenTelemetry"],
    ["status", "Slow queries"],
    ["cluster", "Regions"],
  ] as const) {
    const { page, context, problems } = await open(browser, server.url, path, { viewport: PHONE });
    await page.getByText(ready, { exact: true }).first().waitFor();
    await checkWidth(page);
    await checkAccessibility(page);
    await screenshot(page, `phone-${path.replace(/#.*=/, "-")}`);
    expect(problems).toEqual([]);
    await context.close();
  }
});

async function count(from: string): Promise<number> {
  const answer = (await server.sql(`SELECT count(*) FROM ${from}`)) as {
    output: { records: { rows: number[][] } }[];
  };
  return answer.output[0]?.records.rows[0]?.[0] ?? -1;
}
