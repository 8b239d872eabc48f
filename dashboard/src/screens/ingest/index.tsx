// Ingest: rows pasted as line protocol or CSV, tried before they are written; and how other programs send them.
import { useState } from "preact/hooks";
import { useDatabase } from "../../frame/database";
import { currentPlace, keepState } from "../../frame/place";
import { useZone } from "../../frame/zone";
import { Tabs } from "../../parts/tabs";
import "../common/common.css";
import "./ingest.css";
import { CsvForm } from "./csv-form";
import { LinesForm } from "./lines-form";
import { SnippetList } from "./snippet-list";

export const shortcuts = [
  { keys: "Ctrl Enter", meaning: "Dry run" },
  { keys: "Ctrl Shift Enter", meaning: "Write, after a dry run without problems" },
];

const WAYS = [
  ["lines", "Line protocol"],
  ["csv", "CSV"],
  ["programs", "From other programs"],
] as const;
type Way = (typeof WAYS)[number][0];

export default function IngestScreen() {
  const database = useDatabase();
  useZone();
  const [way, setWay] = useState<Way>(
    () => WAYS.find(([name]) => name === currentPlace().state.get("way"))?.[0] ?? "lines",
  );
  const choose = (name: Way) => {
    setWay(name);
    keepState({ way: name });
  };
  return (
    <div class="screen">
      <div>
        <Tabs label="How rows come in" tabs={WAYS} active={way} onChoose={choose} panel="ingest-way" />
      </div>
      <div
        id="ingest-way"
        role="tabpanel"
        class="screen"
        aria-label={WAYS.find(([name]) => name === way)?.[1]}
      >
        {way === "lines" && <LinesForm key={database} database={database} />}
        {way === "csv" && <CsvForm key={database} database={database} />}
        {way === "programs" && <SnippetList database={database} />}
      </div>
    </div>
  );
}
