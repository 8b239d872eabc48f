// How values of the server look: times by the zone of the page, everything else as it is.
import type { Cell } from "../api/sql";
import { zoneChoice } from "../frame/zone";

const UNIT_DIGITS: Record<string, number> = { Second: 0, Millisecond: 3, Microsecond: 6, Nanosecond: 9 };
const NUMERIC = /^(U?Int(8|16|32|64)|Float(16|32|64)|Decimal)/;

export function isTime(type: string): boolean {
  return type.startsWith("Timestamp") || type === "Date";
}

export function isNumeric(type: string): boolean {
  return NUMERIC.test(type);
}

/** The milliseconds since 1970 of a time, with a fraction if the column has one. */
export function toMillis(value: number | bigint, type: string): number {
  if (type === "Date") return Number(value) * 86_400_000;
  return Number(value) / 10 ** (digitsOf(type) - 3);
}

/** The value as a number, null if it is none. */
export function toNumber(value: Cell): number | null {
  if (value === null || value === "" || typeof value === "object") return null;
  const number = Number(value);
  return Number.isNaN(number) ? null : number;
}

export function formatCell(value: Cell | undefined, type: string): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "number" || typeof value === "bigint") {
    if (type === "Date") return new Date(Number(value) * 86_400_000).toISOString().slice(0, 10);
    return type.startsWith("Timestamp") ? formatTimestamp(value, digitsOf(type)) : String(value);
  }
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** Write a number of milliseconds since 1970 as a time: 2026-11-18 07:54:27.123. */
export function formatMillis(millis: number, digits = 3): string {
  const text = zonedText(Math.floor(millis));
  return digits ? `${text}.${pad(Math.floor(mod(millis, 1000)), 3).slice(0, digits)}` : text;
}

/** Write a duration as people read it: 340 ms, 2.5 s, 3 min, 3 min 20 s, 5 h 12 min, 3 d 4 h. */
export function formatDuration(millis: number): string {
  if (millis < 1000) return `${Math.round(millis)} ms`;
  if (millis < 60_000) return `${(millis / 1000).toFixed(1)} s`;
  const minutes = Math.floor(millis / 60_000);
  if (minutes < 60) return twoParts(minutes, "min", Math.floor((millis % 60_000) / 1000), "s");
  const hours = Math.floor(minutes / 60);
  return hours < 24
    ? twoParts(hours, "h", minutes % 60, "min")
    : twoParts(Math.floor(hours / 24), "d", hours % 24, "h");
}

function twoParts(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return `${large} ${largeUnit}${small ? ` ${small} ${smallUnit}` : ""}`;
}

export function formatCount(count: number | bigint): string {
  return count.toLocaleString("en-US");
}

/** Write a number of things: 1 row, 2,000 rows. */
export function countOf(count: number | bigint, thing: string): string {
  return `${formatCount(count)} ${thing}${Number(count) === 1 ? "" : "s"}`;
}

export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  let left = bytes;
  while (left >= 1024 && at < units.length - 1) {
    left /= 1024;
    at += 1;
  }
  return `${at === 0 || left >= 100 ? Math.round(left) : left.toFixed(1)} ${units[at]}`;
}

/** Write the value of a chart in few characters: 1.25 k, 3.4 M, 0.00012. */
export function formatValue(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  for (const [unit, suffix] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e4, "k"],
  ] as const) {
    if (size >= unit) return `${trim(value / (suffix === "k" ? 1e3 : unit))} ${suffix}`;
  }
  if (size !== 0 && size < 1e-4) return value.toExponential(2);
  return trim(value);
}

function trim(value: number): string {
  return String(Number(value.toPrecision(5)));
}

function digitsOf(type: string): number {
  return UNIT_DIGITS[type.replace("Timestamp", "").replace(/\(.*/, "")] ?? 3;
}

function formatTimestamp(value: number | bigint, digits: number): string {
  // The fraction comes from the digits themselves: a number cannot hold nanoseconds of today.
  const ticks = BigInt(value);
  const unit = 10n ** BigInt(digits);
  let seconds = ticks / unit;
  let fraction = ticks % unit;
  if (fraction < 0n) {
    fraction += unit;
    seconds -= 1n;
  }
  const text = zonedText(Number(seconds) * 1000);
  return digits ? `${text}.${pad(fraction, digits)}` : text;
}

function zonedText(millis: number): string {
  const date = new Date(millis);
  if (Number.isNaN(date.getTime())) return String(millis);
  const shown = zoneChoice() === "utc" ? date : new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return shown.toISOString().replace("T", " ").replace(/\..*$/, "");
}

function mod(value: number, by: number): number {
  return ((value % by) + by) % by;
}

function pad(value: number | bigint, digits: number): string {
  return String(value).padStart(digits, "0");
}
