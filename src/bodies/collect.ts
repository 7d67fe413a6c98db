import type { Readable } from "node:stream";
import { clientGone, GatewayError } from "../errors.ts";
import type { Size } from "../units.ts";

/** Memory that bodies on their way take, over all of them: requests of clients, answers of registries. */
export class InboundBytes {
  private readonly limit: Size;
  private held = 0;

  constructor(limit: Size) {
    this.limit = limit;
  }

  /** Bytes that are counted now; 0 when nothing is on its way. */
  get bytes(): Size {
    return this.held;
  }

  /** Counts so many more; false where there is no room for them. */
  take(bytes: Size): boolean {
    if (this.held + bytes > this.limit) return false;
    this.held += bytes;
    return true;
  }

  give(bytes: Size): void {
    this.held -= bytes;
  }
}

/** The count of this process: its memory is one. */
export const inboundBytes = new InboundBytes(64 * 2 ** 20);

/** Why no more of a body is taken. */
type CollectFault = "too_large" | "overloaded";

interface CollectOptions {
  /** Bytes that are taken at most. */
  readonly limit: Size;
  /** Bytes that are said to come (`Content-Length`), where that is known. What counts are those that come. */
  readonly announced?: number | undefined;
  readonly inbound?: InboundBytes;
}

const NOTHING: Buffer = Buffer.alloc(0);
const LEAST_BLOCK = 1_024;

/**
 * Collects one body: chunks are copied into one block as they come, which doubles within the limit. A body of one-byte chunks
 * costs what its bytes cost. Whoever makes a collector calls {@link release} in the end, whatever became of the body.
 */
export class Collector {
  private readonly limit: Size;
  private readonly announced: number | undefined;
  private readonly inbound: InboundBytes;
  private block = NOTHING;
  private filled = 0;

  constructor({ limit, announced, inbound = inboundBytes }: CollectOptions) {
    this.limit = limit;
    this.announced = announced;
    this.inbound = inbound;
  }

  /** Takes a chunk, or says why not: then its source is ended, or what still comes is dropped. */
  add(chunk: Buffer): CollectFault | undefined {
    const needed = this.filled + chunk.length;
    if (needed > this.limit) return "too_large";
    if (needed > this.block.length && !this.grow(needed, chunk)) return "overloaded";
    if (this.block !== chunk) chunk.copy(this.block, this.filled);
    this.filled = needed;
    return undefined;
  }

  /** The body so far, in a block of its size: it may be kept for long. */
  body(): Buffer {
    const { block, filled } = this;
    if (filled < block.length) {
      this.block = Buffer.allocUnsafeSlow(filled);
      block.copy(this.block, 0, 0, filled);
      this.inbound.give(block.length - filled);
    }
    return this.block;
  }

  /** Gives the memory back to the count: the body is done with. Calling it again does nothing. */
  release(): void {
    this.inbound.give(this.block.length);
    this.block = NOTHING;
    this.filled = 0;
  }

  private grow(needed: Size, chunk: Buffer): boolean {
    // A body that comes whole, as most do, needs no copy.
    const isWhole = this.filled === 0 && chunk.length === this.announced;
    const size = isWhole ? needed : Math.min(Math.max(2 * needed, LEAST_BLOCK), this.limit);
    if (!this.inbound.take(size - this.block.length)) return false;
    const larger = isWhole ? chunk : Buffer.allocUnsafeSlow(size);
    this.block.copy(larger, 0, 0, this.filled);
    this.block = larger;
    return true;
  }
}

/** A whole body. Its `release` is to be called when nobody needs it any more. */
interface Collected {
  readonly bytes: Buffer;
  release(): void;
}

/** The 503 when bodies on their way take all the memory that they may. */
export function overloaded(): GatewayError {
  const text = "the gateway has too many bodies on their way; try again in 1 s";
  return new GatewayError("overloaded", text, { retryAfter: 1 });
}

/**
 * Reads the whole body of a request. What comes after a refusal is dropped.
 *
 * @param tooLarge makes the error of a body beyond the limit
 * @throws GatewayError `tooLarge`, `overloaded`, or `client_gone` when the stream breaks
 */
export function collect(
  stream: Readable,
  options: CollectOptions & { readonly tooLarge: () => GatewayError },
): Promise<Collected> {
  return new Promise((resolve, reject) => {
    const collector = new Collector(options);
    let isOver = false;
    const end = (error: GatewayError | undefined): void => {
      if (isOver) return;
      isOver = true;
      if (error === undefined) return resolve({ bytes: collector.body(), release: () => collector.release() });
      collector.release();
      reject(error);
    };
    stream.on("data", (chunk: Buffer) => {
      const fault = isOver ? undefined : collector.add(chunk);
      if (fault !== undefined) end(fault === "too_large" ? options.tooLarge() : overloaded());
    });
    stream.once("end", () => end(undefined));
    // Streams that ended close, too, and an error is dear to make.
    const leave = (): void => {
      if (!isOver) end(clientGone());
    };
    stream.on("error", leave);
    stream.once("close", leave);
    if ((options.announced ?? 0) > options.limit) end(options.tooLarge());
  });
}
