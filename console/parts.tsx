import type { ComponentChildren } from "preact";
import type { Health, HealthLine } from "../src/operations/types.ts";
import type { NodeStatus, UpstreamStatus } from "../src/upstream/types.ts";
import type { Figure } from "./format.ts";

export type Tone = "good" | "warn" | "bad" | "calm";

/** A state in words, with a dot of its colour. */
export function State({ tone, children }: { readonly tone: Tone; readonly children: ComponentChildren }) {
  return <span class={`state ${tone}`}>{children}</span>;
}

/** The health's own line about a registry. */
export function lineOf(health: Health, registry: string): HealthLine | undefined {
  return health.lines.find(({ subject, name }) => subject === "registry" && name === registry);
}

/** A state's colour and name for people. */
export interface Said {
  readonly tone: Tone;
  readonly word: string;
}

export function sayUpstream({ state, mode, nodes }: UpstreamStatus, now: number): Said {
  if (state === "disabled") return { tone: "bad", word: "not used" };
  if (mode === "cache-only") return { tone: "calm", word: "cache only" };
  if (state === "down") return { tone: "bad", word: "down" };
  if (state === "unproved") return { tone: "calm", word: "not asked yet" };
  if (nodes.every((node) => isPaused(node, now))) return { tone: "warn", word: "paused" };
  if (nodes.some((node) => node.state !== "up")) return { tone: "warn", word: "some nodes are out" };
  const isBusy = nodes.some(({ pausedUntil }) => pausedUntil !== undefined);
  return isBusy ? { tone: "warn", word: "answers 429" } : { tone: "good", word: "well" };
}

export function sayNode(node: NodeStatus, now: number): Said {
  const { state } = node;
  if (isPaused(node, now)) return { tone: "warn", word: "paused" };
  if (state === "up") return { tone: node.pausedUntil === undefined ? "good" : "warn", word: "up" };
  if (state === "unproved") return { tone: "calm", word: "not asked yet" };
  return { tone: "bad", word: state === "wrong" ? "another registry" : "out" };
}

function isPaused({ state, pausedUntil = 0 }: NodeStatus, now: number): boolean {
  return pausedUntil > now && (state === "up" || state === "unproved");
}

/** Figures of one size, in a row. */
export function Figures({
  figures,
}: {
  readonly figures: readonly (readonly [label: string, figure: Figure, tone?: Tone])[];
}) {
  return (
    <dl class="figures">
      {figures.map(([label, [value, unit], tone]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd class={tone}>
            {value}
            {unit !== "" && <small> {unit}</small>}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** Columns of a table: a head, and how a row shows in it. */
export interface Column<Row> {
  readonly head: string;
  readonly cell: (row: Row) => ComponentChildren;
  readonly isNumber?: boolean;
}

interface TableProps<Row> {
  readonly caption: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  readonly empty: string;
}

export function Table<Row>({ caption, columns, rows, keyOf, empty }: TableProps<Row>) {
  if (rows.length === 0) return <p class="dim">{empty}</p>;
  return (
    <table>
      <caption class="hidden">{caption}</caption>
      <thead>
        <tr>
          {columns.map(({ head, isNumber }) => (
            <th key={head} scope="col" class={isNumber === true ? "right" : undefined}>
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={keyOf(row)}>
            {columns.map(({ head, cell, isNumber }) => (
              <td key={head} data-head={head} class={isNumber === true ? "right num" : undefined}>
                {cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** What went wrong with a question of this page. */
export function Problem({ text }: { readonly text: string | undefined }) {
  return text === undefined ? null : (
    <p class="problem" role="alert">
      {text}
    </p>
  );
}
