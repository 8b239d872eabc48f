// What a query came to: as a table or a chart, and as a download.
import { useEffect, useMemo, useState } from "preact/hooks";
import { call, messageOf } from "../../api/client";
import { type Labels, parseValue, type Series } from "../../api/prometheus";
import { type Cell, type DownloadFormat, downloadSql, ROWS_MAX, type Table } from "../../api/sql";
import { countOf, formatCount, formatDuration } from "../../parts/cells";
import { Chart } from "../../parts/chart";
import { DataTable } from "../../parts/data-table";
import { saveAs } from "../../parts/save";
import { chartOfSeries, chartOfTable } from "../../parts/series";
import { EmptyState, Notice } from "../../parts/states";
import { Tabs } from "../../parts/tabs";
import type { Outcome } from "./run";
import type { View } from "./state";

interface Props {
  outcome: Outcome;
  view: View;
  onView: (view: View) => void;
  onZoom: (start: number, end: number) => void;
}

const VIEWS = [
  ["table", "Table"],
  ["chart", "Chart"],
] as const;

export function Results({ outcome, view, onView, onZoom }: Props) {
  const outputs = outcome.kind === "sql" ? outcome.result.outputs : [];
  const [chosen, setChosen] = useState(0);
  useEffect(() => setChosen(Math.max(0, outputs.length - 1)), [outputs]);
  const output = outputs[chosen];
  const table = useMemo(
    () =>
      outcome.kind === "promql"
        ? tableOfSeries(outcome.result.series, outcome.steps !== null)
        : output?.kind === "table"
          ? output.table
          : null,
    [outcome, output],
  );
  return (
    <section class="panel results" aria-label="Result">
      <header class="panel-head">
        <Tabs label="View" tabs={VIEWS} active={view} onChoose={onView} panel="query-result" />
        {outputs.length > 1 && (
          <label class="inline-field">
            <span>Statement</span>
            <select value={chosen} onChange={(event) => setChosen(Number(event.currentTarget.value))}>
              {outputs.map((each, at) => (
                <option key={`${at + 1}`} value={at}>
                  {at + 1}:{" "}
                  {each.kind === "table"
                    ? countOf(each.table.rows.length, "row")
                    : `${formatCount(each.rows)} affected`}
                </option>
              ))}
            </select>
          </label>
        )}
        <Summary outcome={outcome} table={table} />
        {table && table.columns.length > 0 && <Downloads outcome={outcome} isSingle={outputs.length <= 1} />}
      </header>
      {outcome.kind === "promql" && outcome.result.warnings.map((text) => <Notice key={text}>{text}</Notice>)}
      {table?.isCut && (
        <Notice>Only the first {formatCount(table.rows.length)} rows are shown; a download has all.</Notice>
      )}
      <div
        id="query-result"
        role="tabpanel"
        aria-label={view === "chart" ? "Chart" : "Table"}
        class="result-body"
      >
        {!table ? (
          <EmptyState title="Done">
            {output?.kind === "affected" && `${countOf(output.rows, "row")} affected.`}
          </EmptyState>
        ) : table.rows.length === 0 ? (
          <EmptyState title="No rows">
            {table.columns.length > 0 && `Columns: ${table.columns.map(({ name }) => name).join(", ")}`}
          </EmptyState>
        ) : view === "chart" ? (
          <ChartView outcome={outcome} table={table} onZoom={onZoom} />
        ) : (
          <DataTable label="Rows" table={table} />
        )}
      </div>
    </section>
  );
}

function ChartView({ outcome, table, onZoom }: { outcome: Outcome; table: Table; onZoom: Props["onZoom"] }) {
  const data = useMemo(
    () =>
      outcome.kind === "promql"
        ? chartOfSeries(outcome.result.series, outcome.steps ?? undefined)
        : chartOfTable(table),
    [outcome, table],
  );
  if (typeof data === "string") return <EmptyState title="No chart">{data}</EmptyState>;
  const isRange = outcome.kind === "promql" && outcome.steps !== null;
  const range = isRange ? (outcome.steps ?? undefined) : undefined;
  return <Chart data={data} label="Result" range={range} {...(isRange && { onZoom })} />;
}

function Summary({ outcome, table }: { outcome: Outcome; table: Table | null }) {
  const parts = [
    table && (table.isCut ? `${formatCount(table.rows.length)}+ rows` : countOf(table.rows.length, "row")),
    outcome.kind === "promql" && `${formatCount(outcome.result.series.length)} series`,
    outcome.kind === "promql" && outcome.steps && `step ${outcome.steps.step} s`,
    formatDuration(outcome.elapsedMs),
    outcome.kind === "sql" && `server ${formatDuration(outcome.result.executionMs)}`,
  ];
  return (
    <p class="soft" role="status">
      {parts.filter(Boolean).join(" · ")}
    </p>
  );
}

const FORMATS: readonly (readonly [DownloadFormat, title: string, ending: string])[] = [
  ["csvwithnames", "CSV", "csv"],
  ["json", "JSON", "json"],
  ["arrow", "Arrow", "arrow"],
];

function Downloads({ outcome, isSingle }: { outcome: Outcome; isSingle: boolean }) {
  const [failure, setFailure] = useState("");
  const [busy, setBusy] = useState<string | null>(null);
  if (!isSingle) return null;
  const download = async (format: DownloadFormat, ending: string) => {
    setBusy(format);
    setFailure("");
    try {
      saveAs(await fetchAs(outcome, format), `result.${ending}`);
    } catch (error) {
      setFailure(messageOf(error));
    } finally {
      setBusy(null);
    }
  };
  return (
    <div class="row spread">
      {failure && (
        <span class="error-text" role="alert">
          {failure}
        </span>
      )}
      <span class="soft" id="download-label">
        Download
      </span>
      {FORMATS.map(([format, title, ending]) => (
        <button
          key={format}
          type="button"
          class="button small"
          disabled={busy !== null}
          onClick={() => download(format, ending)}
          aria-label={`Download ${title}`}
        >
          {busy === format ? "…" : title}
        </button>
      ))}
    </div>
  );
}

/** Let the server write all of the result in one of its formats. */
async function fetchAs(outcome: Outcome, format: DownloadFormat): Promise<Blob> {
  const { database, text } = outcome.state;
  if (outcome.kind === "sql") return downloadSql(outcome.sql, format, { database });
  const { start, end, step } = outcome.steps ?? { start: outcome.time, end: outcome.time, step: 1 };
  const response = await call("/v1/promql", {
    params: { query: text, start, end, step, format, db: database },
  });
  return response.blob();
}

/** The samples of series as rows: the labels, the time and the value. */
export function tableOfSeries(series: Series[], hasTimes: boolean): Table {
  const names = new Set<string>();
  for (const { metric } of series) for (const name of Object.keys(metric)) names.add(name);
  const labels = [...names].sort((left, right) => rankOf(left) - rankOf(right) || (left < right ? -1 : 1));
  const columns = [
    ...(hasTimes ? [{ name: "time", type: "TimestampMillisecond" }] : []),
    ...labels.map((name) => ({ name, type: "String" })),
    { name: "value", type: "Float64" },
  ];
  const rows: Cell[][] = [];
  let isCut = false;
  for (const { metric, values } of series) {
    for (const [at, text] of values) {
      if (rows.length >= ROWS_MAX) {
        isCut = true;
        break;
      }
      rows.push([...(hasTimes ? [Math.round(at * 1000)] : []), ...cellsOf(metric, labels), cellOf(text)]);
    }
  }
  return { columns, rows, isCut };
}

function cellsOf(metric: Labels, labels: string[]): Cell[] {
  return labels.map((name) => metric[name] ?? null);
}

/** A number, or the text of one that JSON has no notation for. */
function cellOf(text: string): Cell {
  const value = parseValue(text);
  return Number.isFinite(value) ? value : text;
}

function rankOf(label: string): number {
  return label === "__name__" ? 0 : 1;
}
