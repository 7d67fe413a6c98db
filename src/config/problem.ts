/** One thing that is wrong with a configuration. */
export interface Problem {
  /** 1-based; 0 where there is no text to point at (flags). */
  readonly line: number;
  /** 1-based; 0 where there is no text to point at. */
  readonly column: number;
  /** The key, such as `upstreams[0].urls[1]`; empty for the file as a whole. */
  readonly path: string;
  /** What is wrong and what to do, without secrets. */
  readonly message: string;
  /** The key is right: what is wrong is a file that it names. */
  readonly isOfFile?: true;
}

/** `file:line:column path: message`, leaving out what is not known. */
function formatProblem(file: string, { line, column, path, message }: Problem): string {
  const place = line === 0 ? file : `${file}:${line}:${column}`;
  return [place, path === "" ? "" : `${path}:`, message]
    .filter((part) => part !== "")
    .join(path === "" ? ": " : " ")
    .trim();
}

/** A configuration that cannot be used. Its message lists every problem, one a line. */
export class ConfigError extends Error {
  readonly file: string;
  readonly problems: readonly Problem[];

  constructor(file: string, problems: readonly Problem[]) {
    super(problems.map((problem) => formatProblem(file, problem)).join("\n"));
    this.name = "ConfigError";
    this.file = file;
    this.problems = problems;
  }
}
