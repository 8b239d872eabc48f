import { useState } from "preact/hooks";
import { zoneChoice } from "../frame/zone";
import { formatMillis } from "./cells";
import { boundsOf, PRESETS, parseRange, type TimeRange, writeRange } from "./time-range";

interface Props {
  range: TimeRange;
  onChange: (range: TimeRange) => void;
}

/** Chooses a range of time: one of the usual lengths up to now, or two times. */
export function RangeField({ range, onChange }: Props) {
  const isFixed = !("last" in range);
  const text = writeRange(range);
  const choose = (chosen: string) => {
    const parsed = chosen === "fixed" ? rounded(boundsOf(range)) : parseRange(chosen);
    if (parsed) onChange(parsed);
  };
  const known = PRESETS.some(([name]) => name === text);
  return (
    <div class="row">
      <label class="inline-field">
        <span>Time</span>
        <select value={isFixed ? "fixed" : text} onChange={(event) => choose(event.currentTarget.value)}>
          {PRESETS.map(([name]) => (
            <option key={name} value={name}>
              last {name}
            </option>
          ))}
          {!known && !isFixed && <option value={text}>last {text}</option>}
          <option value="fixed">from … to</option>
        </select>
      </label>
      {isFixed && <FixedRange range={range} onChange={onChange} />}
    </div>
  );
}

function FixedRange({
  range,
  onChange,
}: {
  range: { start: number; end: number };
  onChange: Props["onChange"];
}) {
  const [error, setError] = useState("");
  const change = (part: "start" | "end", text: string) => {
    const seconds = parseInput(text);
    const next = { ...range, ...(seconds !== null && { [part]: seconds }) };
    const isValid = seconds !== null && next.start < next.end;
    setError(isValid ? "" : "the start must be before the end");
    if (isValid) onChange(next);
  };
  return (
    <>
      {(["start", "end"] as const).map((part) => (
        <label key={part} class="inline-field">
          <span class="visually-hidden">{part === "start" ? "From" : "To"}</span>
          <input
            type="datetime-local"
            step="1"
            value={formatMillis(range[part] * 1000, 0).replace(" ", "T")}
            onChange={(event) => change(part, event.currentTarget.value)}
          />
        </label>
      ))}
      {error && (
        <span class="error-text" role="alert">
          {error}
        </span>
      )}
    </>
  );
}

function parseInput(text: string): number | null {
  const millis = Date.parse(zoneChoice() === "utc" ? `${text}Z` : text);
  return Number.isNaN(millis) ? null : millis / 1000;
}

function rounded({ start, end }: { start: number; end: number }): TimeRange {
  return { start: Math.floor(start), end: Math.ceil(end) };
}
