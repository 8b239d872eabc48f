// Headless Chromium with an empty profile, and what every test of a screen checks.
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { AxeResults } from "axe-core";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { expect } from "vitest";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const SCREENSHOTS = join(import.meta.dirname, "../screenshots");
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf-8");

export const DESKTOP = { width: 1280, height: 800 };
export const PHONE = { width: 390, height: 844 };

export function startBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: CHROMIUM, args: FLAGS, headless: true });
}

export interface Opened {
  page: Page;
  context: BrowserContext;
  /** What went wrong in the page, and requests to other servers: must stay empty. */
  problems: string[];
}

export interface OpenOptions {
  theme?: "light" | "dark";
  viewport?: { width: number; height: number };
  zone?: string;
}

/** Open a path below /dashboard/ in a new session. */
export async function open(
  browser: Browser,
  url: string,
  path = "",
  { theme = "light", viewport = DESKTOP, zone = "Europe/Berlin" }: OpenOptions = {},
): Promise<Opened> {
  const context = await browser.newContext({
    colorScheme: theme,
    viewport,
    timezoneId: zone,
    acceptDownloads: true,
    ignoreHTTPSErrors: url.startsWith("https:"),
  });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("console", (message) => {
    // A refused request is logged by the browser itself; the screens show it.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) {
      problems.push(`console: ${message.text()}`);
    }
  });
  page.on("request", (request) => {
    const asked = request.url();
    if (!asked.startsWith(url) && !/^(blob|data):/.test(asked)) problems.push(`request: ${asked}`);
  });
  await page.goto(`${url}/dashboard/${path}`);
  return { page, context, problems };
}

export async function screenshot(page: Page, name: string): Promise<void> {
  mkdirSync(SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`) });
}

/** Fail if axe finds a serious or critical problem. */
export async function checkAccessibility(page: Page): Promise<void> {
  // The policy of the page forbids added scripts; what the debugger evaluates is not one.
  await page.evaluate(AXE);
  const results = await page.evaluate(() =>
    (globalThis as unknown as { axe: { run(): Promise<AxeResults> } }).axe.run(),
  );
  const grave = results.violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const shown = grave.flatMap(({ id, nodes }) =>
    nodes.map((node) => `${id}: ${node.target.join(" ")} ${node.failureSummary ?? ""}`),
  );
  expect(shown).toEqual([]);
}

/** Fail if the page can be scrolled sideways. */
export async function checkWidth(page: Page): Promise<void> {
  const [wanted, given] = await page.evaluate(() => [
    document.documentElement.scrollWidth,
    document.documentElement.clientWidth,
  ]);
  expect(wanted).toBeLessThanOrEqual(given ?? 0);
}
