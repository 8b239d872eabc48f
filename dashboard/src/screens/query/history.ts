// The queries of this browser, newest first; bounded in number and size.
import type { Language } from "./state";

export interface PastQuery {
  language: Language;
  text: string;
  database: string;
  /** Milliseconds since 1970. */
  at: number;
}

const KEY = "tsdb.history";
const ENTRIES_MAX = 200;
const CHARS_MAX = 200_000;

export function readHistory(): PastQuery[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? (found as PastQuery[]) : [];
  } catch {
    return [];
  }
}

export function remember(query: PastQuery): void {
  write(addQuery(readHistory(), query));
}

export function clearHistory(): void {
  localStorage.removeItem(KEY);
}

/** Put a query first; the same one further down goes, and what is too much at the end. */
export function addQuery(past: PastQuery[], query: PastQuery): PastQuery[] {
  const others = past.filter(
    ({ text, language, database }) =>
      text !== query.text || language !== query.language || database !== query.database,
  );
  let chars = 0;
  return [query, ...others].slice(0, ENTRIES_MAX).filter(({ text }) => {
    chars += text.length;
    return chars <= CHARS_MAX;
  });
}

function write(queries: PastQuery[]): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(queries));
  } catch {
    // The storage of the browser is full or switched off: then there is no history.
  }
}
