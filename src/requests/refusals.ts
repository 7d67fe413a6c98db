import { formatCacheStatus } from "../cache/rfc/reuse.ts";
import { GatewayError, toGatewayError } from "../errors.ts";
import type { RequestContext } from "./context.ts";
import { isOwnPage } from "./pages.ts";

/** Of an error on a cached route for which no upstream was asked. */
const NOT_FORWARDED = "registry-gateway;detail=refused";

/** Why a request reached no route. */
export function routeRefusal(context: RequestContext): GatewayError {
  const { target, snapshot } = context;
  if (target instanceof GatewayError) return target;
  if (target.kind === "local" && !isOwnPage(target.path, snapshot)) {
    return new GatewayError("no_such_path", "no such path; the token-registry API is below /registry/");
  }
  const allow = allowedMethods(context);
  return new GatewayError("method_not_allowed", `the method is not allowed here; use ${allow}`, { allow });
}

/** The value of `Allow` for what the URL addresses. */
export function allowedMethods({ target, snapshot }: RequestContext): string {
  if (target instanceof Error) return "GET, HEAD, POST, OPTIONS";
  if (target.kind === "local") {
    return isOwnPage(target.path, snapshot) ? "GET, HEAD, OPTIONS" : "GET, HEAD, POST, OPTIONS";
  }
  if (target.kind === "pass-through") return "GET, POST, OPTIONS";
  return target.endpoint.kind === "metadata" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
}

/** What Fastify or a route threw, in our words. */
export function fastifyRefusal(error: Error & { code?: string }): GatewayError {
  if (error.code !== "FST_ERR_CTP_INVALID_MEDIA_TYPE") return toGatewayError(error);
  return new GatewayError(
    "unsupported_media_type",
    "the body must be sent with the header content-type: application/json",
  );
}

/**
 * On cached routes every answer says what the cache did (RFC 9211). A 502 or 504 came of going forward; what was refused
 * before that, by `only-if-cached`, a circuit breaker or a limit, neither hit nor went anywhere.
 */
export function cacheStatusOfError(context: RequestContext, { status }: GatewayError): string[] {
  const { target, upstream, forwarded } = context;
  const isCached = !(target instanceof Error) && target.kind === "endpoint" && target.endpoint.kind === "metadata";
  if (!isCached || upstream === undefined) return [];
  const wentForward = forwarded !== undefined && (status === 502 || status === 504);
  return ["cache-status", wentForward ? formatCacheStatus(forwarded) : NOT_FORWARDED];
}
