import type { IncomingMessage } from "node:http";
import type { FastifyRequest } from "fastify";
import { collect, collectOptionsOf, NotCollected } from "../bodies/collected-body.ts";
import { parseJson } from "../bodies/request.ts";
import { refusedBody } from "../bodies/upload.ts";
import { readNoMore } from "../connections/refused-connections.ts";
import { GatewayError } from "../errors.ts";

/** Reads what an operator sends, as bytes. @throws GatewayError 413 beyond the `bodyLimit` of the route, or 400 */
export async function receiveBody({ routeOptions, headers }: FastifyRequest, body: IncomingMessage): Promise<Buffer> {
  const { bodyLimit } = routeOptions;
  if (Number(headers["content-length"]) > bodyLimit) throw refusedBody("too-large", bodyLimit);
  try {
    return await collect(body, bodyLimit, collectOptionsOf(body));
  } catch (error) {
    if (!(error instanceof NotCollected)) throw error;
    if (error.fault === "too-many-chunks") readNoMore(body);
    throw refusedBody(error.fault, bodyLimit);
  }
}

/** The JSON that an operator sent. @throws GatewayError 415 or 400 */
export function bodyOf({ body }: FastifyRequest): unknown {
  if (!Buffer.isBuffer(body)) throw new GatewayError("unsupported_media_type", "this is sent as application/json");
  const parsed = parseJson(body);
  if (typeof parsed === "string") throw new GatewayError("malformed_body", parsed);
  return parsed.json;
}

/** As many entries as an answer has: requests and actions that are kept. */
const MOST = 500;

/**
 * The parameters of a query.
 *
 * @throws GatewayError 400 for one that is not among `names`, and for one that is given twice
 */
export function readQuery<Name extends string>(
  query: unknown,
  names: readonly Name[],
): Readonly<Partial<Record<Name, string>>> {
  const known: readonly string[] = names;
  const isRight = Object.entries(query as object).every(
    ([name, value]) => known.includes(name) && typeof value === "string",
  );
  if (isRight) return query as Partial<Record<Name, string>>;
  const once = names.length === 1 ? "once" : "each of them once";
  throw new GatewayError("invalid_query", `this path takes ${names.join(", ")}, ${once}`);
}

/**
 * How many entries are asked for: all that an answer has where nothing is said.
 *
 * @throws GatewayError 400 for anything but a number from 1 to 500
 */
export function readLimit(text = String(MOST)): number {
  const limit = /^[0-9]{1,3}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= MOST) return limit;
  throw new GatewayError("invalid_query", `limit must be a whole number from 1 to ${MOST}`);
}
