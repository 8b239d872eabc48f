import { useRef, useState } from "preact/hooks";
import type { Precision } from "./dry-run";
import { Result } from "./result";
import { FormOptions, showLine, TextArea, UnitChoice } from "./text-area";
import { useWriting } from "./use-writing";

const EXAMPLE = `cpu,host=web-1,region=eu usage=0.64,cores=8i 1700000000
cpu,host=web-2,region=eu usage=0.21,cores=8i 1700000000`;

export const PRECISIONS: readonly (readonly [Precision, string])[] = [
  ["auto", "By the number of digits"],
  ["ns", "Nanoseconds"],
  ["us", "Microseconds"],
  ["ms", "Milliseconds"],
  ["s", "Seconds"],
];

export function LinesForm({ database }: { database: string }) {
  const [lines, setLines] = useState("");
  const [precision, setPrecision] = useState<Precision>("auto");
  const field = useRef<HTMLTextAreaElement>(null);
  const writing = useWriting(database, lines, precision);
  return (
    <>
      <section class="panel panel-body ingest-form" aria-label="Line protocol">
        <TextArea
          label="Lines: table,tag=value field=value time"
          value={lines}
          placeholder={EXAMPLE}
          field={field}
          onInput={setLines}
          onTry={writing.try}
          onWrite={writing.write}
        />
        <FormOptions writing={writing} canTry={lines.trim() !== ""} onExample={() => setLines(EXAMPLE)}>
          <UnitChoice value={precision} options={PRECISIONS} onChoose={setPrecision} />
        </FormOptions>
      </section>
      <Result writing={writing} onShow={(line, character) => showLine(field.current, line, character)} />
    </>
  );
}
