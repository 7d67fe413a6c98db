import type { IncomingHttpHeaders } from "node:http";
import type { FastifyRequest } from "fastify";
import { isOwnAuthorization } from "../clients/clients.ts";
import { type Fields, filterFields } from "../fields.ts";
import { TRACE_FIELDS, traceFieldsOf } from "../trace-context.ts";
import type { Upstream } from "../upstream/upstream.ts";

/** Fields that a call takes along of its client's request, besides its body: trace, id, and what the upstream's keys allow. */
export function callFields({ headers, id, ip, state }: FastifyRequest, upstream: Upstream): string[] {
  const { forwardAuthorization, forwardClientAddress } = upstream.config;
  const fields = [...traceOf(headers), "x-request-id", id];
  const { authorization } = headers;
  const isNamed = nominated(headers).includes("authorization");
  const isForwarded = forwardAuthorization === "calls" && authorization !== undefined && !isNamed;
  if (isForwarded && !isOwnAuthorization(authorization, state.snapshot.clients)) {
    fields.push("authorization", authorization);
  }
  if (forwardClientAddress) fields.push("x-forwarded-for", ip);
  return fields;
}

/** The trace fields of a request that go on with its call. */
export function traceOf(headers: IncomingHttpHeaders): readonly string[] {
  const names = nominated(headers);
  return names.some((name) => TRACE_FIELDS.has(name)) ? [] : traceFieldsOf(headers);
}

/** Names in the client's `Connection`: these fields are for us alone (RFC 9110 §7.6.1). */
function nominated({ connection = "" }: IncomingHttpHeaders): string[] {
  return connection.toLowerCase().split(/[\s,]+/);
}

/** Fields by which caches decide how long to keep an answer. */
const LIFETIMES: ReadonlySet<string> = new Set(["cache-control", "expires", "age"]);

/** The fields of an answer that is of this moment: nobody keeps it. */
export function momentaryFields(fields: Fields): string[] {
  return [...filterFields(fields, (name) => !LIFETIMES.has(name)), "cache-control", "no-store"];
}
