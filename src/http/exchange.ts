import type { IncomingMessage } from "node:http";
import type { CacheStatus } from "../cache/rfc/cache-status.ts";
import type { Instant } from "../clock.ts";
import { GatewayError, toGatewayError } from "../errors.ts";
import type { Operation } from "../spec/endpoints.ts";
import type { RequestTrace } from "../observe/tracing/tracing.ts";
import type { Upstream } from "../upstream/upstream.ts";
import type { HitTarget } from "./hit.ts";
import type { Runtime, Surroundings } from "./context.ts";
import { requestIdOf } from "./request-id.ts";
import { parseTarget, type Target } from "./target.ts";

/** How a request was answered, decided once and read by the header, the log line and the metric alike. */
export type Outcome = "hit" | "stale" | "revalidated" | "miss" | "bypass" | "refused";

/** One request and what became of it. */
export interface Exchange {
  readonly id: string;
  /** As received: within Fastify the request's own `url` is one of our internal paths. */
  readonly url: string;
  readonly startedAt: Instant;
  readonly runtime: Runtime;
  /** What the URL stood for when it was last answered through the cache. */
  readonly remembered: HitTarget | undefined;
  /** What the URL addresses, or why it addresses nothing. */
  readonly target: Target | GatewayError;
  upstream: Upstream | undefined;
  outcome: Outcome;
  /** The gateway's own error, when that was the answer. */
  error: GatewayError | undefined;
  /** Bytes of the answer's body. */
  bytes: number;
  /** Age of an answer that came through the cache, in seconds. */
  age: number | undefined;
  /** How it went on to the upstream when the cache had no answer. */
  forwarded: CacheStatus | undefined;
  /** Undefined where requests are not traced. */
  readonly trace: RequestTrace | undefined;
}

// On the request itself: a WeakMap of all that run costs more to keep, and to collect.
const EXCHANGE = Symbol("exchange");

interface RequestWithExchange extends IncomingMessage {
  [EXCHANGE]?: Exchange;
}

/** The exchange of a request; begun when first asked for. */
export function exchangeOf(request: RequestWithExchange, surroundings: Surroundings): Exchange {
  const known = request[EXCHANGE];
  if (known !== undefined) return known;
  const runtime = surroundings.runtime();
  const url = request.url ?? "";
  const remembered = runtime.hits.find(url);
  const exchange: Exchange = {
    id: requestIdOf(request.headers["x-request-id"]),
    url,
    startedAt: surroundings.clock.now(),
    runtime,
    remembered,
    target: remembered?.target ?? targetOf(url, runtime),
    upstream: undefined,
    outcome: "bypass",
    error: undefined,
    bytes: 0,
    age: undefined,
    forwarded: undefined,
    trace: surroundings.tracing?.begin(request.headers),
  };
  request[EXCHANGE] = exchange;
  return exchange;
}

/** What said which registry a request goes to: a place that names it, the configuration, or `routing.learn` and `probe`. */
export type RoutedBy = "path" | "header" | "body" | "plain" | "learned" | "probe";

/** Notes where a request goes, and why: for the log, at level debug alone. */
export function routeTo({ log }: Surroundings, exchange: Exchange, upstream: Upstream, by: RoutedBy): void {
  exchange.upstream = upstream;
  if (!log.isLevelEnabled("debug")) return;
  log.debug(
    { requestId: exchange.id, operation: operationOf(exchange), upstream: upstream.name, by },
    "request routed",
  );
}

/** The endpoint an exchange is about, for labels. */
export function operationOf(exchange: Exchange): Operation | "none" {
  const { target } = exchange;
  if (target instanceof Error || target.kind === "local") return "none";
  return target.kind === "endpoint" ? target.endpoint.operation : "pass_through";
}

function targetOf(url: string, runtime: Runtime): Target | GatewayError {
  const { uri } = runtime.config.limits;
  if (url.length > uri) return new GatewayError("uri_too_long", `the URL is longer than ${uri} bytes`);
  try {
    return parseTarget(url, runtime.config.routing.prefix);
  } catch (error) {
    return toGatewayError(error);
  }
}
