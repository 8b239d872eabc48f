// A table of any length: only the rows in view are elements, all of the same height. A click on a heading sorts.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Cell, Column, Table } from "../api/sql";
import { useZone } from "../frame/zone";
import { formatCell, isNumeric } from "./cells";

const ROW_PX = 27;
const ROWS_BEYOND = 12;
const MEASURED_ROWS = 200;
const COLUMN_CHARS = { min: 5, max: 48 };

interface Sorting {
  column: number;
  isDescending: boolean;
}

interface Props {
  label: string;
  table: Pick<Table, "columns" | "rows">;
  /** Called with the row, in the order of the server, that was activated by click or Enter. */
  onRow?: (row: Cell[]) => void;
}

export function DataTable({ label, table, onRow }: Props) {
  const { columns, rows } = table;
  const zone = useZone();
  const box = useRef<HTMLElement>(null);
  const [view, setView] = useState({ top: 0, height: 400 });
  const [sorting, setSorting] = useState<Sorting | null>(null);
  const order = useMemo(() => sortedOrder(rows, sorting), [rows, sorting]);
  const widths = useMemo(() => columns.map((column, at) => widthOf(column, rows, at)), [columns, rows, zone]);
  useEffect(() => setSorting(null), [columns]);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    element.scrollTop = 0;
    const look = () => setView({ top: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(look);
    observer.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    look();
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, [rows]);
  const first = Math.max(0, Math.floor(view.top / ROW_PX) - ROWS_BEYOND);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / ROW_PX) + ROWS_BEYOND);
  const shown = Array.from({ length: Math.max(0, last - first) }, (_, at) => first + at);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what can be scrolled must be reached by keyboard
    <section class="data-table" ref={box} tabIndex={0} aria-label={label}>
      <table aria-rowcount={rows.length + 1}>
        <colgroup>
          {widths.map((width, at) => (
            <col key={at} style={{ width: `calc(${width}ch + 26px)` }} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column, at) => (
              <Heading
                key={at}
                column={column}
                sorting={sorting?.column === at ? sorting : null}
                onSort={() => setSorting((now) => nextSorting(now, at))}
              />
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr style={{ height: `${first * ROW_PX}px` }} />}
          {shown.map((at) => {
            const row = rows[order ? (order[at] ?? at) : at];
            return row && <Row key={at} index={at + 2} row={row} columns={columns} onRow={onRow} />;
          })}
          {last < rows.length && <tr style={{ height: `${(rows.length - last) * ROW_PX}px` }} />}
        </tbody>
      </table>
    </section>
  );
}

interface HeadingProps {
  column: Column;
  sorting: Sorting | null;
  onSort: () => void;
}

function Heading({ column, sorting, onSort }: HeadingProps) {
  const direction = sorting ? (sorting.isDescending ? "descending" : "ascending") : undefined;
  return (
    <th scope="col" class={isNumeric(column.type) ? "number" : undefined} aria-sort={direction}>
      <button type="button" onClick={onSort} title={`${column.name} · ${column.type}`}>
        {column.name}
        <span aria-hidden="true">{sorting ? (sorting.isDescending ? " ↓" : " ↑") : ""}</span>
      </button>
    </th>
  );
}

interface RowProps {
  index: number;
  row: Cell[];
  columns: Column[];
  onRow: ((row: Cell[]) => void) | undefined;
}

function Row({ index, row, columns, onRow }: RowProps) {
  return (
    <tr
      aria-rowindex={index}
      class={onRow ? "active" : undefined}
      tabIndex={onRow ? 0 : undefined}
      onClick={onRow && (() => onRow(row))}
      onKeyDown={onRow && ((event) => event.key === "Enter" && onRow(row))}
    >
      {columns.map((column, at) => {
        const value = row[at];
        const text = formatCell(value, column.type);
        const isNull = value === null;
        return (
          <td key={at} class={isNull ? "null" : isNumeric(column.type) ? "number" : undefined} title={text}>
            {isNull ? "NULL" : text}
          </td>
        );
      })}
    </tr>
  );
}

function nextSorting(now: Sorting | null, column: number): Sorting | null {
  if (now?.column !== column) return { column, isDescending: false };
  return now.isDescending ? null : { column, isDescending: true };
}

/** The order of the rows; null for that of the server. Nulls come last, equal values keep their order. */
export function sortedOrder(rows: Cell[][], sorting: Sorting | null): number[] | null {
  if (!sorting) return null;
  const sign = sorting.isDescending ? -1 : 1;
  return rows
    .map((_, at) => at)
    .sort(
      (left, right) =>
        compare(rows[left]?.[sorting.column], rows[right]?.[sorting.column], sign) || left - right,
    );
}

function compare(left: Cell | undefined, right: Cell | undefined, sign: number): number {
  if (left === null || left === undefined || right === null || right === undefined) {
    return Number(left === null || left === undefined) - Number(right === null || right === undefined);
  }
  if (typeof left === "object" || typeof right === "object") {
    return sign * JSON.stringify(left).localeCompare(JSON.stringify(right));
  }
  return left < right ? -sign : left > right ? sign : 0;
}

/** The width of a column in characters: that of what is in it, within bounds. */
function widthOf(column: Column, rows: Cell[][], at: number): number {
  let widest = column.name.length + 2;
  for (const row of rows.slice(0, MEASURED_ROWS)) {
    widest = Math.max(widest, formatCell(row[at], column.type).length);
  }
  return Math.min(COLUMN_CHARS.max, Math.max(COLUMN_CHARS.min, widest));
}
