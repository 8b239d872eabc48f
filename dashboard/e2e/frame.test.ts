// What surrounds all screens: navigation, help, theme, login.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { checkAccessibility, checkWidth, open, PHONE, screenshot, startBrowser } from "./browser";
import { type Server, startServer } from "./server";

const SCREENS = ["query", "explore", "logs", "ingest", "status", "cluster"];

let server: Server;
let browser: Browser;

beforeAll(async () => {
  [server, browser] = await Promise.all([startServer(), startBrowser()]);
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

for (const theme of ["light", "dark"] as const) {
  test(`every screen can be reached and read, ${theme}`, async () => {
    const { page, context, problems } = await open(browser, server.url, "", { theme });
    for (const name of SCREENS) {
      const title = name.charAt(0).toUpperCase() + name.slice(1);
      await page.getByRole("navigation").getByRole("link", { name: title }).click();
      await page.getByRole("heading", { level: 1, name: title }).waitFor();
      await page.waitForLoadState("networkidle");
      expect(new URL(page.url()).pathname).toBe(`/dashboard/${name}`);
      await checkAccessibility(page);
      await screenshot(page, `frame-${name}-${theme}`);
    }
    expect(problems).toEqual([]);
    await context.close();
  });
}

test("every screen fits a phone", async () => {
  for (const name of SCREENS) {
    const { page, context, problems } = await open(browser, server.url, name, { viewport: PHONE });
    await page.waitForLoadState("networkidle");
    await checkWidth(page);
    await screenshot(page, `phone-${name}`);
    expect(problems).toEqual([]);
    await context.close();
  }
});

test("keys lead to screens and to the help, and Esc closes it", async () => {
  const { page, context } = await open(browser, server.url, "status");
  await page.getByRole("heading", { level: 1, name: "Status" }).waitFor();
  const explore = page.getByRole("heading", { level: 1, name: "Explore" });
  // On a machine that stands still, the keys are too far apart to belong together.
  const pressBoth = async () => {
    await page.keyboard.press("g");
    await page.keyboard.press("e");
    return explore.isVisible();
  };
  await expect.poll(pressBoth, { timeout: 60_000 }).toBe(true);
  await page.keyboard.press("?");
  const help = page.getByRole("dialog", { name: "Keyboard shortcuts" });
  await help.waitFor();
  await checkAccessibility(page);
  await screenshot(page, "help");
  await page.keyboard.press("Escape");
  await help.waitFor({ state: "detached" });
  await context.close();
});

test("the theme follows the system until the user chooses, and the choice is kept", async () => {
  const { page, context } = await open(browser, server.url, "query", { theme: "light" });
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  expect(await theme()).toBe("light");
  await page.emulateMedia({ colorScheme: "dark" });
  await expect.poll(theme, { timeout: 60_000 }).toBe("dark");
  await page.getByRole("button", { name: "Use the light theme" }).click();
  await expect.poll(theme, { timeout: 60_000 }).toBe("light");
  await page.reload();
  await page.getByRole("button", { name: "Use the dark theme" }).waitFor();
  expect(await theme()).toBe("light");
  await context.close();
});

test("a server with users is asked with the credentials that the page asks for", async () => {
  const guarded = await startServer({ login: { user: "ann", password: "sécret" } });
  try {
    const { page, context, problems } = await open(browser, guarded.url, "query");
    const dialog = page.getByRole("dialog", { name: "Log in" });
    await dialog.getByLabel("User").fill("ann");
    await dialog.getByLabel("Password").fill("wrong");
    await screenshot(page, "login");
    await checkAccessibility(page);
    await dialog.getByRole("button", { name: "Log in" }).click();
    await dialog.getByRole("alert").waitFor();
    await dialog.getByLabel("User").fill("ann");
    await dialog.getByLabel("Password").fill("sécret");
    await dialog.getByRole("button", { name: "Log in" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Log out ann" }).waitFor();
    // The list has the current database before the server has answered, so that of a schema is waited for.
    const database = page.getByLabel("Database");
    await database.getByRole("option", { name: "information_schema" }).waitFor({ state: "attached" });
    expect(problems).toEqual([]);
    await context.close();
  } finally {
    await guarded.stop();
  }
});

test("over TLS the page works, and the addresses that it gives are those of TLS", async () => {
  const guarded = await startServer({ usesTls: true, login: { user: "ann", password: "secret" } });
  try {
    expect(guarded.url).toMatch(/^https:/);
    const { page, context, problems } = await open(browser, guarded.url, "ingest#way=programs");
    const dialog = page.getByRole("dialog", { name: "Log in" });
    await dialog.getByLabel("User").fill("ann");
    await dialog.getByLabel("Password").fill("secret");
    await dialog.getByRole("button", { name: "Log in" }).click();
    await page.getByText(`curl -i -u ann '${guarded.url}/v1/influxdb/write?db=public`).first().waitFor();
    const snippets = await page.getByRole("tabpanel").textContent();
    expect(snippets).toMatch(/grpc\+tls:\/\/127\.0\.0\.1:\d+", db_kwargs={"username": "ann"/);
    expect(snippets).toMatch(/mysql -h 127\.0\.0\.1 -P \d+ --ssl-mode=REQUIRED -u ann -p public/);
    expect(snippets).toMatch(/psql 'postgresql:\/\/ann@127\.0\.0\.1:\d+\/public\?sslmode=require'/);
    await checkAccessibility(page);
    await screenshot(page, "ingest-programs-tls");
    expect(problems).toEqual([]);
    await context.close();
  } finally {
    await guarded.stop();
  }
});
