/** What an instrument is found by. */
export interface Searchable {
  readonly id: string;
  readonly name: string;
  readonly symbol: string;
  /** It says so (metadata 1.2); one that says nothing is not. */
  readonly isPaused: boolean;
}

/**
 * How well an instrument matches, best first: a field begins with the query, a word does, it is within a word, all its
 * words are somewhere.
 */
export const RANKS = [0, 1, 2, 3] as const;
export type Rank = (typeof RANKS)[number];

/** A query made ready for many indexes. */
export interface Query {
  /** Searched text; empty: everything matches. */
  readonly phrase: string;
  /** Each once. */
  readonly words: readonly string[];
}

export function readQuery(text: string): Query {
  const phrase = searchText(text);
  return { phrase, words: phrase === "" ? [] : [...new Set(phrase.split(" "))] };
}

/** How an index is gone through. */
export interface Scan {
  /** The place to begin at. */
  readonly from?: number;
  /** Is told of how many characters were gone through, each time. */
  readonly scanned?: (characters: number) => void;
}

/** Characters of an id that are searched; of names and symbols no more are given. */
const SEARCHED = 1_000;

/** Before each field; words are apart by spaces, so a pattern with either in front finds beginnings. */
const FIELD = "\n";

/**
 * The instruments of one registry as one long text, in their order: an engine's own substring search goes through it
 * faster than any index could be kept up to date.
 */
export class SearchIndex {
  /** Instruments indexed so far. */
  size = 0;
  private text = "";
  private readonly starts: number[] = [];
  private readonly symbols: string[] = [];
  private readonly paused = new Set<number>();

  add({ id, name, symbol, isPaused }: Searchable): void {
    this.starts.push(this.text.length);
    this.symbols.push(symbolText(symbol));
    this.text += `${FIELD}${searchText(id.slice(0, SEARCHED))}${FIELD}${searchText(name)}${FIELD}${searchText(symbol)}`;
    if (isPaused) this.paused.add(this.size);
    this.size++;
  }

  /** Whether the symbol of the instrument `at` is `symbol`, a {@link symbolText}. */
  hasSymbol(at: number, symbol: string): boolean {
    return this.symbols[at] === symbol;
  }

  /** Whether the instrument `at` is paused. */
  isPaused(at: number): boolean {
    return this.paused.has(at);
  }

  /** How well the instrument `at` matches; undefined: not at all. */
  rankOf(at: number, query: Query): Rank | undefined {
    return bestRank(this.text.slice(this.starts[at], this.starts[at + 1]), query);
  }

  /** Places of instruments among which are all that match with this rank, in order. */
  *candidates(query: Query, rank: Rank, { from = 0, scanned }: Scan = {}): Generator<number> {
    if (query.phrase === "") {
      if (rank === 0) for (let at = from; at < this.size; at++) yield at;
      return;
    }
    if (rank === 3 && query.words[0] === query.phrase) return;
    // Most registries know nothing of most queries, and are done with here.
    const needed = rank === 3 ? query.words : [query.phrase];
    if (!needed.every((text) => this.find(text, 0, scanned) !== -1)) return;
    const pattern = patternOf(query, rank);
    for (let at = from; at < this.size; at += 1) {
      const position = this.find(pattern, this.starts[at]!, scanned);
      if (position === -1) return;
      at = this.holderOf(position, at);
      yield at;
    }
  }

  /** Where `pattern` occurs first from `start` on; -1 when it does not. */
  private find(pattern: string, start: number, scanned: Scan["scanned"]): number {
    const position = this.text.indexOf(pattern, start);
    scanned?.((position === -1 ? this.text.length : position) - start);
    return position;
  }

  private holderOf(position: number, from: number): number {
    let low = from;
    let high = this.size - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (this.starts[middle]! <= position) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

function bestRank(text: string, query: Query): Rank | undefined {
  return RANKS.find((rank) =>
    rank === 3 ? query.words.every((word) => text.includes(word)) : text.includes(patternOf(query, rank)),
  );
}

/** What has to occur in an instrument's text for a rank; for the last, its longest word: the rarest as a rule. */
function patternOf({ phrase, words }: Query, rank: Rank): string {
  if (rank === 0) return FIELD + phrase;
  if (rank === 1) return ` ${phrase}`;
  if (rank === 2) return phrase;
  return words.reduce((longest, word) => (word.length > longest.length ? word : longest), "");
}

/**
 * Text as it is searched: lower case, without accents, in compatibility forms (`ﬁ` is `fi`), words apart by one space.
 * What is no letter and no digit separates words.
 */
export function searchText(text: string): string {
  const isPlain = PLAIN.test(text);
  const lower = (isPlain ? text : text.normalize("NFKD").replaceAll(MARKS, "")).toLowerCase();
  return lower.replaceAll(isPlain ? PLAIN_SEPARATORS : SEPARATORS, " ").trim();
}

/** A symbol as it is compared: without regard to case, and with all its signs, as `€` is not `$` nor `USD+` `USD`. */
export function symbolText(symbol: string): string {
  return symbol.normalize("NFC").toLowerCase();
}

// oxlint-disable-next-line no-control-regex -- all of ASCII is what is meant
const PLAIN = /^[\u0000-\u007f]*$/;
const PLAIN_SEPARATORS = /[^a-z0-9]+/g;
const MARKS = /\p{M}+/gu;
const SEPARATORS = /[^\p{L}\p{N}]+/gu;
