// One table: its columns, rows, statement and a first plot.
import { useEffect, useMemo, useState } from "preact/hooks";
import { messageOf } from "../../api/client";
import { queryTable } from "../../api/sql";
import { openQuery } from "../../frame/place";
import { countOf, formatBytes } from "../../parts/cells";
import { Chart } from "../../parts/chart";
import { DataTable } from "../../parts/data-table";
import { chartOfTable } from "../../parts/series";
import { EmptyState, ErrorBox, Loading } from "../../parts/states";
import { Tabs } from "../../parts/tabs";
import { useLoaded } from "../../parts/use-loaded";
import {
  type ColumnEntry,
  countRows,
  listColumns,
  localTable,
  numericFields,
  plotSql,
  sampleSql,
  showCreate,
  type TableEntry,
} from "./catalog";

const TABS = [
  ["columns", "Columns"],
  ["sample", "Rows"],
  ["plot", "Plot"],
  ["create", "Definition"],
] as const;
type Tab = (typeof TABS)[number][0];

interface Props {
  table: TableEntry;
  database: string;
}

export function TableDetails({ table, database }: Props) {
  const [tab, setTab] = useState<Tab>("columns");
  const columns = useLoaded(
    (signal) => listColumns(table.name, { database, signal }),
    [table.name, database],
  );
  return (
    <section class="panel details" aria-label={table.name}>
      <header class="panel-head">
        <h2 class="mono">{table.name}</h2>
        {table.engine && <span class="badge">{table.engine}</span>}
        {table.bytes !== null && table.bytes > 0 && <span class="badge">{formatBytes(table.bytes)}</span>}
        <RowCount table={table} database={database} />
      </header>
      <div class="details-tabs">
        <Tabs label="Details" tabs={TABS} active={tab} onChoose={setTab} panel="table-details" />
      </div>
      <div id="table-details" role="tabpanel" aria-label={tab} class="details-body">
        {columns.error ? (
          <ErrorBox message={columns.error} onRetry={columns.reload} />
        ) : !columns.value ? (
          <Loading what="columns" />
        ) : tab === "columns" ? (
          <Columns columns={columns.value} />
        ) : tab === "sample" ? (
          <Sample table={table.name} columns={columns.value} database={database} />
        ) : tab === "plot" ? (
          <Plot table={table.name} columns={columns.value} database={database} />
        ) : (
          <Definition table={table} database={database} />
        )}
      </div>
    </section>
  );
}

/** The rows by the statistics if there are any, and counted when asked for: that reads the table. */
function RowCount({ table, database }: Props) {
  const [counted, setCounted] = useState<string | null>(null);
  useEffect(() => setCounted(null), [table.name, database]);
  const count = async () => {
    setCounted("counting…");
    try {
      setCounted(countOf(await countRows(table.name, { database }), "row"));
    } catch (error) {
      setCounted(messageOf(error));
    }
  };
  return (
    <span class="row soft">
      {counted ?? (table.rows === null ? "" : `about ${countOf(table.rows, "row")}`)}
      {counted === null && (
        <button type="button" class="button small" onClick={count}>
          Count rows
        </button>
      )}
    </span>
  );
}

function Columns({ columns }: { columns: ColumnEntry[] }) {
  const made = () =>
    localTable(
      [
        ["column", "String"],
        ["type", "String"],
        ["role", "String"],
        ["nullable", "String"],
        ["default", "String"],
      ],
      columns.map((each) => [
        each.name,
        each.type,
        each.role.toLowerCase(),
        each.isNullable ? "yes" : "no",
        each.defaultText,
      ]),
    );
  const shown = useMemo(made, [columns]);
  return <DataTable label="Columns" table={shown} />;
}

interface RowsProps {
  table: string;
  columns: ColumnEntry[];
  database: string;
}

function Sample({ table, columns, database }: RowsProps) {
  const sql = sampleSql(table, columns);
  const rows = useLoaded((signal) => queryTable(sql, { database, signal }), [sql, database]);
  if (rows.error) return <ErrorBox message={rows.error} onRetry={rows.reload} />;
  if (!rows.value) return <Loading what="rows" />;
  return (
    <div class="with-action">
      {rows.value.rows.length ? (
        <DataTable label="Rows" table={rows.value} />
      ) : (
        <EmptyState title="No rows" />
      )}
      <QueryLink text={sql} database={database} view="table" />
    </div>
  );
}

function Plot({ table, columns, database }: RowsProps) {
  const fields = numericFields(columns);
  const [chosen, setChosen] = useState(fields[0] ?? "");
  const field = fields.includes(chosen) ? chosen : (fields[0] ?? "");
  const sql = field ? plotSql(table, columns, field) : null;
  const data = useLoaded(
    async (signal) =>
      sql ? chartOfTable(await queryTable(sql, { database, signal })) : "a plot needs a time and a number",
    [sql, database],
  );
  if (data.error) return <ErrorBox message={data.error} onRetry={data.reload} />;
  if (!data.value) return <Loading what="values" />;
  if (typeof data.value === "string") return <EmptyState title="No plot">{data.value}</EmptyState>;
  return (
    <div class="with-action">
      {data.value.times.length ? <Chart data={data.value} label={field} /> : <EmptyState title="No rows" />}
      <div class="row">
        <label class="inline-field">
          <span>Field</span>
          <select value={field} onChange={(event) => setChosen(event.currentTarget.value)}>
            {fields.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        {sql && <QueryLink text={sql} database={database} view="chart" />}
      </div>
    </div>
  );
}

function Definition({ table, database }: Props) {
  const text = useLoaded((signal) => showCreate(table, { database, signal }), [table.name, database]);
  if (text.error) return <ErrorBox message={text.error} onRetry={text.reload} />;
  if (text.value === null) return <Loading what="definition" />;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what can be scrolled must be reached by keyboard
    <pre class="definition" tabIndex={0}>
      {text.value}
    </pre>
  );
}

export function QueryLink(props: { text: string; database: string; view: string; language?: string }) {
  const { text, database, view, language = "sql" } = props;
  return (
    <button
      type="button"
      class="button"
      onClick={() => openQuery({ lang: language, q: text, db: database, view, range: "3h" })}
    >
      Open in Query
    </button>
  );
}
