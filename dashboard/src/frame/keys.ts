// Keys that work on every screen: `?` for help, `g` and a letter to go to a screen.
import { useEffect } from "preact/hooks";
import { SCREENS } from "../screens/registry";

const SEQUENCE_MS_MAX = 1500;

export interface GlobalKeys {
  help(): void;
  go(screen: string): void;
}

/** Whether keys are text where the focus is. */
export function isTyping(event: KeyboardEvent): boolean {
  // The path leads into the editor, which is in a shadow tree.
  const target = event.composedPath()[0];
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName))
  );
}

export function useGlobalKeys({ help, go }: GlobalKeys): void {
  useEffect(() => {
    let begun = Number.NEGATIVE_INFINITY;
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
      if (document.querySelector("dialog[open]")) return;
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
