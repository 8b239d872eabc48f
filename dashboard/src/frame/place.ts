// Where the user is: the screen is the last part of the path, its state is in the fragment.
//
//     /dashboard/query#lang=sql&q=SELECT+1
//
// A fragment is never sent to the server, so statements stay out of its logs and may be as long as they are.
import { useEffect, useState } from "preact/hooks";

export interface Place {
  screen: string;
  state: URLSearchParams;
}

const CHANGED = "tsdb:place";

export function currentPlace(): Place {
  const screen = location.pathname.split("/dashboard/")[1]?.split("/")[0] ?? "";
  return { screen, state: new URLSearchParams(location.hash.slice(1)) };
}

/** The address of a screen, for links. It is relative to the directory of the page. */
export function linkTo(screen: string, state: Record<string, string> = {}): string {
  const text = new URLSearchParams(state).toString();
  return `./${screen}${text ? `#${text}` : ""}`;
}

/** Go to a screen; the way back is in the browser's history. */
export function goTo(screen: string, state: Record<string, string> = {}): void {
  history.pushState(null, "", linkTo(screen, state));
  window.dispatchEvent(new Event(CHANGED));
}

/** Change the address to the state that the screen is in now, without an entry in the history. */
export function keepState(state: Record<string, string>): void {
  history.replaceState(history.state, "", `#${new URLSearchParams(state)}`);
}

/** Go to another state of the same screen, with an entry in the history. */
export function pushState(state: Record<string, string>): void {
  history.pushState(null, "", `#${new URLSearchParams(state)}`);
  window.dispatchEvent(new Event(CHANGED));
}

export function usePlace(): Place {
  const [place, setPlace] = useState(currentPlace);
  useEffect(() => {
    const update = () => setPlace(currentPlace());
    const events = ["popstate", "hashchange", CHANGED];
    for (const event of events) window.addEventListener(event, update);
    return () => {
      for (const event of events) window.removeEventListener(event, update);
    };
  }, []);
  return place;
}

/** Let clicks on links to screens go there without loading the page again. */
export function followLinks(event: MouseEvent): void {
  const link = (event.target as Element | null)?.closest?.("a");
  const isPlain = event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
  const href = link?.getAttribute("href");
  if (!link || !isPlain || !href?.startsWith("./") || link.target || link.hasAttribute("download")) return;
  event.preventDefault();
  history.pushState(null, "", href);
  window.dispatchEvent(new Event(CHANGED));
}
