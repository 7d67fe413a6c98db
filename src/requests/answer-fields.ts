import type { FastifyReply, FastifyRequest } from "fastify";
import type { Config } from "../config/schema.ts";
import type { Fields } from "../fields.ts";

/** The fields that every answer of the public listener has: id, `nosniff`, CORS, and the client's limits. */

/** Fields that pages of other origins may read, beyond the few that a browser always shows them. */
const EXPOSED = [
  "age",
  "allow",
  "cache-status",
  "date",
  "deprecation",
  "etag",
  "link",
  "proxy-status",
  "ratelimit",
  "ratelimit-policy",
  "registry-gateway-error",
  "retry-after",
  "sunset",
  "traceparent",
  "x-registry-partial",
  "x-request-id",
];

interface Cors {
  /** Undefined: every one. */
  readonly origins: ReadonlySet<string> | undefined;
  readonly exposed: Fields;
}

const corsByConfig = new WeakMap<Config, Cors>();

function corsOf(config: Config): Cors {
  const known = corsByConfig.get(config);
  if (known !== undefined) return known;
  const { origins } = config.cors;
  const forwarded = [config.cache, ...config.upstreams.map(({ cache }) => cache)].flatMap(
    (each) => each.forwardResponseHeaders,
  );
  const exposed = ["access-control-expose-headers", [...EXPOSED, ...new Set(forwarded)].join(", ")];
  const cors = { origins: origins.includes("*") ? undefined : new Set(origins), exposed };
  corsByConfig.set(config, cors);
  return cors;
}

/** The value of `Access-Control-Allow-Origin`; undefined: pages of this origin may not read answers. */
export function allowedOrigin(config: Config, origin: string | undefined): string | undefined {
  const { origins } = corsOf(config);
  if (origins === undefined) return "*";
  return origin !== undefined && origins.has(origin) ? origin : undefined;
}

/** CORS fields of an answer. Cookies mean nothing here, and a token is an ordinary header: credentials are never allowed. */
export function corsFields(config: Config, origin: string | undefined): Fields {
  const allowed = allowedOrigin(config, origin);
  return allowed === undefined ? [] : ["access-control-allow-origin", allowed, ...corsOf(config).exposed];
}

/** All fields of ours that every answer has, but `Vary`. */
export function commonFields({ id, headers, state }: FastifyRequest): string[] {
  const fields = ["x-request-id", id, "x-content-type-options", "nosniff"];
  fields.push(...corsFields(state.snapshot.loaded.config, headers.origin));
  if (state.limit !== undefined) fields.push(...state.limit.fields);
  if (state.listener.isClosing) fields.push("connection", "close");
  return fields;
}

/**
 * The value of `Vary`, empty where there is nothing to say: the origin where not every one is allowed, on the plain base the
 * admin header.
 *
 * @param others names that the answer has there already
 */
export function varyOf({ url, state }: FastifyRequest, others: string | undefined): string {
  const { config } = state.snapshot.loaded;
  const names = others === undefined ? [] : [others];
  if (corsOf(config).origins !== undefined && others?.startsWith("Origin") !== true) names.push("Origin");
  if (url.startsWith("/registry/")) names.push(config.routing.adminHeader);
  return names.join(", ");
}

/** `onSend`: adds the fields of ours to what Fastify sends, and counts its bytes. */
export function addCommonFields(
  request: FastifyRequest,
  reply: FastifyReply,
  payload: unknown,
  done: (error: null, payload: unknown) => void,
): void {
  const fields = commonFields(request);
  for (let i = 0; i < fields.length; i += 2) reply.header(fields[i]!, fields[i + 1]!);
  const before = reply.getHeader("vary");
  const vary = varyOf(request, before === undefined ? undefined : String(before));
  if (vary !== "") reply.header("vary", vary);
  if (request.method !== "HEAD") request.state.bytes = lengthOf(payload, reply);
  done(null, payload);
}

function lengthOf(payload: unknown, reply: FastifyReply): number {
  if (Buffer.isBuffer(payload)) return payload.length;
  return typeof payload === "string" ? Buffer.byteLength(payload) : Number(reply.getHeader("content-length") ?? 0);
}
