import type { IncomingHttpHeaders } from "node:http";
import type { AbortSignalLike, Instant } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import type { MetadataRequest, RegistryMetadata } from "../registry/registry-metadata.ts";
import type { Upstream } from "../upstream/upstream.ts";

/** A client's request to several registries. */
export interface ClientRequest {
  readonly headers: IncomingHttpHeaders;
  /** When the registry's part of the answer must be there. */
  readonly deadlineOf: (upstream: Upstream) => Instant;
  readonly signal: AbortSignalLike;
  /** Whether the answer may do without registries that fail. */
  readonly isPartial: boolean;
}

/** What of a client's request reaches the registries: one client must not decide what others get, nor show its token to all. */
function partFields(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const { traceparent, tracestate, "cache-control": cacheControl, pragma } = headers;
  return {
    ...(traceparent === undefined ? {} : { traceparent }),
    ...(tracestate === undefined ? {} : { tracestate }),
    ...(cacheControl === undefined ? {} : { "cache-control": cacheControl }),
    ...(pragma === undefined ? {} : { pragma }),
  };
}

/** What one of the registries is asked in the course of a client's request. */
export function requestTo({ upstream }: RegistryMetadata, request: ClientRequest): MetadataRequest {
  const { headers, deadlineOf, signal } = request;
  return { requester: "client", headers: partFields(headers), deadline: deadlineOf(upstream), signal };
}

/** What names a registry in cursors: its admin, or its alias where the configuration leaves the admin open. */
export function identityOf({ upstream: { name, config } }: RegistryMetadata): string {
  return config.admin ?? name;
}

/** Whether the aggregate may do without a registry that failed so: its own failure, not a mistake of the client's. */
export function isRegistryFailure(error: unknown): error is GatewayError {
  return error instanceof GatewayError && error.code !== "client_gone" && (error.status === 429 || error.status >= 502);
}
