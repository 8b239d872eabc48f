// The database that all screens work on, and the list of those there are.
import { useEffect, useState } from "preact/hooks";
import { onCredentials } from "../api/credentials";
import { queryTable } from "../api/sql";

const KEY = "tsdb.database";
const DEFAULT = "public";
const listeners = new Set<() => void>();

export function currentDatabase(): string {
  return sessionStorage.getItem(KEY) ?? DEFAULT;
}

export function chooseDatabase(name: string): void {
  if (name === currentDatabase()) return;
  sessionStorage.setItem(KEY, name);
  for (const listener of listeners) listener();
}

export function useDatabase(): string {
  const [name, setName] = useState(currentDatabase);
  useEffect(() => {
    const update = () => setName(currentDatabase());
    listeners.add(update);
    return () => {
      listeners.delete(update);
    };
  }, []);
  return name;
}

/** The names of all databases; empty until they are known, or if the server cannot be asked. */
export function useDatabases(): string[] {
  const [names, setNames] = useState<string[]>([]);
  useEffect(() => {
    let isWanted = true;
    const load = () =>
      queryTable("SHOW DATABASES")
        .then(({ rows }) => isWanted && setNames(rows.map(([name]) => String(name))))
        .catch(() => isWanted && setNames([]));
    load();
    const forget = onCredentials(load);
    return () => {
      isWanted = false;
      forget();
    };
  }, []);
  return names;
}
