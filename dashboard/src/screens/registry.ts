// The screens, in the order of the navigation. Each is a module of its own that is loaded when it is first shown.
import type { ComponentType } from "preact";

export interface Shortcut {
  keys: string;
  meaning: string;
}

export interface ScreenModule {
  default: ComponentType;
  /** Keys of this screen, for the help. */
  shortcuts?: Shortcut[];
}

export interface ScreenEntry {
  name: string;
  title: string;
  /** Pressed after `g`, it leads here. */
  key: string;
  /** The outline of its icon, in a square of 24. */
  icon: string;
  load(): Promise<ScreenModule>;
}

export const SCREENS: readonly ScreenEntry[] = [
  { name: "query", title: "Query", key: "q", icon: "M4 6l6 6-6 6M12 18h8", load: () => import("./query") },
  {
    name: "explore",
    title: "Explore",
    key: "e",
    icon: "M4 5h16v14H4zM4 10h16M10 10v9",
    load: () => import("./explore"),
  },
  {
    name: "logs",
    title: "Logs",
    key: "l",
    icon: "M5 6h14M5 10h9M5 14h14M5 18h7",
    load: () => import("./logs"),
  },
  {
    name: "ingest",
    title: "Ingest",
    key: "i",
    icon: "M12 4v10M8 10l4 4 4-4M4 16v4h16v-4",
    load: () => import("./ingest"),
  },
  {
    name: "status",
    title: "Status",
    key: "s",
    icon: "M3 13h4l3-7 4 12 3-5h4",
    load: () => import("./status"),
  },
  {
    name: "cluster",
    title: "Cluster",
    key: "c",
    icon: "M9 4h6v5H9zM3 15h6v5H3zM15 15h6v5h-6zM12 9v3M6 15v-3h12v3",
    load: () => import("./cluster"),
  },
];
