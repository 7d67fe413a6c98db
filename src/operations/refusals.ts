import type { FastifyReply } from "fastify";
import { hasUnreadBody } from "../connections/framing.ts";
import { ERROR_FIELD, errorBody, GatewayError, toGatewayError } from "../errors.ts";

/** Fastify's own refusals in our words. */
export function operationsError(error: Error & { code?: string }): GatewayError {
  if (error.code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") {
    const text = "the body must be sent with the header content-type: application/json";
    return new GatewayError("unsupported_media_type", text);
  }
  // The text of other refusals may quote the request; their status is all that is shown.
  return isRefusal(error) ? new GatewayError("malformed_request", "the request is not valid") : toGatewayError(error);
}

function isRefusal(error: Error & { statusCode?: number }): boolean {
  return !(error instanceof GatewayError) && error.statusCode !== undefined && error.statusCode < 500;
}

/** Answers with an error in the form that all of ours have. */
export function sendError(reply: FastifyReply, error: GatewayError): void {
  const { id } = reply.request;
  reply.header(ERROR_FIELD, error.code).header("x-request-id", id);
  // The rest of the body is not read.
  if (hasUnreadBody(reply.request.raw)) reply.header("connection", "close");
  if (error.retryAfter !== undefined) reply.header("retry-after", error.retryAfter);
  // RFC 9110 §11.6.1: a 401 says how to authenticate.
  if (error.status === 401) reply.header("www-authenticate", "Bearer");
  void reply.code(error.status).type("application/json").send(errorBody(error, id));
}
