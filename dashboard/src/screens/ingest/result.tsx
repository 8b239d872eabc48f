// What a dry run found: the whole in a sentence, then line by line.
import { useState } from "preact/hooks";
import { linkTo } from "../../frame/place";
import { countOf, formatCount } from "../../parts/cells";
import { ErrorBox } from "../../parts/states";
import { InfoTable } from "../common/info-table";
import { type DryLine, type DryRun, describeLine, isClean } from "./dry-run";
import type { Writing } from "./use-writing";

interface Props {
  writing: Writing;
  /** The line that the user has pasted, of a line that the server was sent. */
  sourceLine?: (line: number) => number;
  onShow: (line: number, character: number) => void;
}

export function Result({ writing, sourceLine = (line) => line, onShow }: Props) {
  const { result, error, written } = writing;
  const [isOnlyProblems, setOnlyProblems] = useState(false);
  if (error) return <ErrorBox message={error} />;
  if (!result) return null;
  const problems = result.lines.filter(({ outcome }) => outcome !== "fits");
  const shown = isOnlyProblems ? problems : result.lines;
  return (
    <>
      {written === null ? <Verdict result={result} /> : <Written rows={written} tables={tablesOf(result)} />}
      <InfoTable
        title="Line by line"
        rows={shown}
        keyOf={(line) => String(line.line)}
        empty="There is none."
        aside={
          <>
            {problems.length > 0 && (
              <label class="inline-field">
                <input
                  type="checkbox"
                  checked={isOnlyProblems}
                  onChange={(event) => setOnlyProblems(event.currentTarget.checked)}
                />
                <span>Only problems</span>
              </label>
            )}
            {result.lines_total > result.lines.length && (
              <span class="soft">
                the first {formatCount(result.lines.length)} of {formatCount(result.lines_total)}
              </span>
            )}
          </>
        }
        columns={[
          {
            title: "Line",
            isNumber: true,
            cell: (line) => (
              <button
                type="button"
                class="button small quiet"
                aria-label={`Show line ${sourceLine(line.line)}`}
                onClick={() => onShow(sourceLine(line.line), line.character ?? 1)}
              >
                {sourceLine(line.line)}
              </button>
            ),
          },
          { title: "Outcome", cell: (line) => <Outcome line={line} /> },
          { title: "Table", cell: (line) => line.table ?? "" },
          { title: "Time (UTC)", cell: (line) => timeText(line) },
          { title: "What", isWide: true, cell: (line) => describeLine(line) },
        ]}
      />
    </>
  );
}

function Verdict({ result }: { result: DryRun }) {
  const { rejections, unread_from: unread, lines_total: total } = result;
  if (total === 0) return <p class="notice">There are no lines.</p>;
  if (!isClean(result)) {
    const refused = rejections.reduce((sum, { rows }) => sum + rows, 0);
    return (
      <div class="verdict bad" role="status">
        <p>
          <strong>Nothing would be written:</strong> {formatCount(refused)} of {formatCount(total)} lines do
          not fit, and lines are written together or not at all.
        </p>
        {unread !== null && <p>Lines from {formatCount(unread)} on were not read.</p>}
      </div>
    );
  }
  return (
    <div class="verdict good" role="status">
      <p>
        <strong>{countOf(result.rows, "row")} would be written</strong>. Nothing has been changed yet.
      </p>
      {result.created_tables.length > 0 && <p>Creates: {result.created_tables.join(", ")}</p>}
      {result.added_columns.map(({ table, column, type }) => (
        <p key={`${table} ${column}`}>
          Adds the column {column} ({type}) to {table}
        </p>
      ))}
    </div>
  );
}

function Written({ rows, tables }: { rows: number; tables: string[] }) {
  return (
    <div class="verdict good" role="status">
      <p>
        <strong>
          {countOf(rows, "row")} {rows === 1 ? "was" : "were"} written.
        </strong>{" "}
        {tables.map((table) => (
          <a
            key={table}
            href={linkTo("query", {
              lang: "sql",
              q: `SELECT * FROM "${table.replaceAll('"', '""')}" LIMIT 100`,
            })}
          >
            {`Show ${table}`}
          </a>
        ))}
      </p>
    </div>
  );
}

const TABLES_MAX = 5;

function tablesOf({ lines }: DryRun): string[] {
  return [...new Set(lines.flatMap(({ table }) => table ?? []))].slice(0, TABLES_MAX);
}

function Outcome({ line }: { line: DryLine }) {
  if (line.outcome === "malformed") return <span class="badge bad">cannot be read</span>;
  if (line.outcome === "refused") return <span class="badge bad">refused</span>;
  if (line.creates_table) return <span class="badge warn">new table</span>;
  return line.adds_columns?.length ? (
    <span class="badge warn">new column</span>
  ) : (
    <span class="badge good">fits</span>
  );
}

function timeText({ time, is_time_of_arrival }: DryLine): string {
  if (!time) return "";
  return is_time_of_arrival
    ? "time of arrival"
    : time
        .replace("T", " ")
        .replace(/(\.\d*?)0*Z$/, "$1")
        .replace(/[.Z]$/, "");
}
