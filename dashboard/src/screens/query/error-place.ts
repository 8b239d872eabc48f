// Where in a statement an error is. The server says the line and column of most errors; for others, the word that it
// names is looked for.

export interface Place {
  from: number;
  to: number;
}

const AT = /\bat line (\d+), column (\d+)/i;
const PROMQL = /^(\d+):(\d+): parse error/;
const END = /the end of the statement|end of input/i;
const NAMED = [
  /Table not found: (\S+)/i,
  /Database not found: (\S+)/i,
  /No field named ("[^"]+"|[\w.]+)/i,
  /Invalid function ['"]?([\w.]+)/i,
  /unknown function (?:with name )?"?([\w.]+)/i,
  /\bin (?:call to )?(\w+)\(\)/,
  /column ['"`]?([\w.]+)['"`]? (?:not found|does not exist)/i,
];
const QUOTED = /'([^']+)'|"([^"]+)"|`([^`]+)`/g;

/** Return the part of the text that an error is about, null if that is unknown. */
export function errorPlace(text: string, message: string): Place | null {
  const found = PROMQL.exec(message) ?? AT.exec(message);
  if (found) return wordAt(text, offsetOf(text, Number(found[1]), Number(found[2])));
  for (const name of namesIn(message)) {
    const place = findName(text, name);
    if (place) return place;
  }
  if (END.test(message)) return lastWord(text);
  return null;
}

/** The names that a message speaks of, those after known words first. */
function* namesIn(message: string): Generator<string> {
  for (const pattern of NAMED) {
    const found = pattern.exec(message)?.[1];
    if (found) yield found.replace(/[.,;]+$/, "");
  }
  // What comes after a list of valid names or a suggestion is not in the statement.
  const relevant = message.split(/Valid fields|did you mean/i)[0] ?? "";
  for (const [, single, double, back] of relevant.matchAll(QUOTED)) yield single ?? double ?? back ?? "";
}

/** Find a name, or the last part of one with dots, as a whole word. */
function findName(text: string, name: string): Place | null {
  const bare = name.replaceAll('"', "");
  for (const wanted of [bare, bare.split(".").at(-1) ?? ""]) {
    if (!wanted) continue;
    const escaped = wanted.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    const found = new RegExp(`(?<![\\w.])${escaped}(?!\\w)|(?<=\\.)${escaped}(?!\\w)`, "i").exec(text);
    if (found) return { from: found.index, to: found.index + found[0].length };
  }
  return null;
}

function offsetOf(text: string, line: number, column: number): number {
  const lines = text.split("\n");
  const before = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  return Math.min(before + column - 1, text.length);
}

/** The word at an offset; a character, if it is none; the last one, at the end of the text. */
function wordAt(text: string, at: number): Place | null {
  if (at >= text.trimEnd().length) return lastWord(text);
  const word = /^\w+/.exec(text.slice(at))?.[0];
  return { from: at, to: at + (word?.length ?? 1) };
}

function lastWord(text: string): Place | null {
  const end = text.trimEnd().length;
  if (end === 0) return null;
  const word = /\w+$/.exec(text.slice(0, end))?.[0];
  return { from: end - (word?.length ?? 1), to: end };
}
