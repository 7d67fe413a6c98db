import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { readText, ROOT } from "./project.ts";

/** Pages that people read, by their path in the project. */
export const PAGES: readonly string[] = [
  "README.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  ...readdirSync(join(ROOT, "docs"))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
];

/** A block of code of a page. */
export interface Block {
  readonly page: string;
  /** `sh`, `yaml`, …; empty where the page does not say. */
  readonly language: string;
  readonly text: string;
}

/** The blocks of all pages, in their order. */
export function blocks(): Block[] {
  return PAGES.flatMap((page) =>
    [...readText(page).matchAll(/^```(\w*)[^\n]*\n(.*?)^```$/gms)].map(([, language = "", text = ""]) => {
      return { page, language, text };
    }),
  );
}

/** The page without blocks, tables, headings and comments: one paragraph or item a line. */
export function proseOf(page: string): string[] {
  return readText(page)
    .replace(/^```.*?^```$/gms, "")
    .replace(/<!--.*?-->/gs, "")
    .replace(/^(\||#).*$/gm, "")
    .replace(/^\s*([-*]|\d+\.) /gm, "\n\n")
    .split(/\n\s*\n/)
    .map((paragraph) => paragraph.replace(/\s+/g, " ").trim())
    .filter((paragraph) => paragraph !== "");
}

/** What a page writes as code within its text and tables. */
export function codesOf(page: string): string[] {
  const text = readText(page).replace(/^```.*?^```$/gms, "");
  return [...text.matchAll(/`([^`\n]+)`/g)].map(([, code = ""]) => code);
}

/** The sentences of a text; code counts as one word, a link as its text. */
export function sentencesOf(text: string): string[] {
  const plain = text.replace(/`[^`]*`/g, "code").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1");
  return plain.split(/(?<=[.!?]["”)*_]*) +/);
}

export function wordsOf(sentence: string): number {
  return sentence.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
}

/** The anchors of a page's headings, as forges make them. */
function anchorsOf(page: string): Set<string> {
  const headings = [...readText(page).matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) => heading);
  const anchor = (heading: string): string =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-");
  return new Set(headings.map(anchor));
}

/** Links of a page within the project that lead nowhere. */
export function brokenLinksOf(page: string): string[] {
  const prose = readText(page).replace(/^```.*?^```$/gms, "");
  const links = [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = ""]) => link);
  return links.filter((link) => {
    if (/^(https?|mailto):/.test(link)) return false;
    const [path = "", anchor] = link.split("#");
    const target = path === "" ? page : join(dirname(page), path);
    if (!existsSync(join(ROOT, target))) return true;
    return anchor !== undefined && target.endsWith(".md") && !anchorsOf(target).has(anchor);
  });
}
