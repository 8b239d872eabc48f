// CSV: the page makes line protocol of it, by what the user says the columns are, and goes on as with lines.
import { useMemo, useRef, useState } from "preact/hooks";
import { messageOf } from "../../api/client";
import { ErrorBox, Notice } from "../../parts/states";
import { InfoTable } from "../common/info-table";
import {
  type ColumnPlan,
  type Conversion,
  type ConversionPlan,
  type Csv,
  convertCsv,
  type FieldType,
  guessPlan,
  parseCsv,
  type Role,
  type TimeUnit,
} from "./csv";
import { Result } from "./result";
import { Choice, FormOptions, showLine, TextArea, UnitChoice } from "./text-area";
import { useWriting } from "./use-writing";

const EXAMPLE = `time,host,usage,cores
2024-05-01T12:00:00Z,web-1,0.64,8
2024-05-01T12:00:10Z,web-1,0.58,8`;

const ROLES: readonly (readonly [Role, string])[] = [
  ["time", "Time"],
  ["tag", "Tag"],
  ["field", "Field"],
  ["skip", "Leave out"],
];
const TYPES: readonly (readonly [FieldType, string])[] = [
  ["float", "Number (Float64)"],
  ["integer", "Whole number (Int64)"],
  ["boolean", "Boolean"],
  ["text", "Text (String)"],
];
const UNITS: readonly (readonly [TimeUnit, string])[] = [
  ["text", "Text, as 2024-05-01T12:00:00Z"],
  ["s", "Seconds since 1970"],
  ["ms", "Milliseconds since 1970"],
  ["us", "Microseconds since 1970"],
  ["ns", "Nanoseconds since 1970"],
];
const ERRORS_MAX = 200;
const NOTHING: Conversion = { text: "", csvLines: [], errors: [] };

export function CsvForm({ database }: { database: string }) {
  const [text, setText] = useState("");
  const [table, setTable] = useState("");
  const [chosen, setChosen] = useState<{ header: string; plan: ConversionPlan } | null>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const { csv, failure } = useMemo(() => read(text), [text]);
  const header = csv?.header.join("\u0001") ?? "";
  // What the user chose stays while the columns are the same.
  const plan = useMemo(() => {
    const base = chosen?.header === header ? chosen.plan : csv ? guessPlan(csv, "") : null;
    return base && { ...base, table: table.trim() };
  }, [csv, header, chosen, table]);
  const isReady = csv !== null && plan !== null && plan.table !== "" && csv.rows.length > 0;
  const conversion = useMemo(() => (isReady ? convertCsv(csv, plan) : NOTHING), [isReady, csv, plan]);
  const writing = useWriting(database, conversion.text, "ns");
  const canTry = isReady && conversion.errors.length === 0;
  const change = (changed: ConversionPlan) => setChosen({ header, plan: changed });
  const showExample = () => {
    setText(EXAMPLE);
    setTable(table || "cpu");
  };
  return (
    <>
      <section class="panel panel-body ingest-form" aria-label="CSV">
        <TextArea
          label="CSV, with names in the first line"
          value={text}
          placeholder={EXAMPLE}
          field={field}
          onInput={setText}
          onTry={() => canTry && writing.try()}
          onWrite={writing.write}
        />
        {failure && <ErrorBox message={failure} />}
        {csv && plan && <Columns csv={csv} plan={plan} onChange={change} />}
        <FormOptions writing={writing} canTry={canTry} onExample={showExample}>
          <label class="inline-field">
            <span>Table</span>
            <input
              value={table}
              placeholder="cpu"
              spellcheck={false}
              onInput={(event) => setTable(event.currentTarget.value)}
            />
          </label>
          {plan?.columns.some(({ role }) => role === "time") ? (
            <UnitChoice value={plan.unit} options={UNITS} onChoose={(unit) => change({ ...plan, unit })} />
          ) : null}
        </FormOptions>
        <Hints csv={csv} plan={plan} conversion={conversion} />
      </section>
      {conversion.errors.length > 0 && (
        <ConversionErrors conversion={conversion} onShow={(line) => showLine(field.current, line, 1)} />
      )}
      <Result
        writing={writing}
        sourceLine={(line) => conversion.csvLines[line - 1] ?? line}
        onShow={(line) => showLine(field.current, line, 1)}
      />
    </>
  );
}

function read(text: string): { csv: Csv | null; failure: string } {
  if (text.trim() === "") return { csv: null, failure: "" };
  try {
    return { csv: parseCsv(text), failure: "" };
  } catch (error) {
    return { csv: null, failure: messageOf(error) };
  }
}

function Hints({
  csv,
  plan,
  conversion,
}: {
  csv: Csv | null;
  plan: ConversionPlan | null;
  conversion: Conversion;
}) {
  if (!csv || !plan) return null;
  if (csv.rows.length === 0) return <Notice>There is a header, and no row below it.</Notice>;
  if (!plan.columns.some(({ role }) => role === "time"))
    return <Notice>No column is the time: rows get the time of their arrival.</Notice>;
  if (plan.table === "") return <p class="soft">Which table are the rows for?</p>;
  return (
    <details>
      <summary>As line protocol</summary>
      <pre class="preview">{conversion.text.split("\n").slice(0, 5).join("\n")}</pre>
    </details>
  );
}

function Columns({
  csv,
  plan,
  onChange,
}: {
  csv: Csv;
  plan: ConversionPlan;
  onChange: (plan: ConversionPlan) => void;
}) {
  const set = (at: number, changed: Partial<ColumnPlan>) =>
    onChange({
      ...plan,
      columns: plan.columns.map((column, other) => {
        if (other === at) return { ...column, ...changed };
        // There is one time.
        return changed.role === "time" && column.role === "time" ? { ...column, role: "field" } : column;
      }),
    });
  return (
    <InfoTable
      title="Columns"
      rows={plan.columns.map((column, at) => ({ ...column, at }))}
      keyOf={({ at }) => String(at)}
      empty="The first line names none."
      columns={[
        { title: "Column", cell: ({ name }) => <strong>{name || "(without a name)"}</strong> },
        {
          title: "First value",
          isWide: true,
          cell: ({ at }) => <code class="clamped">{csv.rows[0]?.cells[at] ?? ""}</code>,
        },
        {
          title: "Is",
          cell: ({ at, name, role }) => (
            <Choice
              label={`What ${name} is`}
              value={role}
              options={ROLES}
              onChoose={(chosen) => set(at, { role: chosen })}
            />
          ),
        },
        {
          title: "Type",
          cell: ({ at, name, role, type }) =>
            role === "field" ? (
              <Choice
                label={`Type of ${name}`}
                value={type}
                options={TYPES}
                onChoose={(chosen) => set(at, { type: chosen })}
              />
            ) : null,
        },
      ]}
    />
  );
}

function ConversionErrors({
  conversion,
  onShow,
}: {
  conversion: Conversion;
  onShow: (line: number) => void;
}) {
  const { errors } = conversion;
  return (
    <InfoTable
      title="Rows that cannot be converted"
      rows={errors.slice(0, ERRORS_MAX)}
      keyOf={({ line, column }) => `${line} ${column}`}
      empty=""
      aside={
        <span class="soft">
          {errors.length > ERRORS_MAX ? `the first ${ERRORS_MAX} of ${errors.length}` : ""}
        </span>
      }
      columns={[
        {
          title: "Line",
          isNumber: true,
          cell: ({ line }) => (
            <button
              type="button"
              class="button small quiet"
              aria-label={`Show line ${line}`}
              onClick={() => onShow(line)}
            >
              {line}
            </button>
          ),
        },
        { title: "Column", cell: ({ column }) => column },
        { title: "Problem", isWide: true, cell: ({ message }) => message },
      ]}
    />
  );
}
