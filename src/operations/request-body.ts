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
