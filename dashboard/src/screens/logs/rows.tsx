// The list of messages. A row opens to show all its fields, each of which can narrow the search.
import { useState } from "preact/hooks";
import type { Cell } from "../../api/sql";
import { formatCell, formatMillis } from "../../parts/cells";
import { type FieldFilter, type LogRow, msFromTicks, tick, ticksOf, timeAt } from "./search";
import { type LogTable, levelColumn, severityOf } from "./tables";

interface Props {
  rows: LogRow[];
  table: LogTable;
  message: string;
  onFilter: (filter: FieldFilter) => void;
}

export function LogRows({ rows, table, message, onFilter }: Props) {
  const names = table.columns.map(({ name }) => name);
  const shape = {
    time: timeAt(table),
    message: names.indexOf(message),
    level: names.indexOf(levelColumn(table) ?? ""),
    ticks: ticksOf(table.time.type),
  };
  return (
    <ol class="log-rows" aria-label="Messages, the newest first" onKeyDown={moveFocus}>
      {keyed(rows).map(([key, row]) => (
        <LogRowItem key={key} row={row} shape={shape} table={table} onFilter={onFilter} />
      ))}
    </ol>
  );
}

interface Shape {
  time: number;
  message: number;
  level: number;
  ticks: bigint;
}

/** Rows have no identity: equal ones are numbered from the oldest, so that new rows do not close open ones. */
function keyed(rows: LogRow[]): [string, LogRow][] {
  const seen = new Map<string, number>();
  const found: [string, LogRow][] = [];
  for (const row of rows.toReversed()) {
    const text = row.map(textOf).join("\u0001");
    const number = (seen.get(text) ?? 0) + 1;
    seen.set(text, number);
    found.push([`${number} ${text}`, row]);
  }
  return found.reverse();
}

interface ItemProps {
  row: LogRow;
  shape: Shape;
  table: LogTable;
  onFilter: (filter: FieldFilter) => void;
}

function LogRowItem({ row, shape, table, onFilter }: ItemProps) {
  const [isOpen, setOpen] = useState(false);
  const level = row[shape.level];
  const severity = severityOf(level);
  return (
    <li class={isOpen ? "log-row open" : "log-row"}>
      <button type="button" class="log-line" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <time class="log-time">{formatMillis(msFromTicks(tick(row, shape.time), shape.ticks))}</time>
        {shape.level >= 0 && (
          <span class={`badge log-level ${severity}`}>{textOf(level ?? null) || "–"}</span>
        )}
        <span class="log-message">{textOf(row[shape.message] ?? null) || "–"}</span>
      </button>
      {isOpen && <Fields row={row} table={table} shape={shape} onFilter={onFilter} />}
    </li>
  );
}

function Fields({ row, table, shape, onFilter }: ItemProps) {
  return (
    <dl class="log-fields">
      {table.columns.map(({ name, semantic }, at) => {
        const cell = row[at] ?? null;
        const canFilter = semantic !== "TIMESTAMP" && (cell === null || typeof cell !== "object");
        return (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <span class="log-value">
                {at === shape.time ? exactTime(row, shape) : cell === null ? "null" : textOf(cell)}
              </span>
              {canFilter && (
                <span class="log-filter-buttons">
                  <FilterButton name={name} cell={cell} isNot={false} onFilter={onFilter} />
                  <FilterButton name={name} cell={cell} isNot onFilter={onFilter} />
                </span>
              )}
            </dd>
          </div>
        );
      })}
    </dl>
  );
}

interface FilterButtonProps {
  name: string;
  cell: Cell;
  isNot: boolean;
  onFilter: (filter: FieldFilter) => void;
}

function FilterButton({ name, cell, isNot, onFilter }: FilterButtonProps) {
  const label = isNot ? `Without ${name} ${textOf(cell)}` : `Only ${name} ${textOf(cell)}`;
  return (
    <button
      type="button"
      class="button small quiet"
      aria-label={label}
      title={label}
      onClick={() => onFilter({ column: name, value: cell as FieldFilter["value"], isNot })}
    >
      {isNot ? "≠" : "="}
    </button>
  );
}

function exactTime(row: LogRow, { time, ticks }: Shape): string {
  return formatCell(row[time], TIME_TYPES[String(ticks)] ?? "TimestampMillisecond");
}

const TIME_TYPES: Record<string, string> = {
  "1": "TimestampSecond",
  "1000": "TimestampMillisecond",
  "1000000": "TimestampMicrosecond",
  "1000000000": "TimestampNanosecond",
};

export function textOf(cell: Cell): string {
  return formatCell(cell, "");
}

/** Arrow keys go from message to message, Home and End to the first and last. */
function moveFocus(event: KeyboardEvent): void {
  const lines = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>(".log-line")];
  const at = lines.indexOf(event.target as HTMLElement);
  if (at < 0) return;
  const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: lines.length - 1 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  lines[Math.min(lines.length - 1, Math.max(0, next))]?.focus();
}
