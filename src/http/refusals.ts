import { formatCacheStatus } from "../cache/rfc/cache-status.ts";
import type { Config } from "../config/schema.ts";
import { GatewayError, toGatewayError } from "../errors.ts";
import type { Exchange } from "./exchange.ts";
import { isLocalPage } from "./local.ts";

/** Of an error on a cached route for which no upstream was asked. */
const NOT_FORWARDED = "registry-gateway;detail=refused";

/** Why a request reached no route. */
export function routeRefusal(exchange: Exchange): GatewayError {
  const { target, runtime } = exchange;
  if (target instanceof GatewayError) return target;
  if (target.kind === "local" && !isLocalPage(target.path, runtime)) {
    return new GatewayError("no_such_path", "no such path; the token-registry API is below /registry/");
  }
  const allow = allowedMethods(exchange);
  return new GatewayError("method_not_allowed", `the method is not allowed here; use ${allow}`, { allow });
}

/** The value of `Allow` for what the URL addresses. */
export function allowedMethods(exchange: Exchange): string {
  const { target, runtime } = exchange;
  if (target instanceof Error) return "GET, HEAD, POST, OPTIONS";
  if (target.kind === "local") {
    return isLocalPage(target.path, runtime) ? "GET, HEAD, OPTIONS" : "GET, HEAD, POST, OPTIONS";
  }
  if (target.kind === "pass-through") return "GET, POST, OPTIONS";
  return target.endpoint.kind === "metadata" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
}

/** Fastify's own refusals in our words. */
export function fastifyRefusal(error: Error & { code?: string }, config: Config): GatewayError {
  switch (error.code) {
    case "FST_ERR_CTP_BODY_TOO_LARGE":
      return new GatewayError("body_too_large", `the body is larger than ${config.limits.requestBody} bytes`);
    case "FST_ERR_CTP_INVALID_MEDIA_TYPE":
      return new GatewayError(
        "unsupported_media_type",
        "the body must be sent with the header content-type: application/json",
      );
    case "FST_ERR_CTP_INVALID_CONTENT_LENGTH":
      return new GatewayError("malformed_body", "the body is not as long as its content-length says");
    default:
      return toGatewayError(error);
  }
}

/**
 * On cached routes every answer says what the cache did (RFC 9211). A 502 or 504 came of going forward; what was refused
 * before that, by `only-if-cached`, a breaker or a budget, neither hit nor went anywhere.
 */
export function cacheStatusOfError({ target, upstream, forwarded }: Exchange, { status }: GatewayError): string[] {
  const isCached = !(target instanceof Error) && target.kind === "endpoint" && target.endpoint.kind === "metadata";
  if (!isCached || upstream === undefined) return [];
  const wentForward = forwarded !== undefined && (status === 502 || status === 504);
  return ["cache-status", wentForward ? formatCacheStatus(forwarded) : NOT_FORWARDED];
}
