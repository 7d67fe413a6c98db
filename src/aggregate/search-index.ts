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

/** Characters of a field that are searched, before they are normalised and after: U+FDFA becomes 18. */
const SEARCHED = 1_000;

/** Characters of a symbol that are compared. */
const COMPARED = 128;

/** Before each field; words are apart by spaces, so a pattern with either in front finds beginnings. */
const FIELD = "\n";

/** An instrument as an index keeps it. */
export interface IndexedInstrument {
  readonly text: string;
  readonly symbol: string;
  readonly isPaused: boolean;
}

/** Makes an instrument ready for an index. */
export function indexed({ id, name, symbol, isPaused }: Searchable): IndexedInstrument {
  const text = [id, name, symbol].map((field) => FIELD + searchText(field, SEARCHED)).join("");
  return { text, symbol: symbolText(symbol), isPaused };
}

/** Characters of one text: joining them, or going through them, takes a millisecond or two. */
const SEGMENT = 512 * 1024;

/** Instruments that follow each other, as one text. */
class Segment {
  /** The place of the first of them. */
  readonly first: number;
  length = 0;
  private readonly starts: number[] = [];
  private pieces: string[] = [];

  constructor(first: number) {
    this.first = first;
  }

  /** The place behind the last of them. */
  get end(): number {
    return this.first + this.starts.length;
  }

  get text(): string {
    this.join();
    return this.pieces[0]!;
  }

  /** Else the first search would, for all segments at once. */
  join(): void {
    if (this.pieces.length > 1) this.pieces = [this.pieces.join("")];
  }

  add(text: string): void {
    this.starts.push(this.length);
    this.pieces.push(text);
    this.length += text.length;
  }

  /** Where the text of the instrument `at` begins. */
  startOf(at: number): number {
    return this.starts[at - this.first]!;
  }

  textOf(at: number): string {
    return this.text.slice(this.startOf(at), this.starts[at + 1 - this.first]);
  }

  /** Where a text that is within one field occurs first from `start` on; -1 when it does not. */
  find(text: string, start: number, scanned: NonNullable<Scan["scanned"]>): number {
    const position = this.text.indexOf(text, start);
    scanned((position === -1 ? this.length : position) - start);
    return position;
  }

  /** The instrument that holds a position of the text; it is `from` or one behind it. */
  holderOf(position: number, from: number): number {
    return lastWhere(from, this.end, (at) => this.startOf(at) <= position);
  }
}

/** The last number from `low` on and below `end` that passes, as all before it do. */
function lastWhere(low: number, end: number, passes: (at: number) => boolean): number {
  let high = end - 1;
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if (passes(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}

/**
 * The instruments of one registry as a few long texts, in their order: an engine's own substring search goes through
 * them faster than any index could be kept up to date.
 */
export class SearchIndex {
  /** Instruments indexed so far. */
  size = 0;
  private readonly segments: Segment[] = [];
  private readonly symbols: string[] = [];
  private readonly paused = new Set<number>();

  add({ text, symbol, isPaused }: IndexedInstrument): void {
    let segment = this.segments.at(-1);
    if (segment === undefined || segment.length >= SEGMENT) {
      segment?.join();
      segment = new Segment(this.size);
      this.segments.push(segment);
    }
    segment.add(text);
    this.symbols.push(symbol);
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

  /** Characters that are gone through to find out how well the instrument `at` matches. */
  lengthOf(at: number): number {
    return this.segmentOf(at).textOf(at).length;
  }

  /** How well the instrument `at` matches; undefined: not at all. */
  rankOf(at: number, query: Query): Rank | undefined {
    return bestRank(this.segmentOf(at).textOf(at), query);
  }

  /**
   * Places of instruments among which are all that match with this rank, in order; undefined wherever a text was gone
   * through, so that who asks can give way.
   */
  *candidates(
    query: Query,
    rank: Rank,
    { from = 0, scanned = () => undefined }: Scan = {},
  ): Generator<number | undefined> {
    if (query.phrase === "") {
      if (rank === 0) for (let at = from; at < this.size; at++) yield at;
      return;
    }
    if (rank === 3 && query.words[0] === query.phrase) return;
    // Most registries know nothing of most queries, and are done with here.
    for (const text of rank === 3 ? query.words : [query.phrase]) {
      let isHeld = false;
      for (const segment of this.segments) {
        isHeld = segment.find(text, 0, scanned) !== -1;
        yield undefined;
        if (isHeld) break;
      }
      if (!isHeld) return;
    }
    const text = patternOf(query, rank);
    for (const segment of this.segments) {
      for (let at = Math.max(from, segment.first); at < segment.end; at += 1) {
        const position = segment.find(text, segment.startOf(at), scanned);
        if (position === -1) break;
        at = segment.holderOf(position, at);
        yield at;
      }
      yield undefined;
    }
  }

  private segmentOf(at: number): Segment {
    return this.segments[lastWhere(0, this.segments.length, (one) => this.segments[one]!.first <= at)]!;
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
 *
 * @param most characters that are looked at, and that come of them
 */
export function searchText(text: string, most = Infinity): string {
  const cut = text.slice(0, most);
  const isPlain = PLAIN.test(cut);
  const lower = (isPlain ? cut : withoutMarks(cut, most)).toLowerCase();
  return lower.replaceAll(isPlain ? PLAIN_SEPARATORS : SEPARATORS, " ").trim();
}

function withoutMarks(text: string, most: number): string {
  // Marks are sorted where text is normalised, which takes as long as the square of how many follow each other.
  return text.replaceAll(MARKS, "").normalize("NFKD").slice(0, most).replaceAll(MARKS, "");
}

/** A symbol as it is compared: without regard to case, and with all its signs, as `€` is not `$` nor `USD+` `USD`. */
export function symbolText(symbol: string): string {
  return symbol.slice(0, COMPARED).normalize("NFC").toLowerCase();
}

// oxlint-disable-next-line no-control-regex -- all of ASCII is what is meant
const PLAIN = /^[\u0000-\u007f]*$/;
const PLAIN_SEPARATORS = /[^a-z0-9]+/g;
const MARKS = /\p{M}+/gu;
const SEPARATORS = /[^\p{L}\p{N}]+/gu;
