import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Aggregation } from "../aggregate/aggregation.ts";
import type { BodyReader } from "../bodies/body-reader.ts";
import type { HttpCache } from "../cache/http-cache.ts";
import type { CacheStatus } from "../cache/rfc/reuse.ts";
import { Abort, type AbortSignalLike, type Clock, type Duration, type Instant } from "../clock.ts";
import type { ClientAddresses } from "../clients/client-address.ts";
import type { Client, LimitState } from "../clients/client.ts";
import type { Clients } from "../clients/clients.ts";
import type { Config } from "../config/schema.ts";
import { GatewayError, toGatewayError } from "../errors.ts";
import type { RequestObservers } from "../observe/request-record.ts";
import type { RequestTrace } from "../observe/tracing/tracing.ts";
import type { BackgroundReader } from "../registry/background-reader.ts";
import type { Contexts } from "../registry/contexts.ts";
import type { RegistryMetadata } from "../registry/registry-metadata.ts";
import type { Operation } from "../spec/operations.ts";
import { formatSize } from "../units.ts";
import type { Upstream } from "../upstream/upstream.ts";
import type { Upstreams } from "../upstream/upstreams.ts";
import type { ChangeStreams } from "./changes.ts";
import type { Admission } from "./gate.ts";
import type { HitMemo, HitTarget } from "./hit.ts";
import type { InFlight } from "./in-flight.ts";
import { type Cors, requestIdOf } from "./send.ts";
import { type Addressing, parseTarget, type Target } from "./target.ts";

/**
 * What a request works with: immutable, and taken once, when the request begins. A reload swaps it for the requests to
 * come.
 */
export interface Snapshot {
  readonly config: Config;
  readonly upstreams: Upstreams;
  /** The cached endpoints of each upstream. */
  readonly registries: ReadonlyMap<Upstream, RegistryMetadata>;
  readonly cors: Cors;
  /** Where requests come from. */
  readonly addresses: ClientAddresses;
  readonly hits: HitMemo;
  readonly addressing: Addressing;
  /** Undefined where everybody may call, without limits. */
  readonly clients: Clients | undefined;
}

/** What the process has for all requests. */
export interface Services {
  readonly clock: Clock;
  readonly random: () => number;
  readonly version: string;
  readonly cache: HttpCache;
  readonly contexts: Contexts;
  readonly bodies: BodyReader;
  readonly aggregation: Aggregation;
  /** Reads listings of registries in the background. */
  readonly backgroundReader: BackgroundReader;
  /** The clients that follow changes of the catalogue. */
  readonly changeStreams: ChangeStreams;
  readonly observers: RequestObservers;
  readonly inFlight: InFlight;
  /** The latest is for a request that begins now. */
  readonly snapshots: { readonly latest: Snapshot };
}

/** How a request was answered: decided once, and read by the header, the log line and the metric alike. */
type Outcome = "hit" | "stale" | "revalidated" | "miss" | "bypass" | "refused";

/** What is known of one client's request, and what became of it. */
export interface RequestContext {
  readonly services: Services;
  readonly snapshot: Snapshot;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly id: string;
  readonly startedAt: Instant;
  /** What the URL stood for when it was last answered through the cache. */
  readonly remembered: HitTarget | undefined;
  /** What the URL addresses, or why it addresses nothing. */
  readonly target: Target | GatewayError;
  /** The endpoint, for labels. */
  readonly operation: Operation | "none";
  /** Undefined where requests are not traced. */
  readonly trace: RequestTrace | undefined;
  /** Who sent it; undefined where that plays no part, or is not known. */
  client: Client | undefined;
  /** What its answer says of the client's limits; undefined where it makes no difference who asks. */
  limitState: LimitState | undefined;
  upstream: Upstream | undefined;
  outcome: Outcome;
  /** The gateway's own error, when that was the answer. */
  error: GatewayError | undefined;
  /** Bytes of the answer's body. */
  bytes: number;
  /** Age of an answer that came through the cache, in seconds. */
  age: number | undefined;
  /** As {@link CacheAnswer.windowUsed}. */
  windowUsed: number | undefined;
  /** How it went on to the upstream when the cache had no answer. */
  forwarded: CacheStatus | undefined;
  /** See {@link clientSignal}. */
  signal: Abort | undefined;
}

// On the request itself: a WeakMap of all that run costs more to keep, and to collect.
const CONTEXT = Symbol("request context");

type KnownRequest = IncomingMessage & { [CONTEXT]?: RequestContext };

/** Makes the context of a request. Its URL is read here, and nowhere else. */
export function beginContext(
  services: Services,
  request: IncomingMessage,
  response: ServerResponse,
  admission?: Admission,
): RequestContext {
  const snapshot = services.snapshots.latest;
  const remembered = request.method === "POST" ? undefined : snapshot.hits.find(request.url!);
  const target = remembered?.target ?? targetOf(request.url!, snapshot);
  const context: RequestContext = {
    services,
    snapshot,
    request,
    response,
    id: requestIdOf(request.headers["x-request-id"]),
    startedAt: services.clock.now(),
    remembered,
    target,
    operation: operationOf(target),
    trace: services.observers.tracing?.begin(request.headers),
    client: admission?.client,
    limitState: admission?.limitState,
    upstream: undefined,
    outcome: "bypass",
    error: undefined,
    bytes: 0,
    age: undefined,
    windowUsed: undefined,
    forwarded: undefined,
    signal: undefined,
  };
  (request as KnownRequest)[CONTEXT] = context;
  return context;
}

/** The context of a request that has begun. */
export function contextOf(request: IncomingMessage): RequestContext {
  return (request as KnownRequest)[CONTEXT]!;
}

/** Aborts when the client goes away before its answer was complete, or is refused, so that its upstream call ends too. */
export function clientSignal(context: RequestContext): AbortSignalLike {
  context.signal ??= new Abort();
  if (context.response.destroyed) clientClosed(context);
  return context.signal;
}

/** The answer is out, or its client has gone. */
export function clientClosed({ response, signal }: RequestContext): void {
  if (!response.writableFinished) signal?.abort();
}

/** Ends what is done for a request that is answered: whatever it waits for, or would wait for from now on. */
export function giveUp(context: RequestContext): void {
  context.signal ??= new Abort();
  context.signal.abort();
}

function targetOf(url: string, { config, addressing }: Snapshot): Target | GatewayError {
  const { uri } = config.limits;
  if (url.length > uri) return new GatewayError("uri_too_long", `the URL is longer than ${formatSize(uri)}`);
  try {
    return parseTarget(url, addressing);
  } catch (error) {
    return toGatewayError(error);
  }
}

function operationOf(target: Target | GatewayError): Operation | "none" {
  if (target instanceof Error || target.kind === "local") return "none";
  return target.kind === "endpoint" ? target.endpoint.operation : "pass_through";
}

/** When a request must be answered, given the upstream it goes to. */
export type DeadlineOf = (upstream: Upstream) => Instant;

/** Seconds, with or without a fraction. */
const SECONDS = /^[0-9]{1,6}(?:\.[0-9]{1,3})?$/;

/** The client's own `Request-Timeout`. */
function timeAsked(headers: IncomingHttpHeaders): Duration {
  const asked = headers["request-timeout"];
  const seconds = typeof asked === "string" && SECONDS.test(asked) ? Number(asked) : 0;
  return seconds > 0 ? seconds * 1000 : Infinity;
}

/**
 * For a request that goes to one registry from now on: all attempts together have the upstream's timeout, or the
 * client's own `Request-Timeout` in seconds where that is shorter.
 */
export function deadlineFromNow(headers: IncomingHttpHeaders, clock: Clock): DeadlineOf {
  const startedAt = clock.now();
  return (upstream) => startedAt + Math.min(timeAsked(headers), upstream.config.timeout);
}

/** For a request that the gateway answers by itself: it has so long, or the client's own time where that is shorter. */
export function deadlineWithin(longest: Duration, headers: IncomingHttpHeaders, clock: Clock): Instant {
  return clock.now() + Math.min(timeAsked(headers), longest);
}

/**
 * For a request that asks one registry after the other and does without those that fail: each has its whole timeout from
 * when it is asked, for one that hangs must not take the time of the next. The client's own is for all together.
 */
export function deadlineWhenAsked(headers: IncomingHttpHeaders, clock: Clock): DeadlineOf {
  const last = clock.now() + timeAsked(headers);
  return (upstream) => Math.min(last, clock.now() + upstream.config.timeout);
}
