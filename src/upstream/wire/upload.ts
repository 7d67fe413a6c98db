import { Transform } from "node:stream";
import type { Readable, TransformCallback } from "node:stream";
import { clientGone, GatewayError } from "../../errors.ts";

/** Bytes that are taken in before a node reads them. */
const BUFFERED = 64 * 1024;

/**
 * The request body of a streamed call on its way from the client to a node. It begins to arrive at once, up to 64 KiB
 * ahead of who reads it. The client's stream is not handed to undici itself, which would destroy it, and the way back
 * to the client too.
 *
 * Breaks with a GatewayError 413 when it grows larger than `most` bytes, with {@link clientGone} when the client goes.
 */
export class Upload extends Transform {
  /** All of it is here. */
  hasArrived = false;
  private readonly most: number;
  private readonly onArrived: () => void;
  private onReady: (() => void) | undefined;
  private size = 0;

  constructor(body: Readable, { most, onArrived }: { most: number; onArrived: () => void }) {
    super({ readableHighWaterMark: BUFFERED, writableHighWaterMark: 16 * 1024 });
    this.most = most;
    this.onArrived = onArrived;
    body.on("error", () => this.destroy(clientGone()));
    body.pipe(this);
  }

  /** The client has more to send, and what it did send was taken: nobody waits but for the client. */
  get isBehind(): boolean {
    return !this.hasArrived && this.readableLength < BUFFERED;
  }

  /** Resolves when all of it is here, or as much as is taken in before somebody reads. Rejects when it breaks. */
  whenReady(): Promise<void> {
    return new Promise((resolve, reject) => {
      if (!this.isBehind) return resolve();
      this.onReady = resolve;
      this.once("error", reject);
    });
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, callback: TransformCallback): void {
    this.size += chunk.length;
    if (this.size > this.most) {
      callback(tooLargeUpload(this.most));
      return;
    }
    callback(null, chunk);
    if (!this.isBehind) this.onReady?.();
  }

  override _flush(callback: TransformCallback): void {
    this.hasArrived = true;
    this.onArrived();
    this.onReady?.();
    callback();
  }
}

/** A body that did not arrive in time. */
export function uploadTimeout(): GatewayError {
  return new GatewayError("request_timeout", "the request took too long to arrive");
}

/** A body of more than `most` bytes. */
export function tooLargeUpload(most: number): GatewayError {
  return new GatewayError("body_too_large", `the request body is larger than ${most} bytes`);
}
