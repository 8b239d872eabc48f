// The bar above the messages: table, text, time range, fields, and whether to follow.
import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";
import { RangeField } from "../../parts/range-field";
import type { TimeRange } from "../../parts/time-range";
import { textOf } from "./rows";
import type { FieldFilter, TextMode } from "./search";
import type { Asked } from "./state";
import { isText, type LogTable, textColumns } from "./tables";

interface Props {
  asked: Asked;
  tables: LogTable[];
  isLive: boolean;
  text: RefObject<HTMLInputElement | null>;
  onAsk: (asked: Asked) => void;
  onLive: (isLive: boolean) => void;
}

const MODES: readonly (readonly [TextMode, string])[] = [
  ["words", "Words"],
  ["term", "Whole term"],
  ["part", "Part of the text"],
];

const HINTS: Record<TextMode, string> = {
  words: 'retry AND -ok, "connection reset" OR timeout',
  term: "a word or phrase as a whole",
  part: "any part of the text, as it is",
};

export function FilterBar({ asked, tables, isLive, text, onAsk, onLive }: Props) {
  const [typed, setTyped] = useState(asked.text);
  useEffect(() => setTyped(asked.text), [asked.text]);
  const table = tables.find(({ name }) => name === asked.table);
  const submit = (event: Event) => {
    event.preventDefault();
    onAsk({ ...asked, text: typed });
  };
  const chooseTable = (name: string) => {
    const chosen = tables.find((each) => each.name === name);
    if (chosen) onAsk({ ...asked, text: typed, table: name, message: chosen.message, filters: [] });
  };
  return (
    <section class="panel log-bar" aria-label="What to show">
      <form class="row" onSubmit={submit}>
        <label class="field">
          <span>Table</span>
          <select value={asked.table} onChange={(event) => chooseTable(event.currentTarget.value)}>
            <TableOptions tables={tables} />
          </select>
        </label>
        <label class="field">
          <span>Message</span>
          <select
            value={asked.message}
            onChange={(event) => onAsk({ ...asked, text: typed, message: event.currentTarget.value })}
          >
            {table && textColumns(table).map((name) => <option key={name}>{name}</option>)}
          </select>
        </label>
        <label class="field log-text">
          <span>Text</span>
          <input
            ref={text}
            type="search"
            value={typed}
            placeholder={HINTS[asked.mode]}
            spellcheck={false}
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </label>
        <label class="field">
          <span>Find</span>
          <select
            value={asked.mode}
            onChange={(event) =>
              onAsk({ ...asked, text: typed, mode: event.currentTarget.value as TextMode })
            }
          >
            {MODES.map(([name, title]) => (
              <option key={name} value={name}>
                {title}
              </option>
            ))}
          </select>
        </label>
        <div class="log-buttons">
          <button type="submit" class="button primary">
            Search
          </button>
          <button type="button" class="button" aria-pressed={isLive} onClick={() => onLive(!isLive)}>
            <span class={isLive ? "dot" : "dot off"} aria-hidden="true" /> {isLive ? "Live" : "Follow"}
          </button>
        </div>
      </form>
      <div class="row">
        <WhenField range={asked.range} onRange={(range) => onAsk({ ...asked, text: typed, range })} />
        {table && (
          <Filters asked={asked} table={table} onAsk={(changed) => onAsk({ ...changed, text: typed })} />
        )}
      </div>
    </section>
  );
}

function TableOptions({ tables }: { tables: LogTable[] }) {
  const option = ({ name }: LogTable) => (
    <option key={name} value={name}>
      {name}
    </option>
  );
  const logs = tables.filter(({ isLog }) => isLog);
  const others = tables.filter(({ isLog }) => !isLog);
  return (
    <>
      {logs.length > 0 && <optgroup label="Logs">{logs.map(option)}</optgroup>}
      {others.length > 0 && <optgroup label="Other tables with text">{others.map(option)}</optgroup>}
    </>
  );
}

interface WhenProps {
  range: TimeRange | null;
  onRange: (range: TimeRange | null) => void;
}

function WhenField({ range, onRange }: WhenProps) {
  return (
    <>
      {range && <RangeField range={range} onChange={onRange} />}
      <label class="inline-field any-time">
        <input
          type="checkbox"
          checked={range === null}
          onChange={(event) => onRange(event.currentTarget.checked ? null : { last: 3600 })}
        />
        <span>Any time</span>
      </label>
    </>
  );
}

interface FiltersProps {
  asked: Asked;
  table: LogTable;
  onAsk: (asked: Asked) => void;
}

function Filters({ asked, table, onAsk }: FiltersProps) {
  const [column, setColumn] = useState("");
  const [value, setValue] = useState("");
  const columns = table.columns.filter(
    ({ semantic, name }) => semantic !== "TIMESTAMP" && name !== asked.message,
  );
  const add = (event: Event) => {
    event.preventDefault();
    const chosen = columns.find(({ name }) => name === (column || columns[0]?.name));
    if (!chosen || value === "") return;
    const typed = isText(chosen.type) || Number.isNaN(Number(value)) ? value : Number(value);
    onAsk({ ...asked, filters: [...asked.filters, { column: chosen.name, value: typed, isNot: false }] });
    setValue("");
  };
  const remove = (at: number) =>
    onAsk({ ...asked, filters: asked.filters.filter((_, other) => other !== at) });
  return (
    <form class="row log-filters" aria-label="Fields" onSubmit={add}>
      {asked.filters.map((filter, at) => (
        <Chip
          key={`${filter.column} ${filter.isNot} ${filter.value}`}
          filter={filter}
          onRemove={() => remove(at)}
        />
      ))}
      {columns.length > 0 && (
        <span class="row">
          <select
            aria-label="Field"
            value={column || columns[0]?.name || ""}
            onChange={(event) => setColumn(event.currentTarget.value)}
          >
            {columns.map(({ name }) => (
              <option key={name}>{name}</option>
            ))}
          </select>
          <input
            aria-label="Value of the field"
            placeholder="is …"
            value={value}
            onInput={(event) => setValue(event.currentTarget.value)}
          />
          <button type="submit" class="button small" disabled={value === ""}>
            Add
          </button>
        </span>
      )}
    </form>
  );
}

function Chip({ filter, onRemove }: { filter: FieldFilter; onRemove: () => void }) {
  const shown = filter.value === null ? "null" : textOf(filter.value);
  return (
    <span class="badge chip">
      {filter.column} {filter.isNot ? "≠" : "="} {shown}
      <button
        type="button"
        class="chip-remove"
        aria-label={`Remove ${filter.column} ${shown}`}
        onClick={onRemove}
      >
        ✕
      </button>
    </span>
  );
}
