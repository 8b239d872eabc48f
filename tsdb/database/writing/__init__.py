"""The one way in which rows are written, whatever protocol they arrive by.

    line protocol ┐                     ┌─ plan   rows and tables → changes of the catalog, fitted rows, rejections
    remote write  │                     │
    OTLP, gRPC    ├─▶ TableRows ─▶ Writer ─ apply  create and widen tables
    INSERT, COPY  │                     │
    frames, Flight┘                     └─ send   batches to all regions at once, then wait for all

Adapters turn what arrives into `TableRows`:

- Protocols (`tsdb.ingest`) name tables and columns freely. Tables are created and widened as the rows need; values are
  cast where nothing is lost (`values`), everything else is rejected with its place.
- Statements, COPY, frames and Flight know their table: `columns` makes rows for its present description
  (`TableRows.made_for`). If the table is altered before they arrive, they follow it by the ids of its columns
  (`conform`).
- Samples of remote write whose series are known skip planning: `samples` makes batches of them directly.

Rules for all of them:

- Nothing is created or written before every row of a request has been planned; one rejection rejects the request.
- A batch names the version of the schema that it was made for. If a table changes meanwhile, the rows that are not
  written yet are planned again. There is one retry policy: until `write_timeout` has passed, with growing pauses.
- Each region takes its part as a whole or not at all, up to `ROWS_PER_BATCH` rows.
- Each visible step (a table, a part) asks the write token first and is counted in it.
"""
