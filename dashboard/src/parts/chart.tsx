// A chart of lines over time: drag to zoom, double-click to see all again; with the keyboard + - and the arrows.
// The legend hides and shows series and has the values under the cursor.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useTheme } from "../frame/theme";
import { useZone } from "../frame/zone";
import { formatMillis, formatValue } from "./cells";
import type { ChartData } from "./series";

const COLOURS = {
  light: [
    "#1f5fa8",
    "#c2571a",
    "#23804a",
    "#8c3aa8",
    "#b3261e",
    "#0f7d8c",
    "#8a6d00",
    "#c02d77",
    "#4f5bd5",
    "#5d6b7a",
  ],
  dark: [
    "#6aa9f0",
    "#f09a5b",
    "#62c98a",
    "#c98be6",
    "#ff8f85",
    "#5ccbd9",
    "#dbb94a",
    "#f383b8",
    "#9aa3ff",
    "#a9b6c4",
  ],
};

interface Props {
  data: ChartData;
  label: string;
  /** Called with the seconds that the user has zoomed to; without it the chart itself zooms. */
  onZoom?: (start: number, end: number) => void;
  /** The seconds shown at first; without it, those of the data. */
  range?: { start: number; end: number } | undefined;
}

export function Chart({ data, label, onZoom, range }: Props) {
  const theme = useTheme();
  const zone = useZone();
  const box = useRef<HTMLElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [cursor, setCursor] = useState<number | null>(null);
  const [isZoomed, setZoomed] = useState(false);
  const zoom = useRef(onZoom);
  zoom.current = onZoom;
  const full = useMemo(() => fullRange(data, range), [data, range]);

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const options = optionsOf(data, {
      theme,
      zone,
      width: element.clientWidth,
      height: element.clientHeight,
      full,
    });
    options.hooks = {
      setCursor: [(shown) => setCursor(shown.cursor.idx ?? null)],
      setSelect: [
        (shown) => {
          if (shown.select.width < 3 || !zoom.current) return;
          zoom.current(
            shown.posToVal(shown.select.left, "x"),
            shown.posToVal(shown.select.left + shown.select.width, "x"),
          );
        },
      ],
      setScale: [
        (shown, key) => {
          const { min, max } = shown.scales.x ?? {};
          if (key === "x") setZoomed(min !== full[0] || max !== full[1]);
        },
      ],
      draw: [() => performance.mark("tsdb:chart-drawn")],
    };
    const made = new uPlot(options, [data.times, ...data.series.map(({ values }) => values)], element);
    plot.current = made;
    const observer = new ResizeObserver(() =>
      made.setSize({ width: element.clientWidth, height: element.clientHeight }),
    );
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [data, theme, zone, full]);

  useEffect(() => {
    data.series.forEach(({ name }, at) => {
      const made = plot.current;
      const show = !hidden.has(name);
      if (made && made.series[at + 1]?.show !== show) made.setSeries(at + 1, { show });
    });
  }, [data, hidden, theme, zone]);

  const setRange = (min: number, max: number) => plot.current?.setScale("x", { min, max });
  const onKey = (event: KeyboardEvent) => {
    const { min, max } = plot.current?.scales.x ?? {};
    const moved = min === undefined || max === undefined ? null : moveRange(event.key, min, max, full);
    if (!moved) return;
    event.preventDefault();
    setRange(...moved);
  };
  return (
    <div class="chart">
      <figure
        ref={box}
        class="chart-box"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it is moved with keys
        tabIndex={0}
        aria-label={`${label}: ${data.series.length} series, ${data.times.length} times. Zoom with + and -, move with the arrow keys.`}
        onKeyDown={onKey}
      />
      {isZoomed && (
        <button type="button" class="button small chart-reset" onClick={() => setRange(...full)}>
          Show all
        </button>
      )}
      <Legend data={data} hidden={hidden} cursor={cursor} colours={COLOURS[theme]} onHide={setHidden} />
    </div>
  );
}

interface LegendProps {
  data: ChartData;
  hidden: ReadonlySet<string>;
  cursor: number | null;
  colours: string[];
  onHide: (hidden: ReadonlySet<string>) => void;
}

function Legend({ data, hidden, cursor, colours, onHide }: LegendProps) {
  const names = data.series.map(({ name }) => name);
  const toggle = (name: string, isAlone: boolean) => {
    if (isAlone) {
      const others = names.filter((each) => each !== name);
      onHide(others.every((each) => hidden.has(each)) && !hidden.has(name) ? new Set() : new Set(others));
      return;
    }
    const next = new Set(hidden);
    if (!next.delete(name)) next.add(name);
    onHide(next);
  };
  const at = cursor === null ? undefined : data.times[cursor];
  return (
    <div class="legend">
      <p class="legend-time soft">
        {at === undefined
          ? "Click a series to hide it, with Shift to see it alone."
          : formatMillis(at * 1000)}
      </p>
      <ul aria-label="Series">
        {data.series.map(({ name, values }, index) => {
          const value = cursor === null ? undefined : values[cursor];
          return (
            <li key={name}>
              <button
                type="button"
                aria-pressed={!hidden.has(name)}
                title={name}
                onClick={(event) => toggle(name, event.shiftKey)}
              >
                <span class="swatch" style={{ background: colours[index % colours.length] ?? "" }} />
                <span class="legend-name">{name}</span>
                {typeof value === "number" && <span class="legend-value">{formatValue(value)}</span>}
              </button>
            </li>
          );
        })}
      </ul>
      {data.dropped > 0 && <p class="soft">{data.dropped} more series are not drawn.</p>}
    </div>
  );
}

interface Look {
  theme: "light" | "dark";
  zone: "local" | "utc";
  width: number;
  height: number;
  full: [number, number];
}

function optionsOf(data: ChartData, { theme, zone, width, height, full }: Look): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const font = `12px ${style.getPropertyValue("--font")}`;
  const grid = { stroke: colour("--line"), width: 1 };
  const axis = { stroke: colour("--text-soft"), font, grid, ticks: { ...grid, size: 4 } };
  const palette = COLOURS[theme];
  const hasFewPoints = data.times.length < 60;
  return {
    width: Math.max(width, 50),
    height: Math.max(height, 50),
    tzDate: (at) => (zone === "utc" ? uPlot.tzDate(new Date(at * 1000), "Etc/UTC") : new Date(at * 1000)),
    legend: { show: false },
    cursor: { drag: { x: true, y: false }, points: { size: 6 } },
    scales: { x: { time: true, min: full[0], max: full[1] } },
    axes: [
      { ...axis, space: 70, values: TIME_LABELS },
      { ...axis, size: axisSize, values: (_plot, splits) => splits.map(formatValue) },
    ],
    series: [
      {},
      ...data.series.map(({ name }, at) => ({
        label: name,
        stroke: palette[at % palette.length] ?? "",
        width: 1.5,
        points: { show: hasFewPoints, size: 4 },
      })),
    ],
  };
}

// How times are written, by the distance of two of them, in seconds: the label, and what is added below it at the first
// label and where the year, the day or the minute changes. The clock has 24 hours.
const DAY_BELOW = "\n{YYYY}-{MM}-{DD}";
const TIME_LABELS = [
  [31_536_000, "{YYYY}", null, null, null, null, null, null, 1],
  [2_419_200, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [86_400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", DAY_BELOW, null, DAY_BELOW, null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", DAY_BELOW, null, DAY_BELOW, null, null, null, 1],
  [0.001, "{HH}:{mm}:{ss}.{fff}", DAY_BELOW, null, DAY_BELOW, null, null, null, 1],
];

/** The room that the numbers at the side take. */
function axisSize(_plot: uPlot, values: string[] | null): number {
  return 24 + 7 * Math.max(2, ...(values ?? []).map((text) => text.length));
}

function fullRange(data: ChartData, range: Props["range"]): [number, number] {
  if (range) return [range.start, range.end];
  const first = data.times[0] ?? 0;
  const last = data.times.at(-1) ?? 1;
  return first === last ? [first - 30, last + 30] : [first, last];
}

/** Where a key moves the shown range to; null for other keys. */
export function moveRange(
  key: string,
  min: number,
  max: number,
  full: [number, number],
): [number, number] | null {
  const width = max - min;
  const middle = (min + max) / 2;
  const bound = (low: number, high: number): [number, number] => [
    Math.max(low, full[0]),
    Math.min(high, full[1]),
  ];
  switch (key) {
    case "+":
    case "=":
      return [middle - width / 4, middle + width / 4];
    case "-":
      return bound(middle - width, middle + width);
    case "ArrowLeft":
      return shift(-width / 4, min, max, full);
    case "ArrowRight":
      return shift(width / 4, min, max, full);
    case "0":
      return full;
    default:
      return null;
  }
}

function shift(by: number, min: number, max: number, full: [number, number]): [number, number] {
  const kept = by < 0 ? Math.max(by, full[0] - min) : Math.min(by, full[1] - max);
  return [min + kept, max + kept];
}
