import { brotliCompress, constants, gzip, zstdCompress } from "node:zlib";
import { type Fields, fieldValue } from "../fields.ts";
import { governingDirectives, parseDirectives, splitList } from "./rfc/cache-control.ts";
import { weightOf } from "./rfc/request-fields.ts";

/** Smaller bodies gain nothing: one packet either way. */
const MIN_BYTES = 1024;

/** A content coding of answers (RFC 9110 §8.4.1), by its place in {@link CODINGS}. */
export type Coding = 0 | 1 | 2 | 3;

/** The codings of answers. What the client weighs alike is preferred from the last to the first. */
export const CODINGS = ["identity", "gzip", "br", "zstd"] as const;
export const IDENTITY: Coding = 0;
export type Coded = Exclude<Coding, 0>;
const GZIP: Coded = 1;
export const CODED: readonly Coded[] = [GZIP, 2, 3];

type Compress = (body: Buffer, done: (error: Error | null, compressed: Buffer) => void) => void;

/** The usual trade of size for time: a body of 9 kB takes 0.2–0.4 ms of another thread. */
const COMPRESS: Readonly<Record<Coded, Compress>> = {
  1: (body, done) => gzip(body, { level: 6 }, done),
  2: (body, done) => brotliCompress(body, { params: brotliOf(body) }, done),
  3: (body, done) => zstdCompress(body, done),
};

function brotliOf({ length }: Buffer): Record<number, number> {
  return {
    [constants.BROTLI_PARAM_QUALITY]: 5,
    [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
    [constants.BROTLI_PARAM_SIZE_HINT]: length,
  };
}

/** At once, so that a refilled catalogue does not keep every thread of the pool busy. */
const MAX_RUNNING = 2;

/**
 * Of bodies that wait, which memory may have given up meanwhile. Beyond it an entry stays without that coding until it is
 * next received.
 */
const MAX_WAITING_BYTES = 16 * 1024 * 1024;

/**
 * Whether a stored response has, or may get, coded variants. RFC 9111 §5.2.2.6 forbids them under `no-transform`, in the
 * field that is for all as in the one that governs.
 */
export function isCompressible(status: number, fields: Fields, body: Buffer): boolean {
  if (status !== 200 || body.length < MIN_BYTES) return false;
  if (fieldValue(fields, "content-encoding") !== undefined) return false;
  const cacheControl = fieldValue(fields, "cache-control");
  if (cacheControl !== undefined && parseDirectives([cacheControl]).has("no-transform")) return false;
  return !governingDirectives(fields).directives.noTransform;
}

interface Job {
  readonly body: Buffer;
  readonly coding: Coded;
  readonly done: (compressed: Buffer) => void;
}

/** Makes coded variants in the background, a few at a time. */
export class Compressor {
  private running = 0;
  private readonly waiting: Job[] = [];
  private waitingBytes = 0;
  private idle: (() => void)[] = [];

  /** Calls `done` later with the compressed body when that is smaller; else never. */
  compress(body: Buffer, coding: Coded, done: (compressed: Buffer) => void): void {
    if (this.waiting.length > 0 && this.waitingBytes + body.length > MAX_WAITING_BYTES) return;
    this.waiting.push({ body, coding, done });
    this.waitingBytes += body.length;
    this.next();
  }

  /** Resolves when nothing is being compressed. */
  async settled(): Promise<void> {
    if (this.running > 0) await new Promise<void>((resolve) => this.idle.push(resolve));
  }

  private next(): void {
    if (this.running >= MAX_RUNNING) return;
    const job = this.waiting.shift();
    if (job === undefined) {
      if (this.running === 0) for (const resolve of this.idle.splice(0)) resolve();
      return;
    }
    this.running += 1;
    this.waitingBytes -= job.body.length;
    COMPRESS[job.coding](job.body, (error, compressed) => {
      this.running -= 1;
      if (error === null && compressed.length < job.body.length) job.done(compressed);
      this.next();
    });
  }
}

/** Distinct `Accept-Encoding` values whose reading is remembered: browsers and clients send a handful. */
const REMEMBERED = 64;

/**
 * The codings that `Accept-Encoding` prefers to identity, or likes as much (RFC 9110 §12.5.3), the most wanted first.
 */
export function preferredCodings(acceptEncoding: string): readonly Coded[] {
  const weights = new Map<string, number>();
  for (const member of splitList(acceptEncoding.toLowerCase())) {
    const [name = "", ...parameters] = member.split(";").map((part) => part.trim());
    const coding = name === "x-gzip" ? "gzip" : name;
    weights.set(coding, Math.max(weights.get(coding) ?? 0, weightOf(parameters)));
  }
  const others = weights.get("*") ?? 0;
  const least = weights.get("identity") ?? 0;
  const weightAt = (coding: Coding): number => weights.get(CODINGS[coding]) ?? others;
  return CODED.filter((coding) => weightAt(coding) > 0 && weightAt(coding) >= least).toSorted(
    (one, other) => weightAt(other) - weightAt(one) || other - one,
  );
}

/** Whether `Accept-Encoding` prefers gzip to identity, or likes it as much. */
export function prefersGzip(acceptEncoding: string): boolean {
  return preferredCodings(acceptEncoding).includes(GZIP);
}

/** Reads `Accept-Encoding`, remembering the last few distinct values. */
export class CodingChoice {
  private readonly remembered = new Map<string, readonly Coded[]>();

  preferred(acceptEncoding: string): readonly Coded[] {
    const known = this.remembered.get(acceptEncoding);
    if (known !== undefined) return known;
    const preferred = preferredCodings(acceptEncoding);
    if (this.remembered.size >= REMEMBERED) this.remembered.clear();
    this.remembered.set(acceptEncoding, preferred);
    return preferred;
  }
}
