import { sayDuration } from "../src/words/quantity.ts";
import type { ShownEntry } from "../src/words/explanation.ts";

interface Part {
  readonly name: "fresh" | "revalidate" | "error";
  /** Where it begins and ends on a line from 0 to 1. */
  readonly from: number;
  readonly to: number;
  readonly text: string;
}

/** The life of an entry on a line from 0, when its answer was made, to 1, when it is of no use or now. */
export function timeLine(entry: Pick<ShownEntry, "age" | "freshFor" | "revalidateFor" | "usableFor">): {
  readonly parts: readonly Part[];
  readonly now: number;
} {
  const { age, freshFor, revalidateFor, usableFor } = entry;
  const stale = Math.max(0, age + freshFor);
  const last = Math.max(stale, age + revalidateFor);
  const end = Math.max(last, age + usableFor);
  const length = Math.max(end, age, 1);
  const parts: Part[] = [
    { name: "fresh", from: 0, to: stale / length, text: `fresh for ${sayDuration(stale)}` },
    {
      name: "revalidate",
      from: stale / length,
      to: last / length,
      text: `stale, served while it is refreshed: ${sayDuration(last - stale)}`,
    },
    {
      name: "error",
      from: last / length,
      to: end / length,
      text: `stale, served when the registry fails: ${sayDuration(end - last)}`,
    },
  ];
  return { parts: parts.filter(({ from, to }) => to > from), now: Math.min(1, Math.max(0, age / length)) };
}

/** The path of a pasted text: a URL of whatever host, or a path. A fragment never reaches a server. */
export function pathOf(text: string): string {
  const path = text
    .trim()
    .replace(/^https?:\/\/[^/?#]*/i, "")
    .replace(/#.*$/s, "");
  return path.startsWith("/") ? path : `/${path}`;
}
