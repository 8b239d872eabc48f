// A range of time: the last so many seconds, or from one time to another. In addresses: 1h, or 1700000000-1700003600.

export type TimeRange = { last: number } | { start: number; end: number };

export const PRESETS: readonly (readonly [text: string, seconds: number])[] = [
  ["5m", 300],
  ["15m", 900],
  ["1h", 3600],
  ["3h", 10_800],
  ["6h", 21_600],
  ["12h", 43_200],
  ["1d", 86_400],
  ["2d", 172_800],
  ["7d", 604_800],
  ["30d", 2_592_000],
];

const UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };

export function parseRange(text: string): TimeRange | null {
  const fixed = /^(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(text);
  if (fixed) {
    const [start, end] = [Number(fixed[1]), Number(fixed[2])];
    return start < end ? { start, end } : null;
  }
  const seconds = parseDuration(text);
  return seconds === null ? null : { last: seconds };
}

export function writeRange(range: TimeRange): string {
  if (!("last" in range)) return `${range.start}-${range.end}`;
  return writeDuration(range.last);
}

/** The seconds of a duration such as 15s, 1m30s or 2h; null if it is none. */
export function parseDuration(text: string): number | null {
  if (!/^(\d+(\.\d+)?[smhdw])+$/.test(text)) return null;
  let seconds = 0;
  for (const [, number, unit] of text.matchAll(/(\d+(?:\.\d+)?)([smhdw])/g)) {
    seconds += Number(number) * (UNITS[unit ?? "s"] ?? 1);
  }
  return seconds > 0 ? seconds : null;
}

export function writeDuration(seconds: number): string {
  for (const unit of ["d", "h", "m"]) {
    const length = UNITS[unit] ?? 1;
    if (seconds >= length && seconds % length === 0) return `${seconds / length}${unit}`;
  }
  return `${seconds}s`;
}

/** The seconds since 1970 of both ends. */
export function boundsOf(range: TimeRange, now = Date.now() / 1000): { start: number; end: number } {
  return "last" in range ? { start: now - range.last, end: now } : range;
}

/** A step that gives about as many points as a chart can show, from a list that people expect. */
export function stepOf(seconds: number, points = 250): number {
  const steps = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400,
  ];
  return steps.find((step) => seconds / step <= points) ?? Math.ceil(seconds / points / 86_400) * 86_400;
}
