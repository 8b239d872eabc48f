// The time range of a search: the last so many minutes, everything, or from a time to a time.

export interface Range {
  /** The name of a preset, `all` or `custom`. */
  kind: string;
  /** For custom: times without a zone as the browser's fields have them, in the zone of the page. */
  from: string;
  to: string;
}

export const PRESETS: readonly (readonly [name: string, title: string, ms: number])[] = [
  ["5m", "Last 5 minutes", 300_000],
  ["15m", "Last 15 minutes", 900_000],
  ["1h", "Last hour", 3_600_000],
  ["6h", "Last 6 hours", 21_600_000],
  ["24h", "Last 24 hours", 86_400_000],
  ["7d", "Last 7 days", 604_800_000],
  ["30d", "Last 30 days", 2_592_000_000],
];

export const DEFAULT_RANGE = "1h";

/** Bounds in milliseconds since 1970; null is no bound. */
export function boundsOf(
  range: Range,
  nowMs: number,
  zone: string,
): { fromMs: number | null; toMs: number | null } {
  const preset = PRESETS.find(([name]) => name === range.kind);
  if (preset) return { fromMs: nowMs - preset[2], toMs: null };
  if (range.kind !== "custom") return { fromMs: null, toMs: null };
  return { fromMs: parseLocal(range.from, zone), toMs: parseLocal(range.to, zone) };
}

/** Milliseconds of a time like 2024-05-01T12:00 in a zone; null if it is none. */
export function parseLocal(text: string, zone: string): number | null {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(text)) return null;
  const asUtc = Date.parse(`${text}Z`);
  if (Number.isNaN(asUtc)) return null;
  // The offset at the time itself; once more, because the first guess may lie on the other side of a change of clocks.
  const guess = asUtc - offsetMs(asUtc, zone);
  return asUtc - offsetMs(guess, zone);
}

/** How far clocks of a zone are ahead of UTC at a time. */
function offsetMs(ms: number, zone: string): number {
  const shown = new Date(ms).toLocaleString("sv-SE", { timeZone: zone });
  return Date.parse(`${shown.replace(" ", "T")}Z`) - Math.floor(ms / 1000) * 1000;
}

/** A time as the browser's fields have it. */
export function toLocal(ms: number, zone: string): string {
  return new Date(ms).toLocaleString("sv-SE", { timeZone: zone }).replace(" ", "T");
}
