import type { Readable } from "node:stream";
import type { AnswerContent } from "../bodies/answer.ts";
import type { Upload } from "../bodies/upload.ts";
import type { AbortSignalLike, Duration, Instant } from "../clock.ts";
import type { Fields } from "../fields.ts";
import type { Priority } from "../limits/wait-queue.ts";
import type { Operation } from "../spec/operations.ts";
import type { CallTrace } from "./observer.ts";
import type { Exchange } from "./wire/in-step.ts";

/** Has a call made once, on one node, because others are asked the same. */
export interface Poll {
  /** Places of the nodes that were asked; the one that is asked joins them. */
  readonly asked: Set<number>;
  /** The only one that may be asked. */
  readonly only: number | undefined;
  /** The one that is asked, when that is decided. */
  node: number | undefined;
}

/** One request to an upstream, whichever of its nodes answers it. */
export interface UpstreamCall {
  readonly operation: Operation;
  readonly method: "GET" | "POST";
  /** Percent-encoded, with its query. One that begins with `/registry/` goes behind the node's base path, any other to its origin. */
  readonly path: string;
  /** The decoded id of the one instrument it asks for. */
  readonly instrument?: string | undefined;
  /** What to send; `accept-encoding`, credentials and framing are added here. */
  readonly fields: Fields;
  readonly body?: Buffer | undefined;
  readonly priority: Priority;
  /** It waits for a call of `rateLimit` no longer than this, nor than `rateLimit.maxWait`. */
  readonly maxWait?: Duration | undefined;
  /** No work for this call goes on after it; the upstream's own `timeout` may end it sooner. */
  readonly deadline: Instant;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal?: AbortSignalLike | undefined;
  /** Names a pagination: its calls stay on the node that began it while that node is well. */
  readonly pagination?: string | undefined;
  /** The call is one of several for one answer: it is not tried again, nor hedged. */
  readonly poll?: Poll | undefined;
  /** Follows it; undefined where requests are not traced. */
  readonly trace?: CallTrace | undefined;
}

/** A complete, readable answer. */
export interface UpstreamAnswer {
  readonly status: number;
  /** End-to-end fields that may reach a client, without content coding and length. */
  readonly fields: Fields;
  /** The upstream's bytes, decoded; for an error that was not of the registry's form, our own JSON error body. */
  readonly body: Buffer;
  /** What the body says; undefined with 204 and 304, and where the body is our own. */
  readonly content: AnswerContent | undefined;
  readonly requestedAt: Instant;
  readonly receivedAt: Instant;
  /** What was asked over its connection; undefined where no answer can be another's. */
  readonly origin?: Exchange | undefined;
  /** Which node answered: its place in the configured list, never its address. */
  readonly node: number;
}

/** A call whose bodies are streamed: never tried twice, hedged or cached. */
export interface StreamedCall extends Omit<UpstreamCall, "body"> {
  readonly body?: Upload | Buffer | undefined;
  /** When a `body` that is a stream must be here, if not at `deadline`, whose time counts from when it is. */
  readonly bodyDeadline?: Instant | undefined;
}

export interface StreamedAnswer {
  readonly status: number;
  /** As {@link UpstreamAnswer.fields}. */
  readonly fields: Fields;
  /** Decoded; destroyed with an error when the answer breaks off, grows too large or passes the deadline. */
  readonly body: Readable;
  readonly requestedAt: Instant;
  /** Cookies came with it, which end at the gateway: it is for the client that asked, whatever it says of caches. */
  readonly setsCookie: boolean;
  /** As {@link UpstreamAnswer.origin}. */
  readonly origin: Exchange | undefined;
  /** Whether a body that has ended may not be all of it: nothing has said how long it is, or that it ends. */
  readonly mayBeCut: () => boolean;
}

/** A streamed answer that is complete. */
export interface CollectedAnswer extends Omit<StreamedAnswer, "body" | "mayBeCut"> {
  /** The upstream's bytes, decoded. */
  readonly body: Buffer;
  readonly receivedAt: Instant;
  /**
   * It has the form of an endpoint's answer, or could not be read, so that over its connection it could be another request's;
   * or it may not be all of the answer.
   */
  readonly isDoubtful: boolean;
}
