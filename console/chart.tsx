import { NOTHING, sayMinute } from "./format.ts";
import type { Point } from "./samples.ts";

interface ChartProps {
  readonly title: string;
  /** Behind the title, where it does not say enough. */
  readonly note?: string;
  readonly points: readonly Point[];
  readonly tone: "accent" | "bad";
  readonly say: (value: number) => string;
}

const WIDTH = 500;
const HEIGHT = 100;

/** One line over time, with its last and its highest value; drawn from what this page saw. */
export function Chart({ title, note, points, tone, say }: ChartProps) {
  const now = points.at(-1)?.value;
  const said = now === undefined ? NOTHING : say(now);
  const highest = Math.max(0, ...points.map(({ value = 0 }) => value));
  return (
    <section class="card chart">
      <h2>
        {title} <span class="dim">{note}</span>
        <b class="num">{said}</b>
      </h2>
      {points.length < 2 ? (
        <p class="dim waiting">Drawn as this page looks on.</p>
      ) : (
        <svg
          class={highest === 0 ? "calm" : tone}
          viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`${title}: ${said} now`}
        >
          <path class="floor" d={`M0 ${HEIGHT - 0.5}H${WIDTH}`} />
          {stretches(points, highest).map((stretch) => (
            <Line key={stretch[0]![0]} stretch={stretch} />
          ))}
        </svg>
      )}
      <p class="ends dim num">
        <span>{points[0] !== undefined && `since ${sayMinute(points[0].at)}`}</span>
        <span>{highest > 0 && `at most ${say(highest)}`}</span>
      </p>
    </section>
  );
}

/** Places in the picture, x and y. */
type Stretch = (readonly [x: number, y: number])[];

/** The line has a gap where nothing was counted. */
function stretches(points: readonly Point[], highest: number): readonly Stretch[] {
  const [first, last] = [points[0]!.at, points.at(-1)!.at];
  const found: Stretch[] = [];
  let stretch: Stretch | undefined;
  for (const { at, value } of points) {
    if (value === undefined) {
      stretch = undefined;
      continue;
    }
    if (stretch === undefined) found.push((stretch = []));
    const height = highest === 0 ? 0 : (value / highest) * (HEIGHT - 8);
    stretch.push([((at - first) / Math.max(1, last - first)) * WIDTH, HEIGHT - 2 - height]);
  }
  return found;
}

function Line({ stretch }: { readonly stretch: Stretch }) {
  const line = `M${stretch.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}`;
  return (
    <>
      <path class="area" d={`${line}V${HEIGHT}H${stretch[0]![0].toFixed(1)}Z`} />
      <path class="line" d={line} />
    </>
  );
}
