// Light or dark: what the system prefers, unless the user has chosen. Charts are drawn on canvases, which do not follow
// style sheets, so they subscribe to changes.
import { useEffect, useState } from "preact/hooks";

export type ThemeChoice = "system" | "light" | "dark";
export type Theme = "light" | "dark";

const KEY = "tsdb.theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

export function themeChoice(): ThemeChoice {
  const stored = localStorage.getItem(KEY);
  return stored === "light" || stored === "dark" ? stored : "system";
}

export function currentTheme(): Theme {
  const choice = themeChoice();
  return choice === "system" ? (dark.matches ? "dark" : "light") : choice;
}

export function applyTheme(): void {
  document.documentElement.dataset.theme = currentTheme();
  for (const listener of listeners) listener();
}

export function chooseTheme(choice: ThemeChoice): void {
  if (choice === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, choice);
  applyTheme();
}

dark.addEventListener("change", applyTheme);

export function useTheme(): Theme {
  const [theme, setTheme] = useState(currentTheme);
  useEffect(() => {
    const update = () => setTheme(currentTheme());
    listeners.add(update);
    return () => {
      listeners.delete(update);
    };
  }, []);
  return theme;
}
