// A table of facts with a heading; on narrow screens it scrolls sideways inside its panel.
import type { ComponentChildren, JSX } from "preact";
import { useId } from "preact/hooks";

export interface InfoColumn<T> {
  title: string;
  cell(row: T): ComponentChildren;
  /** Numbers are aligned at the right. */
  isNumber?: boolean;
  /** Long texts get the space that is left, and are cut. */
  isWide?: boolean;
}

interface Props<T> {
  title: string;
  rows: readonly T[];
  columns: readonly InfoColumn<T>[];
  keyOf(row: T): string;
  /** What is shown when there are no rows. */
  empty: ComponentChildren;
  /** Beside the heading. */
  aside?: ComponentChildren;
}

export function InfoTable<T>({ title, rows, columns, keyOf, empty, aside }: Props<T>) {
  const heading = useId();
  return (
    <div class="panel info">
      <div class="panel-head">
        <h2 id={heading}>{title}</h2>
        {aside}
      </div>
      {rows.length === 0 ? (
        <p class="panel-body soft">{empty}</p>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard
        <section class="scroll" tabIndex={0} aria-labelledby={heading}>
          <table class="info-table">
            <thead>
              <tr>
                {columns.map((column) => (
                  <th key={column.title} scope="col" class={classOf(column)}>
                    {column.title}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={keyOf(row)}>
                  {columns.map((column) => (
                    <td key={column.title} class={classOf(column)}>
                      {column.cell(row)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </div>
  );
}

function classOf<T>({ isNumber, isWide }: InfoColumn<T>): string | undefined {
  return isNumber ? "number" : isWide ? "wide" : undefined;
}

interface ReasonedProps {
  /** Of the badge: good, warn, bad, or empty. */
  kind: string;
  state: string;
  reason: string | null | undefined;
  /** Shown instead of the reason. */
  error?: string | null;
}

/** A state, and below it why it is so: everybody can read it, also without a pointer. */
export function Reasoned({ kind, state, reason, error }: ReasonedProps): JSX.Element {
  return (
    <>
      <span class={`badge ${kind}`}>{state}</span>
      {(error || reason) && (
        <p class={error ? "reason error-text" : "reason soft"}>{error ? error : reason}</p>
      )}
    </>
  );
}

const SHORT_CHARS_MAX = 120;

/** A statement: three lines of it, and all of a long one when it is opened. */
export function Code({ text }: { text: string }): JSX.Element {
  if (text.length <= SHORT_CHARS_MAX && text.split("\n").length <= 3) return <code>{text}</code>;
  return (
    <details class="long">
      <summary>
        <code>{text}</code>
      </summary>
    </details>
  );
}

/** How much of a whole is used. */
export function Meter({ value, max, label }: { value: number; max: number; label: string }): JSX.Element {
  const share = max > 0 ? Math.min(1, value / max) : 0;
  const kind = share > 0.95 ? "bad" : share > 0.8 ? "warn" : "";
  return (
    <svg class={`meter ${kind}`} viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={label}>
      <rect class="meter-all" width="100" height="6" rx="3" />
      <rect class="meter-used" width={share * 100} height="6" rx="3" />
    </svg>
  );
}

/** A small line of what a number was lately. */
export function Spark({ values, label }: { values: readonly number[]; label: string }): JSX.Element {
  const most = Math.max(1e-9, ...values);
  const step = values.length > 1 ? 100 / (values.length - 1) : 0;
  const points = values.map(
    (value, at) => `${(at * step).toFixed(1)},${(28 - (value / most) * 26).toFixed(1)}`,
  );
  return (
    <svg class="spark" viewBox="0 0 100 30" preserveAspectRatio="none" role="img" aria-label={label}>
      {points.length > 1 && <polygon points={`0,30 ${points.join(" ")} 100,30`} />}
      {points.length > 1 && <polyline points={points.join(" ")} />}
    </svg>
  );
}
