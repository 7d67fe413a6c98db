import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { CacheOutcome } from "../cache/types.ts";
import type { Client, LimitState } from "../clients/client.ts";
import { withoutKeys } from "../clients/credential.ts";
import type { Clock, Duration, Instant } from "../clock.ts";
import { clientGone, type GatewayError } from "../errors.ts";
import type { RegistryWait } from "../registry/registry.ts";
import type { Operation } from "../spec/operations.ts";
import type { CallReport } from "../upstream/types.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { traceOf } from "./call-fields.ts";
import type { Snapshot } from "./snapshot.ts";

/** State of the public listener, shared by all requests. */
export interface Listener {
  /** Whether each connection ends with its next answer. */
  isClosing: boolean;
}

/** All that is known of one request, and what became of it; on each `FastifyRequest` as `state`. */
interface RequestState {
  readonly listener: Listener;
  readonly snapshot: Snapshot;
  readonly startedAt: Instant;
  operation: Operation | undefined;
  /** Who sent it; undefined without `clients`, or before it is known. */
  client: Client | undefined;
  limit: LimitState | undefined;
  upstream: Upstream | undefined;
  outcome: CacheOutcome | undefined;
  /** The gateway's own error, where that was the answer. */
  error: GatewayError | undefined;
  /** Report of the last call that the request made. */
  report: CallReport | undefined;
  /** Bytes of the answer's body, as sent. */
  bytes: number;
  /** Aborts the calls of the request when its client goes away; undefined: it has made none. */
  abort: AbortController | undefined;
  /** Give back what the request holds: its place among the client's calls, its body. Undefined once it has ended. */
  releases: (() => void)[] | undefined;
}

/** Parts that handlers need besides the request. */
export interface AnswerParts {
  readonly clock: Clock;
  /** Whether the process has too much to do for anything but hits. */
  readonly isOverloaded: () => boolean;
}

declare module "fastify" {
  interface FastifyRequest {
    state: RequestState;
  }
}

/** The state of a request that has just come. */
export function beginState(listener: Listener, snapshot: Snapshot, clock: Clock): RequestState {
  return {
    listener,
    snapshot,
    startedAt: clock.now(),
    operation: undefined,
    client: undefined,
    limit: undefined,
    upstream: undefined,
    outcome: undefined,
    error: undefined,
    report: undefined,
    bytes: 0,
    abort: undefined,
    releases: [],
  };
}

/** Has `release` called when the request has ended; at once, where it has. */
export function hold(state: RequestState, release: () => void): void {
  if (state.releases === undefined) release();
  else state.releases.push(release);
}

/** Ends what was done for a request whose answer is out, or whose client is gone. */
export function endState(state: RequestState, isAnswered: boolean): void {
  for (const release of state.releases ?? []) release();
  state.releases = undefined;
  if (isAnswered) return;
  state.error = clientGone();
  state.abort?.abort();
}

const SAFE_ID = /^[A-Za-z0-9._:/+=@~-]{1,128}$/;

// One random prefix per process and a counter: unique without asking the kernel for random bytes on every request.
const ID_PREFIX = randomBytes(8).toString("hex");
let ids = 0;

/** The client's `X-Request-Id` where it is at most 128 safe characters and no key of ours, else a new one. */
export function requestIdOf({ headers }: Pick<IncomingMessage, "headers">): string {
  const received = headers["x-request-id"];
  if (typeof received === "string" && SAFE_ID.test(received) && withoutKeys(received) === received) return received;
  ids += 1;
  return `${ID_PREFIX}-${ids.toString(36)}`;
}

/** Seconds, with or without a fraction. */
const SECONDS = /^[0-9]{1,6}(?:\.[0-9]{1,3})?$/;

/** Deadline of an answer: within `longest` from now on, and within the `Request-Timeout` (seconds) of the request. */
export function deadlineOf({ headers, state }: FastifyRequest, longest: Duration, clock: Clock): Instant {
  const asked = headers["request-timeout"];
  const seconds = typeof asked === "string" && SECONDS.test(asked) ? Number(asked) : 0;
  return Math.min(clock.now() + longest, seconds > 0 ? state.startedAt + seconds * 1_000 : Infinity);
}

/** The longest wait for an admin that is to be learned. The call or fetch behind it has `timeout` of its upstream. */
export const MOST_WAIT: Duration = 15_000;

/** The deadline of a request that waits for a fetch; id and trace for the call, where the request starts the fetch. */
export function waitOf(request: FastifyRequest, longest: Duration, clock: Clock): RegistryWait {
  const { state, headers, id } = request;
  return {
    deadline: deadlineOf(request, longest, clock),
    requestId: id,
    trace: traceOf(headers),
    onEnd: (report) => {
      state.report = report;
    },
  };
}

/** Aborts when the client goes away before its answer is complete. */
export function signalOf({ state }: FastifyRequest, { raw }: FastifyReply): AbortSignal {
  state.abort ??= new AbortController();
  if (raw.destroyed) state.abort.abort();
  return state.abort.signal;
}
