// How many messages there were over time, as bars.
import { countOf, formatCount, formatDuration, formatMillis } from "../../parts/cells";
import type { Counts } from "./feed";

const WIDTH = 1000;
const HEIGHT = 56;

export function Histogram({ counts }: { counts: Counts }) {
  const { bars, seconds, total, fromMs, toMs } = counts;
  const span = Math.max(1, toMs - fromMs);
  const most = Math.max(1, ...bars.map(({ count }) => count));
  const width = Math.max(1, ((seconds * 1000) / span) * WIDTH - 2);
  const text = `${countOf(total, "message")} between ${formatMillis(fromMs, 0)} and ${formatMillis(toMs, 0)}`;
  return (
    <figure class="histogram">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={text}>
        {bars.map(({ atMs, count }) => {
          const height = Math.max(1, (count / most) * HEIGHT);
          return (
            <rect
              key={atMs}
              x={((atMs - fromMs) / span) * WIDTH}
              y={HEIGHT - height}
              width={width}
              height={height}
            >
              <title>{`${formatMillis(atMs, 0)}: ${formatCount(count)}`}</title>
            </rect>
          );
        })}
      </svg>
      <figcaption class="soft">
        <span>{formatMillis(fromMs, 0)}</span>
        <span>
          {countOf(total, "message")}, a bar is {formatDuration(seconds * 1000)}
        </span>
        <span>{formatMillis(toMs, 0)}</span>
      </figcaption>
    </figure>
  );
}
