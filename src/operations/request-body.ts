import type { FastifyRequest } from "fastify";
import { parseJson } from "../bodies/request.ts";
import { GatewayError } from "../errors.ts";

/** The JSON that an operator sent. @throws GatewayError 415 or 400 */
export function bodyOf({ body }: FastifyRequest): unknown {
  if (!Buffer.isBuffer(body)) throw new GatewayError("unsupported_media_type", "this is sent as application/json");
  const parsed = parseJson(body);
  if (typeof parsed === "string") throw new GatewayError("malformed_body", parsed);
  return parsed.json;
}
