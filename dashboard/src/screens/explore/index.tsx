// Explore: the tables and metrics of a database, and what is in them.
import { useMemo, useState } from "preact/hooks";
import type { Table } from "../../api/sql";
import { DemoButton } from "../../demo/offer";
import { useDatabase } from "../../frame/database";
import { pushState, usePlace } from "../../frame/place";
import { countOf, formatCount } from "../../parts/cells";
import { DataTable } from "../../parts/data-table";
import { EmptyState, ErrorBox, Loading } from "../../parts/states";
import { Tabs } from "../../parts/tabs";
import { useLoaded } from "../../parts/use-loaded";
import type { Shortcut } from "../registry";
import { listMetrics, listTables, localTable, type MetricEntry, type TableEntry } from "./catalog";
import "./explore.css";
import { MetricDetails } from "./metric-details";
import { TableDetails } from "./table-details";

export const shortcuts: Shortcut[] = [
  { keys: "Enter", meaning: "Show the table or metric of the focused row" },
  { keys: "+ -", meaning: "Zoom the plot that has the focus" },
];

const LISTS = [
  ["tables", "Tables"],
  ["metrics", "Metrics"],
] as const;
type List = (typeof LISTS)[number][0];

export default function Explore() {
  const database = useDatabase();
  const { state } = usePlace();
  const list: List = state.get("list") === "metrics" ? "metrics" : "tables";
  const name = state.get("name") ?? "";
  const [filter, setFilter] = useState("");
  const choose = (chosen: string) => pushState({ list, name: chosen });
  const Body = list === "tables" ? Tables : Metrics;
  return (
    <div class="explore">
      <div class="row">
        <Tabs
          label="What to list"
          tabs={LISTS}
          active={list}
          onChoose={(next) => pushState({ list: next })}
          panel="explore-list"
        />
        <input
          type="search"
          placeholder={`Filter ${list}`}
          aria-label={`Filter ${list}`}
          value={filter}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
      </div>
      <div id="explore-list" role="tabpanel" aria-label={list} class="explore-columns">
        <Body key={list} database={database} name={name} filter={filter.toLowerCase()} onChoose={choose} />
      </div>
    </div>
  );
}

interface ListProps {
  database: string;
  /** The one that is shown; empty for the first. */
  name: string;
  filter: string;
  onChoose: (name: string) => void;
}

function Tables({ database, name, filter, onChoose }: ListProps) {
  const tables = useLoaded((signal) => listTables({ database, signal }), [database]);
  if (tables.error) return <ErrorBox message={tables.error} onRetry={tables.reload} />;
  if (!tables.value) return <Loading what="tables" />;
  const own = tables.value.filter(
    ({ kind }) => kind !== "LOCAL TEMPORARY" || database === "information_schema",
  );
  if (own.length === 0) {
    return (
      <EmptyState title="This database has no tables">
        <DemoButton database={database} onLoaded={tables.reload} />
      </EmptyState>
    );
  }
  const chosen = own.find((each) => each.name === name) ?? own[0];
  return (
    <>
      <section class="panel list" aria-label="Tables">
        <p class="list-head soft">{countOf(own.length, "table")}</p>
        <Names
          what="tables"
          columns={TABLE_COLUMNS}
          entries={own}
          filter={filter}
          current={chosen?.name}
          onChoose={onChoose}
        />
      </section>
      {chosen && <TableDetails table={chosen} database={database} />}
    </>
  );
}

function Metrics({ database, name, filter, onChoose }: ListProps) {
  const metrics = useLoaded((signal) => listMetrics({ database, signal }), [database]);
  if (metrics.error) return <ErrorBox message={metrics.error} onRetry={metrics.reload} />;
  if (!metrics.value) return <Loading what="metrics" />;
  const { metrics: all, seriesInAll } = metrics.value;
  if (all.length === 0) return <EmptyState title="This database has no metrics" />;
  const chosen = all.find((each) => each.name === name) ?? all[0];
  return (
    <>
      <section class="panel list" aria-label="Metrics">
        <p class="list-head soft">
          {countOf(all.length, "metric")}, {formatCount(seriesInAll)} series
        </p>
        <Names
          what="metrics"
          columns={METRIC_COLUMNS}
          entries={all}
          filter={filter}
          current={chosen?.name}
          onChoose={onChoose}
        />
      </section>
      {chosen && <MetricDetails metric={chosen} database={database} />}
    </>
  );
}

const TABLE_COLUMNS: [string, string][] = [
  ["table", "String"],
  ["rows", "Int64"],
];
const METRIC_COLUMNS: [string, string][] = [
  ["metric", "String"],
  ["series", "Int64"],
];

interface NamesProps {
  what: string;
  columns: [name: string, type: string][];
  entries: (TableEntry | MetricEntry)[];
  filter: string;
  current: string | undefined;
  onChoose: (name: string) => void;
}

/** Names with a count; a table is only made anew when they change, so that it keeps its place. */
function Names({ what, columns, entries, filter, current, onChoose }: NamesProps) {
  const table = useMemo(() => {
    const shown = filter ? entries.filter(({ name }) => name.toLowerCase().includes(filter)) : entries;
    return localTable(
      columns,
      shown.map((each) => [each.name, "series" in each ? each.series : each.rows]),
    );
  }, [columns, entries, filter]);
  const choose = ([name]: Table["rows"][number]) => onChoose(String(name));
  return <DataTable label={`List of ${what}`} table={table} onRow={choose} current={current} />;
}
