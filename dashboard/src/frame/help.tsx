import { Dialog } from "../parts/dialog";
import { SCREENS, type Shortcut } from "../screens/registry";

const EVERYWHERE: Shortcut[] = [
  { keys: "?", meaning: "This help" },
  ...SCREENS.map(({ key, title }) => ({ keys: `g ${key}`, meaning: `Go to ${title}` })),
  { keys: "Esc", meaning: "Close a dialog, leave the editor" },
];

interface Props {
  title: string;
  shortcuts: Shortcut[];
  onClose: () => void;
}

export function HelpDialog({ title, shortcuts, onClose }: Props) {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      {shortcuts.length > 0 && <ShortcutList title={title} shortcuts={shortcuts} />}
      <ShortcutList title="Everywhere" shortcuts={EVERYWHERE} />
    </Dialog>
  );
}

function ShortcutList({ title, shortcuts }: { title: string; shortcuts: Shortcut[] }) {
  return (
    <section class="shortcuts">
      <h3>{title}</h3>
      <dl>
        {shortcuts.map(({ keys, meaning }) => (
          <div key={keys}>
            <dt>
              {keys.split(" ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
