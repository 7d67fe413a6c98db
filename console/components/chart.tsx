import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { byMinute } from "../history.ts";
import { NOTHING, sayClock, sayMinute } from "../format.ts";
import { useTheme } from "../theme.ts";
import { MetricLink } from "./metric-link.tsx";
import { Scroll } from "./scroll.tsx";

export interface Line {
  readonly label: string;
  readonly values: readonly (number | null)[];
  /** One of the seven colours of lines; each has a dash of its own. */
  readonly color: 1 | 2 | 3 | 4 | 5 | 6 | 7;
}

interface ChartProps {
  readonly title: string;
  readonly metric: string;
  /** Milliseconds since the Unix epoch. */
  readonly times: readonly number[];
  readonly lines: readonly Line[];
  readonly say: (value: number | null | undefined) => string;
  /** The end of the scale, where it is known; else what is measured. */
  readonly most?: number;
}

const HEIGHT = 150;

/** By colour, so that lines differ to those who see no colours. */
const DASHES: readonly (readonly number[])[] = [[], [6, 3], [2, 2], [10, 3, 2, 3], [4, 4], [12, 4], [1, 3]];

/** Lines over the last hour: drawn while it is in view, described in words and as a table to those who do not see it. */
export function Chart({ title, metric, times, lines, say, most }: ChartProps) {
  const host = useRef<HTMLDivElement>(null);
  const isSeen = useSeen(host);
  const [index, setIndex] = useState<number | undefined>();
  const plot = usePlot(host, { isSeen, lines, say, most, onHover: setIndex });
  useEffect(() => {
    plot.current?.setData([times.map((time) => time / 1_000), ...lines.map(({ values }) => [...values])]);
  });
  const at = index !== undefined && index < times.length ? index : times.length - 1;
  return (
    <figure class="chart">
      <figcaption>
        <h3>
          {title} <MetricLink name={metric} />
        </h3>
        <span class="hint">{index === undefined || at < 0 ? "" : sayClock(times[at]!)}</span>
      </figcaption>
      <ul class="legend">
        {lines.map(({ label, values, color }) => (
          <li key={label}>
            <svg class={`key line-${color}`} viewBox="0 0 22 4" aria-hidden="true">
              <line x1="0" y1="2" x2="22" y2="2" stroke-dasharray={DASHES[color - 1]!.join(" ")} />
            </svg>
            {label} <b>{say(values[at])}</b>
          </li>
        ))}
      </ul>
      <div class="plot" ref={host} role="img" aria-label={summaryOf(title, lines, say)} />
      <MinuteTable title={title} times={times} lines={lines} say={say} />
    </figure>
  );
}

function summaryOf(title: string, lines: readonly Line[], say: ChartProps["say"]): string {
  const text = lines.map(({ label, values }) => {
    const measured = values.filter((value) => value !== null);
    if (measured.length === 0) return `${label}: nothing measured`;
    const [least, greatest] = [Math.min(...measured), Math.max(...measured)];
    return `${label}: ${say(measured.at(-1))} now, from ${say(least)} to ${say(greatest)}`;
  });
  return `${title}, last hour. ${text.join("; ")}.`;
}

function MinuteTable({ title, times, lines, say }: Pick<ChartProps, "title" | "times" | "lines" | "say">) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>As a table</summary>
      {isOpen && (
        <Scroll look="short" label={`${title}, by minute`}>
          <table>
            <caption class="unseen">{title}, means of each minute, the latest first</caption>
            <thead>
              <tr>
                <th scope="col">Minute</th>
                {lines.map(({ label }) => (
                  <th key={label} scope="col" class="number">
                    {label}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {byMinute(
                times,
                lines.map(({ values }) => values),
              )
                .toReversed()
                .map(({ at, values }) => (
                  <tr key={at}>
                    <th scope="row">{sayMinute(at)}</th>
                    {values.map((value, i) => (
                      <td key={lines[i]!.label} class="number">
                        {say(value)}
                      </td>
                    ))}
                  </tr>
                ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </details>
  );
}

const waiting: (() => void)[] = [];

/** Charts are made one in each frame: all of a page at once would hold it. */
function inFrameOfItsOwn(step: () => void): void {
  waiting.push(step);
  if (waiting.length === 1) requestAnimationFrame(takeStep);
}

function takeStep(): void {
  waiting[0]!();
  waiting.shift();
  if (waiting.length > 0) requestAnimationFrame(takeStep);
}

/** Whether an element is in view, or nearly. */
function useSeen(host: { readonly current: HTMLElement | null }): boolean {
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    let isThere = true;
    const note = (entries: readonly IntersectionObserverEntry[]) =>
      inFrameOfItsOwn(() => isThere && setSeen(entries.at(-1)!.isIntersecting));
    const observer = new IntersectionObserver(note, { rootMargin: "200px" });
    observer.observe(host.current!);
    return () => {
      isThere = false;
      observer.disconnect();
    };
  }, []);
  return isSeen;
}

interface PlotOptions extends Pick<ChartProps, "lines" | "say"> {
  readonly most: number | undefined;
  readonly isSeen: boolean;
  readonly onHover: (index: number | undefined) => void;
}

function usePlot(host: { readonly current: HTMLDivElement | null }, options: PlotOptions) {
  const plot = useRef<uPlot | null>(null);
  const { isSeen, lines } = options;
  const { shown: theme } = useTheme();
  const labels = lines.map(({ label, color }) => `${label} ${color}`).join("\n");
  useEffect(() => {
    if (!isSeen) return undefined;
    const element = host.current!;
    const made = new uPlot(plotOptions(element, options), undefined, element);
    plot.current = made;
    const observer = new ResizeObserver(() => {
      if (element.clientWidth > 0) made.setSize({ width: element.clientWidth, height: HEIGHT });
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [isSeen, labels, theme]);
  return plot;
}

function plotOptions(element: HTMLElement, { lines, say, most, onHover }: PlotOptions): uPlot.Options {
  const colorOf = colorsOf(element);
  const axis = { stroke: colorOf("--muted"), font: "11px system-ui", ticks: { show: false }, size: 24 };
  const grid = { stroke: colorOf("--line"), width: 1 };
  return {
    width: Math.max(80, element.clientWidth),
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false }, sync: { key: "console" } },
    // To the right there is room for half of a time, the last label.
    padding: [8, 28, 0, 0],
    scales: { y: { range: (_plot, _least, greatest) => [0, most ?? (greatest > 0 ? greatest * 1.1 : 1)] } },
    axes: [
      {
        ...axis,
        grid: { show: false },
        space: 70,
        values: (_plot, ticks) => sayTicks(ticks),
      },
      {
        ...axis,
        grid,
        size: 58,
        space: 32,
        values: (_plot, ticks) => ticks.map((tick) => (tick === 0 ? "0" : say(tick))),
      },
    ],
    series: [
      {},
      ...lines.map(({ label, color }) => ({
        label,
        stroke: colorOf(`--line-${color}`),
        width: 1.5,
        dash: [...DASHES[color - 1]!],
        points: { show: false },
      })),
    ],
    hooks: { setCursor: [({ cursor }) => onHover(cursor.idx ?? undefined)] },
  };
}

/** A gateway that just started has less than a minute between two ticks. */
function sayTicks(ticks: readonly number[]): string[] {
  const say = (ticks[1] ?? Infinity) - (ticks[0] ?? 0) < 60 ? sayClock : sayMinute;
  return ticks.map((tick) => say(tick * 1_000));
}

/** A canvas takes no variables: what a colour comes to in this theme is asked of an element that has it. */
function colorsOf(element: HTMLElement): (variable: string) => string {
  const probe = document.createElement("span");
  element.append(probe);
  const colors = new Map<string, string>();
  return (variable) => {
    const known = colors.get(variable);
    if (known !== undefined) return known;
    probe.hidden = false;
    probe.style.color = `var(${variable})`;
    const color = getComputedStyle(probe).color || NOTHING;
    colors.set(variable, color);
    probe.hidden = true;
    return color;
  };
}
