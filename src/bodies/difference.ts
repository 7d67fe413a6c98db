import { isUtf8 } from "node:buffer";
import { elementSpans, members, type Span } from "../json.ts";
import type { CachedOperation } from "../spec/endpoints.ts";

/** `supply`: the same instrument has another supply as of the same moment. `data`: anything else. */
export const DIFFERENCE_KINDS = ["data", "supply"] as const;
export type DifferenceKind = (typeof DIFFERENCE_KINDS)[number];

/** One place at which two answers to the same question differ. */
export interface Difference {
  /** Of a page: the id of the instrument that it is in. */
  readonly instrument: string | undefined;
  /** From the instrument, or from the body, down: `$['meta']['owner']` (RFC 9535 §2.7). */
  readonly path: string;
  readonly kind: DifferenceKind;
  /** The JSON text of both, cut where it is long; undefined: it is not there. */
  readonly values: readonly [string | undefined, string | undefined];
}

/** More are not looked for. */
const MOST_DIFFERENCES = 32;
/** What is nested deeper counts as one value. */
const MAX_DEPTH = 32;
const LONGEST_VALUE = 100;
const LONGEST_KEY = 64;
const LONGEST_ID = 200;

/**
 * Where two answers differ as data: members in another order are the same, numbers are not unless their text is, for a
 * big decimal must not be equal by rounding. Instruments are compared by id, as far as both pages have them, and page tokens
 * not at all: listings change between two questions. A supply is compared where both say that it is of the same moment.
 *
 * @returns `incomparable` where one of them is not what such an answer is
 */
export function findDifferences(operation: CachedOperation, one: Buffer, other: Buffer): Difference[] | "incomparable" {
  const [first, second] = [textOf(one), textOf(other)] as const;
  if (first === undefined || second === undefined) return "incomparable";
  const roots = [members(first, 0), members(second, 0)] as const;
  if (roots[0] === undefined || roots[1] === undefined) return "incomparable";
  const pair: MemberPair = [roots[0], roots[1]];
  const comparison = new Comparison(first, second);
  if (operation === "instrument") comparison.compareInstruments(pair, undefined);
  else if (operation === "info") comparison.compareMembers("$", pair, 0, NONE);
  else if (!comparison.comparePages(pair)) return "incomparable";
  return comparison.differences;
}

type Members = ReadonlyMap<string, Span>;
type MemberPair = readonly [Members, Members];
type SpanPair = readonly [Span | undefined, Span | undefined];

const NONE: ReadonlySet<string> = new Set();
/** Which instruments a page has, and where it goes on, changes with the listing. */
const PAGE: ReadonlySet<string> = new Set(["instruments", "nextPageToken"]);
const SUPPLY: ReadonlySet<string> = new Set(["totalSupply", "totalSupplyAsOf"]);

class Comparison {
  readonly differences: Difference[] = [];
  private readonly texts: readonly [string, string];
  /** The one that is compared. */
  private instrument: string | undefined;

  constructor(one: string, other: string) {
    this.texts = [one, other];
  }

  /** False where one of them has no list of instruments. */
  comparePages(pair: MemberPair): boolean {
    const [one, other] = [this.listed(pair, 0), this.listed(pair, 1)];
    if (one === undefined || other === undefined) return false;
    this.compareMembers("$", pair, 0, PAGE);
    for (const [id, span] of one) {
      const counterpart = other.get(id);
      if (counterpart === undefined || this.isSameText([span, counterpart])) continue;
      const both = [this.membersAt(0, span), this.membersAt(1, counterpart)] as const;
      if (both[0] !== undefined && both[1] !== undefined) this.compareInstruments([both[0], both[1]], id);
      if (this.isFull) break;
    }
    return true;
  }

  /** Of one instrument; `id` where it is one of a page's. */
  compareInstruments(pair: MemberPair, id: string | undefined): void {
    this.instrument = id?.slice(0, LONGEST_ID);
    this.compareMembers("$", pair, 0, SUPPLY);
    const asOf = this.at(pair, "totalSupplyAsOf");
    // Without a time, or with another one, the supply may have moved in between.
    const isSameMoment = asOf[0] !== undefined && this.texts[0][asOf[0].start] === '"' && this.isSame(asOf);
    const supply = this.at(pair, "totalSupply");
    if (isSameMoment && !this.isSame(supply)) this.note("$['totalSupply']", supply, "supply");
    this.instrument = undefined;
  }

  compareMembers(path: string, pair: MemberPair, depth: number, except: ReadonlySet<string>): void {
    for (const key of pair[0].keys()) {
      if (!except.has(key)) this.compareValues(child(path, key), this.at(pair, key), depth);
      if (this.isFull) return;
    }
    for (const key of pair[1].keys()) {
      if (this.isFull) return;
      if (!pair[0].has(key) && !except.has(key)) this.note(child(path, key), this.at(pair, key), "data");
    }
  }

  private compareValues(path: string, spans: SpanPair, depth: number): void {
    const [one, other] = spans;
    if (this.isSame(spans)) return;
    if (one === undefined || other === undefined || depth >= MAX_DEPTH) return this.note(path, spans, "data");
    const both = [this.membersAt(0, one), this.membersAt(1, other)] as const;
    if (both[0] !== undefined && both[1] !== undefined) {
      return this.compareMembers(path, [both[0], both[1]], depth + 1, NONE);
    }
    const isList = this.texts[0][one.start] === "[" && this.texts[1][other.start] === "[";
    const lists = isList ? [this.elementsAt(0, one), this.elementsAt(1, other)] : [];
    if (!isList || lists[0]!.length !== lists[1]!.length) return this.note(path, spans, "data");
    for (const [at, span] of lists[0]!.entries()) {
      this.compareValues(`${path}[${at}]`, [span, lists[1]![at]], depth + 1);
      if (this.isFull) return;
    }
  }

  /** The instruments of a page by id; of several with the same one, the first. */
  private listed(pair: MemberPair, side: 0 | 1): ReadonlyMap<string, Span> | undefined {
    const list = pair[side].get("instruments");
    if (list === undefined || this.texts[side][list.start] !== "[") return undefined;
    const byId = new Map<string, Span>();
    for (const span of this.elementsAt(side, list)) {
      const id = this.membersAt(side, span)?.get("id");
      if (id === undefined || this.texts[side][id.start] !== '"') continue;
      const text = JSON.parse(this.texts[side].slice(id.start, id.end)) as string;
      if (!byId.has(text)) byId.set(text, span);
    }
    return byId;
  }

  private get isFull(): boolean {
    return this.differences.length >= MOST_DIFFERENCES;
  }

  private at(pair: MemberPair, key: string): SpanPair {
    return [pair[0].get(key), pair[1].get(key)];
  }

  private membersAt(side: 0 | 1, span: Span): Members | undefined {
    return members(this.texts[side], span.start);
  }

  private elementsAt(side: 0 | 1, span: Span): readonly Span[] {
    return elementSpans(this.texts[side], span.start);
  }

  private isSameText([one, other]: SpanPair): boolean {
    if (one === undefined || other === undefined) return one === other;
    if (one.end - one.start !== other.end - other.start) return false;
    return this.texts[0].slice(one.start, one.end) === this.texts[1].slice(other.start, other.end);
  }

  /** Whether both are written alike, or are strings that mean the same. */
  private isSame(spans: SpanPair): boolean {
    if (this.isSameText(spans)) return true;
    const [one, other] = spans;
    if (one === undefined || other === undefined) return false;
    const [first, second] = this.texts;
    if (first[one.start] !== '"' || second[other.start] !== '"') return false;
    return JSON.parse(first.slice(one.start, one.end)) === JSON.parse(second.slice(other.start, other.end));
  }

  private note(path: string, spans: SpanPair, kind: DifferenceKind): void {
    const valueOf = (side: 0 | 1) => {
      const span = spans[side];
      return span && this.texts[side].slice(span.start, Math.min(span.end, span.start + LONGEST_VALUE));
    };
    this.differences.push({ instrument: this.instrument, path, kind, values: [valueOf(0), valueOf(1)] });
  }
}

function textOf(body: Buffer): string | undefined {
  if (!isUtf8(body)) return undefined;
  const text = body.toString("utf8");
  try {
    // Positions are read only out of what is JSON.
    JSON.parse(text);
    return text;
  } catch {
    return undefined;
  }
}

function child(path: string, key: string): string {
  const name = JSON.stringify(key.slice(0, LONGEST_KEY))
    .slice(1, -1)
    .replaceAll('\\"', '"')
    .replaceAll("'", String.raw`\'`);
  return `${path}['${name}']`;
}
