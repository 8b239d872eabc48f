import { useState } from "preact/hooks";
import { messageOf } from "../api/client";
import { formatCount } from "../parts/cells";
import { ErrorBox } from "../parts/states";
import { HOURS } from "./lines";
import { loadDemo } from "./load";

/** For a database without tables: a button that loads data to try things on. */
export function DemoButton({ database, onLoaded }: { database: string; onLoaded: () => void }) {
  const [rows, setRows] = useState<number | null>(null);
  const [failure, setFailure] = useState("");
  const load = async () => {
    setFailure("");
    setRows(0);
    try {
      await loadDemo(database, setRows);
      onLoaded();
    } catch (error) {
      setFailure(messageOf(error));
    } finally {
      setRows(null);
    }
  };
  return (
    <>
      <button type="button" class="button primary" onClick={load} disabled={rows !== null}>
        {rows === null ? "Load demo data" : `Loading… ${formatCount(rows)} rows`}
      </button>
      <p class="soft">
        {HOURS} hours of metrics of five hosts, requests of a web service and its logs, in the database{" "}
        {database}.
      </p>
      {failure && <ErrorBox message={failure} />}
    </>
  );
}
