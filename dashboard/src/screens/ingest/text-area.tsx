// A large field for pasted text, into which files can be dropped or opened.
import type { ComponentChildren, RefObject } from "preact";
import { useId, useState } from "preact/hooks";
import type { Writing } from "./use-writing";

/** The page keeps, converts and sends what is pasted; for more there is `tsdb import`. */
export const TEXT_CHARS_MAX = 16_000_000;

interface Props {
  label: string;
  value: string;
  placeholder: string;
  field: RefObject<HTMLTextAreaElement | null>;
  onInput: (text: string) => void;
  onTry: () => void;
  onWrite: () => void;
}

export function TextArea({ label, value, placeholder, field, onInput, onTry, onWrite }: Props) {
  const id = useId();
  const [failure, setFailure] = useState("");
  const take = (text: string) => {
    const isTooLong = text.length > TEXT_CHARS_MAX;
    setFailure(
      isTooLong
        ? `This has ${text.length.toLocaleString("en-US")} characters, more than the page takes. Use tsdb import.`
        : "",
    );
    if (!isTooLong) onInput(text);
  };
  const read = (files: FileList | null | undefined) => {
    const file = files?.[0];
    if (!file) return;
    if (file.size > TEXT_CHARS_MAX)
      setFailure(`${file.name} is larger than the page takes. Use tsdb import.`);
    else file.text().then(take, (error) => setFailure(`${file.name} cannot be read: ${error}`));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    if (event.shiftKey) onWrite();
    else onTry();
  };
  return (
    <div class="field">
      <div class="row">
        <label for={id}>{label}</label>
        <label class="button small spread file-button">
          Open a file…
          <input
            type="file"
            class="visually-hidden"
            onChange={(event) => {
              read(event.currentTarget.files);
              event.currentTarget.value = "";
            }}
          />
        </label>
      </div>
      <textarea
        id={id}
        ref={field}
        rows={10}
        spellcheck={false}
        autocomplete="off"
        wrap="off"
        value={value}
        placeholder={placeholder}
        onInput={(event) => take(event.currentTarget.value)}
        onKeyDown={onKeyDown}
        onDragOver={(event) => event.preventDefault()}
        onDrop={(event) => {
          if (!event.dataTransfer?.files.length) return;
          event.preventDefault();
          read(event.dataTransfer.files);
        }}
      />
      {failure && (
        <p class="error-text" role="alert">
          {failure}
        </p>
      )}
    </div>
  );
}

/** Select a line of a field from a character on, and bring it into view. */
export function showLine(field: HTMLTextAreaElement | null, line: number, character: number): void {
  if (!field) return;
  const lines = field.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  const end = start + (lines[line - 1]?.length ?? 0);
  field.focus();
  field.setSelectionRange(Math.min(start + character - 1, end), end);
  field.scrollTop = Math.max(0, (line - 3) * (field.scrollHeight / Math.max(1, lines.length)));
  field.scrollIntoView({ block: "nearest" });
}

interface OptionsProps {
  writing: Writing;
  canTry: boolean;
  onExample: () => void;
  /** The fields before the buttons. */
  children: ComponentChildren;
}

/** The row below a text: what is said about it, an example, and the buttons. */
export function FormOptions({ writing, canTry, onExample, children }: OptionsProps) {
  return (
    <div class="row ingest-options">
      {children}
      <button type="button" class="button quiet" onClick={onExample}>
        Example
      </button>
      <div class="spread">
        <TryAndWrite writing={writing} canTry={canTry} />
      </div>
    </div>
  );
}

function TryAndWrite({ writing, canTry }: { writing: Writing; canTry: boolean }) {
  const { isBusy, canWrite } = writing;
  return (
    <div class="row">
      <button
        type="button"
        class={canWrite ? "button" : "button primary"}
        disabled={!canTry || isBusy}
        onClick={writing.try}
      >
        Dry run
      </button>
      <button
        type="button"
        class={canWrite ? "button primary" : "button"}
        disabled={!canWrite || isBusy}
        title="After a dry run without problems"
        onClick={writing.write}
      >
        Write
      </button>
      {isBusy && (
        <span role="status" class="soft">
          <span class="spinner" aria-hidden="true" /> Working…
        </span>
      )}
    </div>
  );
}

interface ChoiceProps<T extends string> {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChoose: (value: T) => void;
}

/** A choice among names; its label is for those who do not see the table around it. */
export function Choice<T extends string>({ label, value, options, onChoose }: ChoiceProps<T>) {
  return (
    <select aria-label={label} value={value} onChange={(event) => onChoose(event.currentTarget.value as T)}>
      {options.map(([name, title]) => (
        <option key={name} value={name}>
          {title}
        </option>
      ))}
    </select>
  );
}

/** The unit of times. */
export function UnitChoice<T extends string>(props: Omit<ChoiceProps<T>, "label">) {
  return (
    <div class="inline-field">
      <span aria-hidden="true">Times are</span>
      <Choice label="Times are" {...props} />
    </div>
  );
}
