/** One thing that is wrong with a configuration. */
export interface Problem {
  /** From 1; absent where there is no text to point at, as in options of the command line. */
  readonly line?: number;
  readonly column?: number;
  /** The key, such as `upstreams[0].urls[1]`; empty for the file as a whole. */
  readonly path: string;
  /** Says what is wrong and what to do. Repeats no value but the path of a file. */
  readonly message: string;
}

/** A configuration that cannot be used. Its message has a line for each problem: `file:line:column: path: message`. */
export class ConfigError extends Error {
  readonly problems: readonly Problem[];
  /** The configuration and the files that it names, as far as it could be read: a change of one may mend it. */
  readonly files: readonly string[];

  constructor(problems: readonly Problem[], files: readonly string[], file?: string) {
    const texts = problems.map(({ line, column, path, message }) => {
      const place = [file, line, column].filter((part) => part !== undefined).join(":");
      return [place, path, message].filter((part) => part !== "").join(": ");
    });
    super(texts.join("\n"));
    this.name = "ConfigError";
    this.problems = problems;
    this.files = files;
  }
}

/** Pairs of neighbouring letters of a word, with its beginning and its end. */
function pairsOf(word: string): string[] {
  const text = `^${word.slice(0, 64).toLowerCase()}$`;
  return Array.from({ length: text.length - 1 }, (_, i) => text.slice(i, i + 2));
}

/** `; did you mean "…"?` with the known word that shares most pairs of letters with `word`; nothing where none is near. */
export function suggest(word: string, known: readonly string[]): string {
  const pairs = new Set(pairsOf(word));
  const shareOf = (name: string): number => {
    const others = pairsOf(name);
    return (2 * others.filter((pair) => pairs.has(pair)).length) / (pairs.size + others.length);
  };
  const [nearest] = known.toSorted((a, b) => shareOf(b) - shareOf(a));
  return nearest !== undefined && shareOf(nearest) >= 0.4 ? `; did you mean "${nearest}"?` : "";
}
