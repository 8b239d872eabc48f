// One metric: its labels with all their values, and a first plot.
import { useMemo, useState } from "preact/hooks";
import { queryRange } from "../../api/prometheus";
import { formatCount } from "../../parts/cells";
import { Chart } from "../../parts/chart";
import { DataTable } from "../../parts/data-table";
import { chartOfSeries } from "../../parts/series";
import { EmptyState, ErrorBox, Loading } from "../../parts/states";
import { Tabs } from "../../parts/tabs";
import { boundsOf, stepOf } from "../../parts/time-range";
import { useLoaded } from "../../parts/use-loaded";
import { type LabelEntry, listLabels, localTable, type MetricEntry, plotQuery } from "./catalog";
import { QueryLink } from "./table-details";

const PLOT_SECONDS = 10_800;
const TABS = [
  ["labels", "Labels"],
  ["plot", "Plot"],
] as const;
const LABEL_COLUMNS: [string, string][] = [
  ["label", "String"],
  ["values", "Int64"],
];
type Tab = (typeof TABS)[number][0];

export function MetricDetails({ metric, database }: { metric: MetricEntry; database: string }) {
  const [tab, setTab] = useState<Tab>("labels");
  return (
    <section class="panel details" aria-label={metric.name}>
      <header class="panel-head">
        <h2 class="mono">{metric.name}</h2>
        {metric.series !== null && <span class="badge">{formatCount(metric.series)} series</span>}
      </header>
      <div class="details-tabs">
        <Tabs label="Details" tabs={TABS} active={tab} onChoose={setTab} panel="metric-details" />
      </div>
      <div id="metric-details" role="tabpanel" aria-label={tab} class="details-body">
        {tab === "labels" ? (
          <LabelList metric={metric.name} database={database} />
        ) : (
          <Plot metric={metric.name} database={database} />
        )}
      </div>
    </section>
  );
}

function LabelList({ metric, database }: { metric: string; database: string }) {
  const labels = useLoaded((signal) => listLabels(metric, { database, signal }), [metric, database]);
  const [chosen, setChosen] = useState("");
  if (labels.error) return <ErrorBox message={labels.error} onRetry={labels.reload} />;
  if (!labels.value) return <Loading what="labels" />;
  if (labels.value.length === 0)
    return <EmptyState title="No labels">This metric is a single series.</EmptyState>;
  const label = labels.value.find(({ name }) => name === chosen) ?? labels.value[0];
  return (
    <div class="label-columns">
      <Names labels={labels.value} current={label?.name} onChoose={setChosen} />
      {label && <Values label={label} />}
    </div>
  );
}

interface NamesProps {
  labels: LabelEntry[];
  current: string | undefined;
  onChoose: (name: string) => void;
}

function Names({ labels, current, onChoose }: NamesProps) {
  const shown = useMemo(
    () =>
      localTable(
        LABEL_COLUMNS,
        labels.map(({ name, values }) => [name, values.length]),
      ),
    [labels],
  );
  return (
    <DataTable label="Labels" table={shown} onRow={([name]) => onChoose(String(name))} current={current} />
  );
}

function Values({ label }: { label: LabelEntry }) {
  const shown = useMemo(
    () =>
      localTable(
        [[`values of ${label.name}`, "String"]],
        label.values.map((value) => [value]),
      ),
    [label],
  );
  return <DataTable label={`Values of ${label.name}`} table={shown} />;
}

function Plot({ metric, database }: { metric: string; database: string }) {
  const query = plotQuery(metric);
  const data = useLoaded(
    async (signal) => {
      const { start, end } = boundsOf({ last: PLOT_SECONDS });
      const step = stepOf(PLOT_SECONDS);
      const steps = { start: Math.ceil(start / step) * step, end: Math.floor(end / step) * step, step };
      return chartOfSeries((await queryRange(query, steps, { database, signal })).series, steps);
    },
    [query, database],
  );
  if (data.error) return <ErrorBox message={data.error} onRetry={data.reload} />;
  if (!data.value) return <Loading what="samples" />;
  return (
    <div class="with-action">
      {data.value.series.length ? (
        <Chart data={data.value} label={query} />
      ) : (
        <EmptyState title="No samples">in the last three hours</EmptyState>
      )}
      <QueryLink text={query} database={database} view="chart" language="promql" />
    </div>
  );
}
