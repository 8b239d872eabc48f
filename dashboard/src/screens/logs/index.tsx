// Logs: messages of a table, the newest first, searched by text, field and time, and followed while they come.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { messageOf } from "../../api/client";
import { useDatabase } from "../../frame/database";
import { useScreenKeys } from "../../frame/keys";
import { currentPlace, keepState, linkTo } from "../../frame/place";
import { useZone } from "../../frame/zone";
import { countOf } from "../../parts/cells";
import { EmptyState, ErrorBox, Loading, Notice } from "../../parts/states";
import { boundsOf } from "../../parts/time-range";
import "../common/common.css";
import "./logs.css";
import { FilterBar } from "./bar";
import { useCounts, useFeed } from "./feed";
import { Histogram } from "./histogram";
import { LogRows } from "./rows";
import { type FieldFilter, type Search, ticksFromMs, ticksOf } from "./search";
import { type Asked, askedFrom, stateOf } from "./state";
import { type LogTable, loadLogTables } from "./tables";

export const shortcuts = [
  { keys: "/", meaning: "Search for a text" },
  { keys: "t", meaning: "Follow what comes, or stop" },
  { keys: "↑ ↓", meaning: "From message to message" },
  { keys: "Enter", meaning: "Open or close a message" },
];

export default function LogsScreen() {
  const database = useDatabase();
  const [tables, setTables] = useState<LogTable[] | null>(null);
  const [failure, setFailure] = useState("");
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    const stopped = new AbortController();
    setTables(null);
    setFailure("");
    loadLogTables(database, stopped.signal).then(
      (found) => !stopped.signal.aborted && setTables(found),
      (error) => !stopped.signal.aborted && setFailure(messageOf(error)),
    );
    return () => stopped.abort();
  }, [database, attempt]);
  if (failure) return <ErrorBox message={failure} onRetry={() => setAttempt(attempt + 1)} />;
  if (!tables) return <Loading what="the tables" />;
  if (tables.length === 0) return <NoLogs database={database} />;
  return <LogSearch key={database} tables={tables} database={database} />;
}

function NoLogs({ database }: { database: string }) {
  return (
    <EmptyState title="No logs yet">
      <p>
        No table of the database {database} has a column of text. Logs come by OTLP, or by any other protocol
        into a table with a column of text; a FULLTEXT INDEX on it makes searching fast.
      </p>
      <p>
        <a href={linkTo("ingest")}>How to send them</a>
      </p>
    </EmptyState>
  );
}

function LogSearch({ tables, database }: { tables: LogTable[]; database: string }) {
  const [asked, setAsked] = useState<Asked>(() => askedFrom(currentPlace().state, tables));
  const [isLive, setLive] = useState(false);
  const text = useRef<HTMLInputElement>(null);
  useZone();
  const search = useMemo(() => makeSearch(asked, tables), [asked, tables]);
  useEffect(() => keepState(stateOf(asked)), [asked]);
  const feed = useFeed(search, database, isLive);
  const counts = useCounts(search, database, isLive);
  useScreenKeys({ "/": () => text.current?.focus(), t: () => setLive(!isLive) });
  const addFilter = (filter: FieldFilter) => setAsked({ ...asked, filters: [...asked.filters, filter] });
  return (
    <div class="screen">
      <FilterBar
        asked={asked}
        tables={tables}
        isLive={isLive}
        text={text}
        onAsk={setAsked}
        onLive={setLive}
      />
      {counts && <Histogram counts={counts} />}
      {feed.error && <ErrorBox message={feed.error} onRetry={() => setAsked({ ...asked })} />}
      {feed.notice && <Notice>{feed.notice}</Notice>}
      {search && feed.rows.length > 0 && (
        <LogRows rows={feed.rows} table={search.table} message={search.message} onFilter={addFilter} />
      )}
      {feed.isLoading && <Loading what="messages" />}
      {!feed.isLoading && !feed.error && feed.rows.length === 0 && (
        <EmptyState title="No messages">
          {isLive ? "None has come yet." : "None is in this time range and has what you are looking for."}
        </EmptyState>
      )}
      {feed.hasOlder && !feed.isLoading && (
        <button type="button" class="button older" onClick={feed.older}>
          Older messages
        </button>
      )}
      <p class="visually-hidden" role="status">
        {feed.isLoading ? "" : countOf(feed.rows.length, "message")}
      </p>
    </div>
  );
}

function makeSearch(asked: Asked, tables: LogTable[]): Search | null {
  const table = tables.find(({ name }) => name === asked.table);
  if (!table) return null;
  const bounds = asked.range && boundsOf(asked.range);
  // What is up to now has no end: rows of clocks that are ahead belong to it.
  const isFixed = asked.range !== null && !("last" in asked.range);
  const ticks = ticksOf(table.time.type);
  return {
    table,
    message: asked.message,
    text: asked.text,
    mode: asked.mode,
    filters: asked.filters,
    from: bounds && ticksFromMs(bounds.start * 1000, ticks),
    to: isFixed && bounds ? ticksFromMs(bounds.end * 1000, ticks) : null,
  };
}
