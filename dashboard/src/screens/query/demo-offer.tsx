// What the screen shows before the first query: examples for the tables there are, or demo data if there are none.
import { useEffect, useState } from "preact/hooks";
import { queryTable, quoteName, quoteText } from "../../api/sql";
import { DemoButton } from "../../demo/offer";
import { useDatabase } from "../../frame/database";
import { EmptyState } from "../../parts/states";
import type { QueryState } from "./state";

type Example = Partial<QueryState> & { title: string; text: string };

const FOR_DEMO: Example[] = [
  {
    title: "CPU of each region, in steps of a minute",
    language: "sql",
    view: "chart",
    text:
      "SELECT date_bin(INTERVAL '1 minute', ts) AS time, region, avg(usage_user) AS cpu\n" +
      "FROM host_metrics\nWHERE ts >= $start AND ts < $end\nGROUP BY time, region\nORDER BY time",
  },
  {
    title: "Requests per second by status code",
    language: "promql",
    view: "chart",
    text: "sum by (code) (rate(http_requests_total[5m]))",
  },
  {
    title: "The newest errors in the logs",
    language: "sql",
    view: "table",
    text: "SELECT ts, service, host, message\nFROM app_logs\nWHERE level = 'ERROR'\nORDER BY ts DESC\nLIMIT 100",
  },
];

interface Props {
  onExample: (changes: Partial<QueryState>) => void;
}

export function DemoOffer({ onExample }: Props) {
  const database = useDatabase();
  const [tables, setTables] = useState<string[] | null>(null);
  const [loads, setLoads] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    const sql =
      "SELECT table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' " +
      `AND table_schema = ${quoteText(database)} ORDER BY table_name LIMIT 200`;
    queryTable(sql, { database, signal: controller.signal }).then(
      ({ rows }) => setTables(rows.map(([name]) => String(name))),
      () => setTables(null),
    );
    return () => controller.abort();
  }, [database, loads]);
  if (tables === null) return null;
  if (tables.length === 0) {
    return (
      <EmptyState title="This database is empty">
        <DemoButton database={database} onLoaded={() => setLoads(loads + 1)} />
      </EmptyState>
    );
  }
  return (
    <section class="examples" aria-label="Examples">
      {examplesFor(tables).map(({ title, ...changes }) => (
        <button key={title} type="button" onClick={() => onExample(changes)}>
          <strong>{title}</strong>
          <code>{changes.text}</code>
        </button>
      ))}
    </section>
  );
}

function examplesFor(tables: string[]): Example[] {
  if (["host_metrics", "http_requests_total", "app_logs"].every((name) => tables.includes(name)))
    return FOR_DEMO;
  const first = tables[0] ?? "";
  return [
    { title: "All tables", language: "sql", view: "table", text: "SHOW TABLES" },
    {
      title: `Some rows of ${first}`,
      language: "sql",
      view: "table",
      text: `SELECT * FROM ${quoteName(first)} LIMIT 100`,
    },
  ];
}
