// Keys that work on every screen: `?` for help, `g` and a letter to go to a screen.
import { useEffect, useRef } from "preact/hooks";
import { SCREENS } from "../screens/registry";

const SEQUENCE_MS_MAX = 1500;

export interface GlobalKeys {
  help(): void;
  go(screen: string): void;
}

/** Whether keys are text where the focus is. */
function isTyping(event: KeyboardEvent): boolean {
  // The path leads into the editor, which is in a shadow tree.
  const target = event.composedPath()[0];
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName))
  );
}

/** Whether a key is for the page: nobody types, and no dialog is open. */
function isCommand(event: KeyboardEvent): boolean {
  const isCombined = event.ctrlKey || event.metaKey || event.altKey;
  return !isCombined && !isTyping(event) && !document.querySelector("dialog[open]");
}

/** Keys of one screen, each with what it does. */
export function useScreenKeys(keys: Record<string, () => void>): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const run = latest.current[event.key];
      // The second key of a sequence is not one of the screen.
      if (!run || event.defaultPrevented || !isCommand(event)) return;
      event.preventDefault();
      run();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
}

export function useGlobalKeys({ help, go }: GlobalKeys): void {
  useEffect(() => {
    let begun = Number.NEGATIVE_INFINITY;
    const onKey = (event: KeyboardEvent) => {
      if (!isCommand(event)) return;
      const screen = SCREENS.find(({ key }) => key === event.key);
      if (screen && event.timeStamp - begun < SEQUENCE_MS_MAX) {
        event.preventDefault();
        go(screen.name);
      } else if (event.key === "?") {
        event.preventDefault();
        help();
      }
      begun = event.key === "g" ? event.timeStamp : Number.NEGATIVE_INFINITY;
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  });
}
