import { gzip, type ZlibOptions } from "node:zlib";
import { type Fields, fieldValue } from "../fields.ts";
import { parseDirectives, splitList } from "./rfc/cache-control.ts";
import { weightOf } from "./rfc/request-fields.ts";

/** Smaller bodies gain nothing: one packet either way. */
const MIN_GZIP_BYTES = 1024;

/** The usual trade of size for time. */
const OPTIONS: ZlibOptions = { level: 6 };

/** At once, so that a refilled catalogue does not keep every thread of the pool busy. */
const MAX_RUNNING = 2;

/**
 * Of bodies that wait, which memory may have given up meanwhile. Beyond it an entry stays without gzip until it is next
 * received.
 */
const MAX_WAITING_BYTES = 16 * 1024 * 1024;

/** Whether a stored response has, or may get, a gzip variant. RFC 9111 §5.2.2.6 forbids it under `no-transform`. */
export function isCompressible(status: number, fields: Fields, body: Buffer): boolean {
  if (status !== 200 || body.length < MIN_GZIP_BYTES) return false;
  if (fieldValue(fields, "content-encoding") !== undefined) return false;
  const cacheControl = fieldValue(fields, "cache-control");
  return cacheControl === undefined || !parseDirectives([cacheControl]).has("no-transform");
}

interface Job {
  readonly body: Buffer;
  readonly done: (compressed: Buffer) => void;
}

/** Makes gzip variants in the background, a few at a time. */
export class Compressor {
  private running = 0;
  private readonly waiting: Job[] = [];
  private waitingBytes = 0;
  private idle: (() => void)[] = [];

  /** Calls `done` later with the compressed body when that is smaller; else never. */
  compress(body: Buffer, done: (compressed: Buffer) => void): void {
    if (this.waiting.length > 0 && this.waitingBytes + body.length > MAX_WAITING_BYTES) return;
    this.waiting.push({ body, done });
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
    gzip(job.body, OPTIONS, (error, compressed) => {
      this.running -= 1;
      if (error === null && compressed.length < job.body.length) job.done(compressed);
      this.next();
    });
  }
}

/** The codings an answer can be sent in. */

/** Distinct `Accept-Encoding` values whose reading is remembered: browsers and clients send a handful. */
const REMEMBERED = 64;

/** Whether `Accept-Encoding` prefers gzip to identity, or at least as much (RFC 9110 §12.5.3). */
export function prefersGzip(acceptEncoding: string): boolean {
  let gzip: number | undefined;
  let identity: number | undefined;
  let others = 0;
  for (const member of splitList(acceptEncoding.toLowerCase())) {
    const [coding, ...parameters] = member.split(";").map((part) => part.trim());
    const weight = weightOf(parameters);
    if (coding === "gzip" || coding === "x-gzip") gzip = Math.max(gzip ?? 0, weight);
    else if (coding === "identity") identity = weight;
    else if (coding === "*") others = weight;
  }
  const weight = gzip ?? others;
  return weight > 0 && weight >= (identity ?? 0);
}

/** Reads `Accept-Encoding`, remembering the last few distinct values. */
export class CodingChoice {
  private readonly remembered = new Map<string, boolean>();

  acceptsGzip(acceptEncoding: string): boolean {
    const known = this.remembered.get(acceptEncoding);
    if (known !== undefined) return known;
    const gzip = prefersGzip(acceptEncoding);
    if (this.remembered.size >= REMEMBERED) this.remembered.clear();
    this.remembered.set(acceptEncoding, gzip);
    return gzip;
  }
}
