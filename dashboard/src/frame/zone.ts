// The time zone in which times are shown, and in which the server reads and writes times without one.
import { useEffect, useState } from "preact/hooks";

const KEY = "tsdb.zone";
const listeners = new Set<() => void>();

export type ZoneChoice = "local" | "utc";

export function zoneChoice(): ZoneChoice {
  return globalThis.localStorage?.getItem(KEY) === "utc" ? "utc" : "local";
}

/** The IANA name of the zone. */
export function timeZone(): string {
  return zoneChoice() === "utc" ? "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone;
}

export function chooseZone(choice: ZoneChoice): void {
  localStorage.setItem(KEY, choice);
  for (const listener of listeners) listener();
}

export function useZone(): ZoneChoice {
  const [zone, setZone] = useState(zoneChoice);
  useEffect(() => {
    const update = () => setZone(zoneChoice());
    listeners.add(update);
    return () => {
      listeners.delete(update);
    };
  }, []);
  return zone;
}
