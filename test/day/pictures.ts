/** Pictures of plain SVG, readable on light and dark pages. */

/** Cells by row and column; each has a text, and how good it is: 1 is as good as can be, 0 as bad. */
export interface Grid {
  readonly title: string;
  readonly columns: readonly string[];
  readonly rows: readonly { readonly name: string; readonly cells: readonly (Cell | undefined)[] }[];
}

export interface Cell {
  readonly text: string;
  readonly goodness: number;
}

/** Bars side by side for each row, on one scale. */
export interface Bars {
  readonly title: string;
  readonly series: readonly string[];
  readonly rows: readonly { readonly name: string; readonly values: readonly number[] }[];
  /** Where each power of ten is as wide as another. */
  readonly isLogarithmic: boolean;
  readonly format: (value: number) => string;
}

const WIDTH = 1_000;
const NAMES = 225;
const TOP = 78;
const ROW = 34;
const BAR = 13;
const STYLE = `<style>
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 15px }
  .small { font-size: 11px; fill: #59636e }
  .cell { font-size: 11px; text-anchor: middle; fill: #1f2328 }
  .ours { font-weight: 600 }
  .line { stroke: #d1d9e0 }
  .s0 { fill: #2f6fbd } .s1 { fill: #d98327 }
  .none { fill: #f0f2f4 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9198a1 } .line { stroke: #3d444d } .none { fill: #262c36 }
    .s0 { fill: #5b9be6 } .s1 { fill: #e59a45 } .cell { fill: #10151b } .none + .cell { fill: #9198a1 }
  }
</style>`;

export function drawGrid({ title, columns, rows }: Grid): string {
  const width = (WIDTH - NAMES - 10) / columns.length;
  const heads = columns.map((column, i) => {
    // One word below the other: columns are narrow.
    const words = column.split(" ");
    const x = NAMES + width * (i + 0.5);
    return words.map((word, line) =>
      text(x, TOP - 12 * (words.length - line) + 6, word, 'class="small" text-anchor="middle"'),
    );
  });
  const lines = rows.map(({ name, cells }, row) => {
    const y = TOP + row * ROW;
    const drawn = cells.map((cell, column) => {
      const x = NAMES + column * width;
      const fill = cell === undefined ? 'class="none"' : `fill="${colour(cell.goodness)}"`;
      return `<rect x="${round(x + 1)}" y="${y + 1}" width="${round(width - 2)}" height="${ROW - 2}" rx="3" ${fill}/>${text(
        x + width / 2,
        y + 21,
        cell?.text ?? "–",
        'class="cell"',
      )}`;
    });
    return nameOf(name, y + 21) + drawn.join("");
  });
  return frame(title, TOP + rows.length * ROW + 10, [...heads.flat(), ...lines]);
}

export function drawBars({ title, series, rows, isLogarithmic, format }: Bars): string {
  const most = Math.max(1, ...rows.flatMap(({ values }) => values));
  const room = WIDTH - NAMES - 90;
  const share = (value: number) => (isLogarithmic ? Math.log10(1 + value) / Math.log10(1 + most) : value / most);
  const height = series.length * (BAR + 2) + 12;
  const legend = series.map(
    (name, i) =>
      `<rect x="${NAMES + i * 220}" y="38" width="11" height="11" class="s${i}"/>${text(NAMES + 17 + i * 220, 48, name, 'class="small"')}`,
  );
  const lines = rows.map(({ name, values }, row) => {
    const y = TOP + row * height;
    const bars = values.map((value, i) => {
      const top = y + i * (BAR + 2);
      const width = round(Math.max(1, share(value) * room));
      return `<rect x="${NAMES}" y="${top}" width="${width}" height="${BAR}" rx="2" class="s${i}"/>${text(
        NAMES + width + 6,
        top + 11,
        format(value),
        'class="small"',
      )}`;
    });
    return nameOf(name, y + (series.length * (BAR + 2)) / 2 + 4) + bars.join("");
  });
  return frame(title, TOP + rows.length * height, [...legend, ...lines]);
}

function frame(title: string, height: number, content: readonly string[]): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escape(title)}">
${STYLE}
${text(8, 24, title, 'class="title"')}
${content.join("\n")}
</svg>
`;
}

function nameOf(name: string, y: number): string {
  return text(8, y, name, name.startsWith("gateway") ? 'class="ours"' : "");
}

function text(x: number, y: number, content: string, attributes = ""): string {
  return `<text x="${round(x)}" y="${round(y)}" ${attributes}>${escape(content)}</text>`;
}

/** From red by yellow to green, pale enough for dark letters on it. */
function colour(goodness: number): string {
  return `hsl(${Math.round(Math.max(0, Math.min(1, goodness)) * 130)} 60% 70%)`;
}

const round = (value: number) => Math.round(value * 10) / 10;

function escape(content: string): string {
  return content.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
