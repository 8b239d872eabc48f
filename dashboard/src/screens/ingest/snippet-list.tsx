import { useState } from "preact/hooks";
import { ErrorBox, Loading } from "../../parts/states";
import { usePoll } from "../common/poll";
import { loadAddresses } from "./addresses";
import { makeSnippets, type Snippet } from "./snippets";

export function SnippetList({ database }: { database: string }) {
  const { value, error, refresh } = usePoll(loadAddresses, null, []);
  if (!value)
    return error ? <ErrorBox message={error} onRetry={refresh} /> : <Loading what="the addresses" />;
  return (
    <div class="snippets">
      {makeSnippets(value, database).map((snippet) => (
        <SnippetPanel key={snippet.name} snippet={snippet} />
      ))}
    </div>
  );
}

function SnippetPanel({ snippet }: { snippet: Snippet }) {
  const [said, setSaid] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(snippet.text);
      setSaid("Copied");
    } catch {
      // Without TLS the clipboard is closed to pages of other machines.
      setSaid("Select the text to copy it");
    }
  };
  return (
    <div class="panel">
      <div class="panel-head">
        <h2 id={`snippet-${snippet.name}`}>{snippet.title}</h2>
        <span class="soft spread" role="status">
          {said}
        </span>
        <button
          type="button"
          class="button small"
          aria-label={`Copy ${snippet.title}`}
          onClick={() => void copy()}
        >
          Copy
        </button>
      </div>
      <div class="panel-body">
        <p class="soft">{snippet.note}</p>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard */}
        <section class="snippet" tabIndex={0} aria-labelledby={`snippet-${snippet.name}`}>
          <pre>{snippet.text}</pre>
        </section>
      </div>
    </div>
  );
}
