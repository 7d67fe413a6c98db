import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

/** A file, or a part of one, that is generated from code. */
export interface Artefact {
  /** Relative to the root of the project. */
  readonly file: string;
  /** Only what stands between `<!-- marker:begin -->` and `<!-- marker:end -->` is generated. */
  readonly marker?: string;
  render(): string | Promise<string>;
}

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

/** `text` with `content` between the markers. */
function insert({ file, marker }: Artefact, text: string | undefined, content: string): string {
  if (text === undefined) throw new Error(`${file} does not exist: write it, with the markers of "${marker}"`);
  const [begin, end] = [`<!-- ${marker}:begin -->`, `<!-- ${marker}:end -->`];
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from === -1 || to < from || text.lastIndexOf(begin) !== from || text.lastIndexOf(end) !== to) {
    throw new Error(`${file} needs the line ${begin} once, and the line ${end} once after it`);
  }
  return `${text.slice(0, from + begin.length)}\n\n${content.trim()}\n\n${text.slice(to)}`;
}

export interface Generation {
  /** Folder that the artefacts' files are relative to. */
  readonly root: string;
  readonly artefacts: readonly Artefact[];
  /** Look, but write nothing. */
  readonly isCheck: boolean;
}

/**
 * Brings every artefact up to date.
 * @returns the files that were not.
 * @throws when a file that holds generated parts, or its markers, are missing.
 */
export async function generate({ root, artefacts, isCheck }: Generation): Promise<string[]> {
  const outdated = new Set<string>();
  for (const artefact of artefacts) {
    const file = join(root, artefact.file);
    const before = await readIfThere(file);
    const content = await artefact.render();
    const after = artefact.marker === undefined ? content : insert(artefact, before, content);
    if (after === before) continue;
    outdated.add(artefact.file);
    if (isCheck) continue;
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, after);
  }
  return [...outdated];
}
