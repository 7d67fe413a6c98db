import { Readable } from "node:stream";
import { clientGone, GatewayError } from "../errors.ts";
import { formatSize } from "../units.ts";
import { CollectedBody, type CollectFault, type CollectOptions } from "./collected-body.ts";

/** Bytes ahead of a node that reads none: then it is not the client that is waited for. */
const AHEAD = 64 * 1024;

export interface UploadOptions extends CollectOptions {
  /** Bytes of the largest body. */
  readonly most: number;
}

/**
 * The request body of a streamed call on its way from the client to a node. All of it is taken as it comes, since Node
 * keeps what a client sends by the chunk, at some hundred bytes for each; the node gets it in larger pieces. The client's
 * stream is not handed to undici itself, which would destroy it, and the way back to the client too.
 *
 * Breaks with a GatewayError 413 when it grows larger than `most` bytes, 400 for far too many chunks, with
 * {@link clientGone} when the client goes.
 */
export class Upload extends Readable {
  /** All of it is here. */
  hasArrived = false;
  /** Called when it is. */
  onArrived: (() => void) | undefined;
  private readonly options: UploadOptions;
  private readonly collected: CollectedBody;
  private onReady: (() => void) | undefined;
  private isWanted = false;
  private isFlushing = false;

  constructor(body: Readable, options: UploadOptions) {
    super({ highWaterMark: AHEAD });
    this.options = options;
    this.collected = new CollectedBody(options.most, options);
    // A reader learns of errors too; when nobody reads yet, they must not end the process.
    this.on("error", () => undefined);
    body.on("data", this.receive).once("end", () => this.arrive());
    body.on("error", () => this.destroy(clientGone()));
  }

  /** The client has more to send, and what it did send was taken: nobody waits but for the client. */
  get isBehind(): boolean {
    return !this.hasArrived && this.readableLength + this.collected.length < AHEAD;
  }

  /** Resolves when all of it is here, or 64 KiB that nobody reads yet. Rejects when it breaks. */
  whenReady(): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.errored !== null) return reject(this.errored);
      if (!this.isBehind) return resolve();
      this.onReady = resolve;
      this.once("error", reject);
    });
  }

  override _read(): void {
    this.isWanted = true;
    this.flush();
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    this.options.onHeld?.(0);
    callback(error);
  }

  private readonly receive = (chunk: Buffer): void => {
    // The rest flows away: Node keeps each chunk that nobody listens for, which costs more than to bring it.
    if (this.destroyed) return;
    const fault = this.collected.add(chunk);
    if (fault !== undefined) {
      this.destroy(refusedBody(fault, this.options.most));
      return;
    }
    // What comes in one turn goes on in one piece.
    if (this.isWanted && !this.isFlushing) {
      this.isFlushing = true;
      queueMicrotask(() => this.flush());
    }
    if (!this.isBehind) this.onReady?.();
  };

  private arrive(): void {
    if (this.destroyed) return;
    this.hasArrived = true;
    this.onArrived?.();
    this.onReady?.();
    this.flush();
  }

  private flush(): void {
    this.isFlushing = false;
    const { length } = this.collected;
    if (!this.isWanted || this.destroyed) return;
    if (length > 0) {
      this.isWanted = false;
      this.options.onHeld?.(0);
      this.push(this.collected.take());
    }
    if (this.hasArrived && this.collected.length === 0) this.push(null);
  }
}

/** A body that did not arrive in time. */
export function uploadTimeout(): GatewayError {
  return new GatewayError("request_timeout", "the request took too long to arrive");
}

/** A body that is not taken: 413 for one of more than `most` bytes, 400 for one in too many chunks. */
export function refusedBody(fault: CollectFault, most: number): GatewayError {
  return fault === "too-large"
    ? new GatewayError("body_too_large", `the body is larger than the ${formatSize(most)} that are taken`)
    : new GatewayError("malformed_body", "the body comes in far too many chunks for its size: send larger ones");
}
