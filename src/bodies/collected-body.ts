import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";

/** Why no more of a body is taken. */
export type CollectFault = "too-large" | "too-many-chunks";

/** Each chunk costs some hundred bytes and a microsecond until it is copied, however little is in it. */
const BYTES_OF_A_CHUNK = 16;

/** Small bodies may come in any chunks. One of a known length comes byte by byte, if its sender likes: a packet for each. */
const FREE_CHUNKS = 16_384;

/** Those of a request whose chunks the client makes: Node reads 11,000 of a byte at once, at half a microsecond for each. */
const FREE_CHUNKS_OF_REQUEST = 1_024;

/** What is too large is said to be that, in whatever chunks, as long as they are no more than these. */
const FEW_CHUNKS = 256;

const NOTHING: Buffer = Buffer.alloc(0);

export interface CollectOptions {
  /** Bytes that are said to come, where that is known; what comes counts. */
  readonly announced?: number | undefined;
  /** Chunks of any size that are taken, besides one for each 16 bytes. */
  readonly freeChunks?: number;
  /** Called with the bytes that are held, whenever there are more. */
  readonly onHeld?: ((bytes: number) => void) | undefined;
}

/** How the body of a client's request is collected. */
export function collectOptionsOf({ headers }: Pick<IncomingMessage, "headers">): CollectOptions {
  const length = headers["content-length"];
  return length === undefined ? { freeChunks: FREE_CHUNKS_OF_REQUEST } : { announced: Number(length) };
}

/**
 * The one collector of bodies: what comes in chunks is copied into one block, which grows by doubling within the limit.
 * Refuses what grows larger, and what comes in far too many chunks for its size.
 */
export class CollectedBody {
  private readonly limit: number;
  private readonly announced: number | undefined;
  private readonly freeChunks: number;
  private readonly onHeld: CollectOptions["onHeld"];
  private block = NOTHING;
  /** Bytes of the block that are filled. */
  private held = 0;
  private bytes = 0;
  private chunks = 0;

  /** @param limit bytes that are taken in all */
  constructor(limit: number, { announced, freeChunks = FREE_CHUNKS, onHeld }: CollectOptions = {}) {
    this.limit = limit;
    this.announced = announced;
    this.freeChunks = freeChunks;
    this.onHeld = onHeld;
  }

  /** Bytes since the last {@link take}. */
  get length(): number {
    return this.held;
  }

  /** Returns why the chunk is not taken. A caller that gets a reason ends the source. */
  add(chunk: Buffer): CollectFault | undefined {
    this.bytes += chunk.length;
    this.chunks += 1;
    const paidChunks = this.bytes / BYTES_OF_A_CHUNK;
    if (this.bytes > this.limit) return this.chunks > FEW_CHUNKS + paidChunks ? "too-many-chunks" : "too-large";
    if (this.chunks > this.freeChunks + paidChunks) return "too-many-chunks";
    if (this.held === 0) {
      // As long as it is alone it need not be copied. Its block is full, so that the next one makes another.
      this.block = chunk;
    } else {
      const needed = this.held + chunk.length;
      if (needed > this.block.length) this.grow(needed);
      chunk.copy(this.block, this.held);
    }
    this.held += chunk.length;
    this.onHeld?.(this.held);
    return undefined;
  }

  /** What came since the last call of this. */
  take(): Buffer {
    const { block, held } = this;
    this.block = NOTHING;
    this.held = 0;
    // A body may be kept for long: not with the room that it did not need.
    return held === block.length ? block : copyTo(block, held, held);
  }

  private grow(needed: number): void {
    const expected = this.announced ?? this.limit;
    const size = Math.min(2 * Math.max(needed, 512), Math.max(needed, expected));
    this.block = copyTo(this.block, this.held, size);
  }
}

/** The first `held` bytes in a block of this size, which shares no memory with others. */
function copyTo(block: Buffer, held: number, size: number): Buffer {
  const larger = Buffer.allocUnsafeSlow(size);
  block.copy(larger, 0, 0, held);
  return larger;
}

/** A body that {@link collect} does not take. */
export class NotCollected extends Error {
  readonly fault: CollectFault;

  constructor(fault: CollectFault) {
    super(fault === "too-large" ? "the body is too large" : "the body comes in too many chunks");
    this.name = "NotCollected";
    this.fault = fault;
  }
}

/**
 * All that a stream brings.
 *
 * @throws NotCollected, and what the stream breaks with
 */
export function collect(body: Readable, limit: number, options?: CollectOptions): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const collected = new CollectedBody(limit, options);
    let isRefused = false;
    // It stays when no more is taken, and the rest flows away: kept unread, a chunk takes more than one that is brought.
    const take = (chunk: Buffer): void => {
      if (isRefused) return;
      const fault = collected.add(chunk);
      isRefused = fault !== undefined;
      if (fault !== undefined) reject(new NotCollected(fault));
    };
    body.on("data", take).once("end", () => resolve(collected.take()));
    // Also once it is over: nobody else listens.
    body.on("error", reject);
    body.once("close", () => reject(new Error("the body was cut off")));
  });
}
