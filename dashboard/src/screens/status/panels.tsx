// The panels of the screen, each a table; one that the server refuses shows why, and the others stay.
import { useState } from "preact/hooks";
import { messageOf } from "../../api/client";
import { formatBytes, formatCount, formatDuration, formatMillis } from "../../parts/cells";
import { Dialog } from "../../parts/dialog";
import { ErrorBox } from "../../parts/states";
import { Code, InfoTable, Meter, Reasoned } from "../common/info-table";
import {
  type CompactionRow,
  killStatement,
  type MemoryRow,
  type Part,
  type RegionRow,
  type RejectionRow,
  type SlowQueryRow,
  type StatementRow,
} from "./load";

const NS_PER_MS = 1_000_000;

export function Statements({ part, onKilled }: { part: Part<StatementRow>; onKilled: () => void }) {
  const [wanted, setWanted] = useState<StatementRow | null>(null);
  const [failure, setFailure] = useState("");
  const kill = async (row: StatementRow) => {
    setWanted(null);
    setFailure("");
    try {
      await killStatement(row.id);
    } catch (error) {
      setFailure(`${row.id} was not cancelled: ${messageOf(error)}`);
    }
    onKilled();
  };
  return (
    <>
      {failure && <ErrorBox message={failure} />}
      <InfoTable
        title="Running statements"
        rows={part.rows}
        keyOf={(row) => row.id}
        empty={part.error || "Nothing runs at the moment."}
        columns={[
          { title: "Statement", isWide: true, cell: (row) => <Code text={row.query} /> },
          { title: "For", isNumber: true, cell: (row) => formatDuration(Number(row.elapsed_time)) },
          { title: "Database", cell: (row) => row.schemas },
          { title: "Client", cell: (row) => row.client || "unknown" },
          { title: "Id", cell: (row) => row.id },
          {
            title: "Cancel",
            cell: (row) => (
              <button
                type="button"
                class="button small danger"
                aria-label={`Cancel ${row.id}`}
                onClick={() => setWanted(row)}
              >
                Cancel
              </button>
            ),
          },
        ]}
      />
      {wanted && (
        <Dialog title="Cancel this statement?" onClose={() => setWanted(null)}>
          <p class="dialog-text">
            <code>{wanted.query}</code>
          </p>
          <p class="soft dialog-text">Its client gets an error. What it has written stays written.</p>
          <p class="actions">
            <button type="button" class="button" onClick={() => setWanted(null)}>
              Let it run
            </button>
            <button type="button" class="button danger" onClick={() => void kill(wanted)}>
              Cancel the statement
            </button>
          </p>
        </Dialog>
      )}
    </>
  );
}

export function Slow({ part }: { part: Part<SlowQueryRow> }) {
  return (
    <InfoTable
      title="Slow queries"
      rows={part.rows}
      keyOf={(row) => `${row.timestamp} ${row.query}`}
      empty={part.error || "None were recorded. slow_query.threshold says how slow a query must be."}
      columns={[
        { title: "Ended", cell: (row) => formatMillis(Number(row.timestamp) / NS_PER_MS, 0) },
        { title: "Took", isNumber: true, cell: (row) => formatDuration(Number(row.cost)) },
        { title: "Language", cell: (row) => (row.is_promql ? "PromQL" : "SQL") },
        { title: "Query", isWide: true, cell: (row) => <Code text={row.query} /> },
      ]}
    />
  );
}

export function Regions({ part }: { part: Part<RegionRow> }) {
  return (
    <InfoTable
      title="Regions with rows in memory, or with work"
      rows={part.rows}
      keyOf={(row) => String(row.region_id)}
      empty={part.error || "All rows are in data files, and nothing is to be done."}
      columns={[
        { title: "Table", cell: (row) => row.table_name ?? `table ${row.table_id}` },
        { title: "Region", cell: (row) => String(row.region_id) },
        {
          title: "Rows in memory",
          isNumber: true,
          cell: (row) => formatCount(Number(row.memtable_rows ?? 0)),
        },
        { title: "Size", isNumber: true, cell: (row) => formatBytes(Number(row.memtable_size ?? 0)) },
        {
          title: "Flush",
          cell: (row) => (
            <State state={row.flush_state} reason={row.flush_reason} error={row.last_flush_error} />
          ),
        },
        {
          title: "Compaction",
          cell: (row) => (
            <State
              state={row.compaction_state}
              reason={row.compaction_reason}
              error={row.last_compaction_error}
            />
          ),
        },
        {
          title: "Damaged files",
          isNumber: true,
          cell: (row) =>
            row.quarantined_files ? <span class="badge bad">{String(row.quarantined_files)}</span> : "0",
        },
      ]}
    />
  );
}

function State({
  state,
  reason,
  error,
}: {
  state: string | null;
  reason: string | null;
  error: string | null;
}) {
  const kind = error ? "bad" : state === "running" ? "good" : state === "waiting" ? "warn" : "";
  const shown = error ? `${state}, failed` : (state ?? "unknown");
  return <Reasoned kind={kind} state={shown} reason={reason} error={error} />;
}

export function Compactions({ part }: { part: Part<CompactionRow> }) {
  return (
    <InfoTable
      title="Compactions"
      rows={part.rows}
      keyOf={compactionKey}
      empty={part.error || "None since the server started."}
      columns={[
        { title: "Table", cell: (row) => `${row.table_schema}.${row.table_name}` },
        { title: "Began", cell: (row) => formatMillis(Number(row.start_time), 0) },
        { title: "State", cell: (row) => <CompactionState row={row} /> },
        {
          title: "Took",
          isNumber: true,
          cell: (row) => (row.duration_millis === null ? "" : formatDuration(Number(row.duration_millis))),
        },
        { title: "Files", isNumber: true, cell: (row) => `${row.input_files} → ${row.output_files}` },
        {
          title: "Size",
          isNumber: true,
          cell: (row) => `${formatBytes(Number(row.input_bytes))} → ${formatBytes(Number(row.output_bytes))}`,
        },
      ]}
    />
  );
}

/** Every node counts its compactions anew, and a region may have been on several. */
export function compactionKey(row: CompactionRow): string {
  return [row.node_id, row.region_id, row.compaction_id, row.start_time].join(" ");
}

function CompactionState({ row }: { row: CompactionRow }) {
  const isRunning = row.state === "running";
  const kind = isRunning ? "good" : row.state === "failure" ? "bad" : "";
  const state = isRunning ? `${Math.round(Number(row.progress) * 100)} %` : row.state;
  return <Reasoned kind={kind} state={state} reason={row.reason} error={row.error} />;
}

export function Memory({ part }: { part: Part<MemoryRow> }) {
  return (
    <InfoTable
      title="Memory"
      rows={part.rows}
      keyOf={(row) => row.owner}
      empty={part.error || "Unknown."}
      columns={[
        { title: "Owner", cell: (row) => row.owner.replaceAll("_", " ") },
        { title: "Size", isNumber: true, cell: (row) => formatBytes(Number(row.bytes)) },
        {
          title: "Limit",
          isNumber: true,
          cell: (row) =>
            row.limit_bytes === null ? (
              "none"
            ) : (
              <>
                {formatBytes(Number(row.limit_bytes))}
                <Meter
                  value={Number(row.bytes)}
                  max={Number(row.limit_bytes)}
                  label={`${row.owner}, used of its limit`}
                />
              </>
            ),
        },
        {
          title: "State",
          cell: (row) => (
            <Reasoned kind={row.state === "ok" ? "" : "warn"} state={row.state} reason={row.reason} />
          ),
        },
      ]}
    />
  );
}

export function Rejections({ part }: { part: Part<RejectionRow> }) {
  return (
    <InfoTable
      title="Refused rows"
      rows={part.rows}
      keyOf={(row) => `${row.timestamp} ${row.table} ${row.place} ${row.reason}`}
      empty={part.error || "No row was refused since the server started."}
      columns={[
        { title: "When", cell: (row) => formatMillis(Number(row.timestamp), 0) },
        { title: "Protocol", cell: (row) => row.protocol },
        { title: "Table", cell: (row) => (row.table ? `${row.database}.${row.table}` : row.database) },
        { title: "Rows", isNumber: true, cell: (row) => formatCount(Number(row.rows)) },
        { title: "Reason", isWide: true, cell: (row) => row.reason },
      ]}
    />
  );
}
