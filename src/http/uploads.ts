import type { Readable } from "node:stream";
import { GatewayError } from "../errors.ts";
import type { RequestContext } from "./context.ts";

/** What the bodies of requests may take in all. A body that comes in one piece with its head is not counted. */
const MAX_BYTES = 64 * 1024 * 1024;

/** So many of the largest body that is accepted may be on their way at once, where that is more. */
const MIN_BODIES = 4;

interface Upload {
  readonly context: RequestContext;
  bytes: number;
  isAnswered: boolean;
}

/** Told a body, or why there is none. */
type BodyRead = (error: Error | null, body?: Buffer) => void;

/**
 * Reads bodies of requests, as bytes: what goes upstream is what came. They take memory until they are complete, and
 * from then on until their request is answered. When they are too much in all, the one that has been on its way longest
 * is given up; one that is complete never is.
 */
export class Uploads {
  private readonly incomplete = new Set<Upload>();
  private readonly refuse: (context: RequestContext) => void;
  private bytes = 0;

  /** @param refuse answers a request whose body is given up, and ends its connection */
  constructor(refuse: (context: RequestContext) => void) {
    this.refuse = refuse;
  }

  /**
   * Reads a body to its end; it has to be called in the turn that brought the request's head, or what comes is lost.
   * `done` is told a GatewayError, 413 or 400, for a body larger than `limits.requestBody`, or of another length than
   * the request said; or what the connection failed with.
   */
  read(context: RequestContext, body: Readable, done: BodyRead): void {
    const limit = context.snapshot.config.limits.requestBody;
    const announced = Number(context.request.headers["content-length"]);
    if (announced > limit) {
      done(tooLarge(limit));
      return;
    }
    const upload = context.request.complete ? undefined : this.begin(context);
    const chunks: Buffer[] = [];
    let length = 0;
    const end = (error: Error | null) => {
      body.off("data", take).off("end", finish).off("error", end);
      done(error, error === null ? Buffer.concat(chunks, length) : undefined);
    };
    const take = (chunk: Buffer) => {
      chunks.push(chunk);
      length += chunk.length;
      if (upload !== undefined) this.count(upload, chunk.length, limit);
      if (length > limit) end(tooLarge(limit));
    };
    const finish = () => {
      if (upload !== undefined) this.incomplete.delete(upload);
      // NaN where the request says no length.
      const isCutOff = announced >= 0 && announced !== length;
      end(isCutOff ? new GatewayError("malformed_body", "the body is not as long as its content-length says") : null);
    };
    body.on("data", take).on("end", finish).on("error", end);
  }

  private begin(context: RequestContext): Upload {
    const upload: Upload = { context, bytes: 0, isAnswered: false };
    this.incomplete.add(upload);
    context.response.once("close", () => {
      this.incomplete.delete(upload);
      this.bytes -= upload.bytes;
      upload.isAnswered = true;
    });
    return upload;
  }

  private count(upload: Upload, bytes: number, limit: number): void {
    if (upload.isAnswered) return;
    upload.bytes += bytes;
    this.bytes += bytes;
    if (this.bytes <= Math.max(MAX_BYTES, MIN_BODIES * limit)) return;
    const [longest] = this.incomplete;
    if (longest === undefined) return;
    this.incomplete.delete(longest);
    this.refuse(longest.context);
  }
}

function tooLarge(limit: number): GatewayError {
  return new GatewayError("body_too_large", `the body is larger than ${limit} bytes`);
}
