// A row of tabs: arrow keys move between them.
import { useRef } from "preact/hooks";

interface Props<T extends string> {
  label: string;
  tabs: readonly (readonly [name: T, title: string])[];
  active: T;
  onChoose: (name: T) => void;
  /** The id of the element that the tabs switch. */
  panel?: string;
}

export function Tabs<T extends string>({ label, tabs, active, onChoose, panel }: Props<T>) {
  const row = useRef<HTMLDivElement>(null);
  const move = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex(([name]) => name === active);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    if (!next) return;
    onChoose(next[0]);
    row.current?.querySelector<HTMLElement>(`[data-tab="${next[0]}"]`)?.focus();
  };
  return (
    <div ref={row} class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
      {tabs.map(([name, title]) => (
        <button
          key={name}
          type="button"
          role="tab"
          data-tab={name}
          aria-selected={name === active}
          aria-controls={panel}
          tabIndex={name === active ? 0 : -1}
          onClick={() => onChoose(name)}
        >
          {title}
        </button>
      ))}
    </div>
  );
}
