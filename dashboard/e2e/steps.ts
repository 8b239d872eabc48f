// What several tests do on a screen.
import type { Locator, Page } from "playwright-core";

export function editorOf(page: Page): Locator {
  return page.getByRole("textbox", { name: /SQL statement|PromQL query/ });
}

/** Replace the text of the editor and run it with the keyboard. */
export async function ask(page: Page, text: string): Promise<void> {
  await editorOf(page).click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(text);
  await page.keyboard.press("Control+Enter");
}

/** Take a completion with Enter. The editor ignores keys while a list is new, so that it does not surprise. */
export async function accept(page: Page, option: Locator): Promise<void> {
  await option.waitFor();
  await page.waitForTimeout(500);
  await page.keyboard.press("Enter");
}

export async function waitRows(page: Page, text: string | RegExp): Promise<void> {
  await page.getByRole("region", { name: "Result" }).getByRole("status").filter({ hasText: text }).waitFor();
}

/** The messages of the screen Logs. */
export function messagesOf(page: Page): Locator {
  return page.getByRole("list", { name: "Messages, the newest first" }).getByRole("listitem");
}

/** A statement that runs until it is cancelled, in little memory. */
export const LONG =
  "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b WHERE a.value * b.value = -1";
