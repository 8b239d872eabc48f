// Writes the demo data into a database.
import { call } from "../api/client";
import { runSql } from "../api/sql";
import { demoChunks, TABLES } from "./lines";

/** Create the tables and write the rows; `onProgress` gets the number of rows so far. */
export async function loadDemo(
  database: string,
  onProgress: (rows: number) => void,
  signal?: AbortSignal,
): Promise<void> {
  for (const statement of TABLES) await runSql(statement, { database, signal });
  let rows = 0;
  for (const body of demoChunks(Date.now() / 1000)) {
    await call("/v1/influxdb/write", { params: { db: database, precision: "ms" }, body, signal });
    rows += body.split("\n").length;
    onProgress(rows);
  }
}
