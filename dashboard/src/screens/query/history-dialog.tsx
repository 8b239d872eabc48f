import { useState } from "preact/hooks";
import { formatMillis } from "../../parts/cells";
import { Dialog } from "../../parts/dialog";
import { clearHistory, type PastQuery, readHistory } from "./history";

interface Props {
  onChoose: (query: PastQuery) => void;
  onClose: () => void;
}

export function HistoryDialog({ onChoose, onClose }: Props) {
  const [queries, setQueries] = useState(readHistory);
  const [filter, setFilter] = useState("");
  const shown = queries.filter(({ text }) => text.toLowerCase().includes(filter.toLowerCase()));
  return (
    <Dialog title="History" onClose={onClose}>
      <div class="row">
        <input
          type="search"
          placeholder="Filter"
          aria-label="Filter"
          value={filter}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
        <button
          type="button"
          class="button spread"
          disabled={queries.length === 0}
          onClick={() => {
            clearHistory();
            setQueries([]);
          }}
        >
          Forget all
        </button>
      </div>
      {shown.length === 0 && <p class="soft history-empty">No queries.</p>}
      <ul class="history">
        {shown.map((query) => (
          <li key={`${query.at} ${query.text}`}>
            <button type="button" onClick={() => onChoose(query)}>
              <span class="soft">
                {formatMillis(query.at, 0)} · {query.language === "sql" ? "SQL" : "PromQL"} · {query.database}
              </span>
              <code>{query.text}</code>
            </button>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
