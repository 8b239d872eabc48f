// The bill of requests to object storage.
import { countOf, formatBytes, formatCount } from "../../parts/cells";
import { InfoTable } from "../common/info-table";
import { type Bill, billOf, formatDollars, requestKey, sumRequests, troublesOf } from "./bill";
import type { NodeStartRow, Part, StorageRow } from "./load";

interface Props {
  part: Part<StorageRow>;
  starts: Part<NodeStartRow>;
  /** When the server that answers started. */
  startedMs: number | null;
  nowMs: number;
  isFrontend: boolean;
}

export function Storage({ part, starts, startedMs, nowMs, isFrontend }: Props) {
  const troubles = troublesOf(part.rows);
  return (
    <InfoTable
      title="Requests to object storage"
      rows={sumRequests(part.rows)}
      keyOf={requestKey}
      empty={part.error || emptyText(isFrontend)}
      aside={
        <>
          {part.rows.length > 0 && <Cost bill={billOf(part.rows, starts.rows, startedMs, nowMs)} />}
          {troubles.map((text) => (
            <span key={text} class="error-text">
              {text}
            </span>
          ))}
        </>
      }
      columns={[
        { title: "Store", cell: (row) => row.store },
        { title: "Operation", cell: (row) => row.operation },
        { title: "For", cell: (row) => row.purpose },
        { title: "Requests", isNumber: true, cell: (row) => formatCount(row.requests) },
        { title: "Errors", isNumber: true, cell: (row) => formatCount(row.errors) },
        { title: "Bytes", isNumber: true, cell: (row) => formatBytes(row.bytes) },
        { title: "Cost", isNumber: true, cell: (row) => formatDollars(row.estimated_cost) },
      ]}
    />
  );
}

function Cost({ bill }: { bill: Bill }) {
  return (
    <span class="soft">
      {bill.nodes > 1 && `${countOf(bill.nodes, "node")}, `}about {formatDollars(bill.total)} since the start
      {bill.perMonth !== null && `, ${formatDollars(bill.perMonth)} a month at this rate`}
    </span>
  );
}

/** A frontend has no data files: from itself it knows nothing of where they are. */
function emptyText(isFrontend: boolean): string {
  return isFrontend
    ? "None was counted."
    : "None: the data files of this server are on a local disk, or nothing was asked yet.";
}
