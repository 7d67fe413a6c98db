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

const NO_PREFETCH = "is gone: the next page is fetched when a client asks for it; leave the key out";

/** Why a key that there was once is refused, by its path without places in lists and names of tiers. */
const GONE: ReadonlyMap<string, string> = new Map([
  [
    "listen.tls.http2",
    "is gone: listen.tls speaks HTTP/1.1 alone, because below Node, HTTP/2 loses fields with forbidden characters, an admin or a key among them; leave the key out, and put a proxy that speaks HTTP/2 in front (docs/operations/in-front.md)",
  ],
  ["clients.tiers.posts.burst", "is gone: posts has one window, requests in any per; leave the key out"],
  ["cache.prefetch", NO_PREFETCH],
  ["upstreams.cache.prefetch", NO_PREFETCH],
  ["upstreams.agree", "is gone; agreement.admin takes its place"],
  ["upstreams.compare", "is gone; agreement.observe takes its place"],
  [
    "upstreams.publicOnly",
    "is gone: written upstreams are where their urls say, and found ones at public addresses alone, unless discovery.allowPrivate is true; leave the key out",
  ],
  [
    "redis.sentinel.auth",
    "is gone: the login to the master is redis.username and redis.password or redis.passwordFile",
  ],
  [
    "workers",
    "is gone: start more replicas at one Redis; listen.reusePort: true lets them share a port on one machine",
  ],
]);

/** What took the place of the key at this path; undefined where there never was such a key. */
export function whyGone(path: string): string | undefined {
  const key = path
    .replaceAll(/\[\d+\]/g, "")
    .replace(/^clients\.tiers\.[^.]+/, "clients.tiers")
    .replace(/^discovery\.defaults\./, "upstreams.");
  return GONE.get(key);
}

/** Longer words than any key or alias are not worth the arithmetic. */
const MAX_LENGTH = 64;

/** More edits away, a word is another word. */
const MAX_EDITS = 6;

/** How many single-character edits turn `a` into `b` (Levenshtein). */
function countEdits(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const above = row;
    row = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = a[i - 1] === b[j - 1] ? 0 : 1;
      row[j] = Math.min(above[j]! + 1, row[j - 1]! + 1, above[j - 1]! + change);
    }
  }
  return row[b.length]!;
}

/** `; did you mean "…"?` with the known word nearest to `word`, or nothing when none is near. */
export function suggest(word: string, known: readonly string[]): string {
  if (word.length > MAX_LENGTH) return "";
  const most = Math.min(Math.max(1, Math.floor(word.length / 3)), MAX_EDITS);
  let nearest: string | undefined;
  let least = most + 1;
  for (const name of known) {
    // Of a thousand aliases this leaves few to look at.
    if (Math.abs(name.length - word.length) >= least) continue;
    const edits = countEdits(word.toLowerCase(), name.toLowerCase());
    if (edits < least) [nearest, least] = [name, edits];
  }
  return nearest === undefined ? "" : `; did you mean "${nearest}"?`;
}
