import type { IncomingHttpHeaders } from "node:http";
import { AT_ONCE, type BodyReader, TooCostly } from "../bodies/body-reader.ts";
import { readRequestBody, type RequestContent, type RequestForm } from "../bodies/request.ts";
import type { MaybePromise } from "../coordination/coordinator.ts";
import { GatewayError } from "../errors.ts";

/**
 * Checks that a body may be read as JSON at all, by its headers.
 *
 * @throws GatewayError 415 for a content coding, or a media type other than JSON in UTF-8
 */
export function checkBodyHeaders(headers: IncomingHttpHeaders): void {
  checkContentCoding(headers);
  const type = headers["content-type"];
  if (type === undefined || !JSON_TYPE.test(type)) {
    throw new GatewayError(
      "unsupported_media_type",
      "the body must be sent with the header content-type: application/json",
    );
  }
  const charset = CHARSET.exec(type)?.[1];
  if (charset !== undefined && !/^utf-?8$/i.test(charset)) {
    throw new GatewayError(
      "unsupported_media_type",
      "the body must be JSON in UTF-8, whatever charset the content-type names",
    );
  }
}

/** @throws GatewayError 415 when the body is compressed: an admin in it could not be checked */
export function checkContentCoding(headers: IncomingHttpHeaders): void {
  const coding = headers["content-encoding"];
  if (coding !== undefined && coding.trim().toLowerCase() !== "identity") {
    throw new GatewayError("unsupported_media_type", "the body must be sent without content-encoding");
  }
}

/**
 * What the body of a request says; at once where it is small.
 *
 * @throws GatewayError 400 when it is refused; 503 when too many large ones wait to be read (in the promise)
 */
export function readRequest(bodies: BodyReader, body: Buffer, form: RequestForm): MaybePromise<RequestContent> {
  return body.length <= AT_ONCE ? accepted(readRequestBody(body, form)) : readElsewhere(bodies, body, form);
}

async function readElsewhere(bodies: BodyReader, body: Buffer, form: RequestForm): Promise<RequestContent> {
  try {
    return accepted(await bodies.read({ kind: "request", form }, body, { source: undefined }));
  } catch (error) {
    throw error instanceof TooCostly ? new GatewayError("malformed_body", `the body ${error.message}`) : error;
  }
}

function accepted(content: RequestContent): RequestContent {
  if (content.refusal !== undefined) throw new GatewayError("malformed_body", content.refusal);
  return content;
}

const JSON_TYPE = /^application\/json[ \t]*(?:;|$)/i;
const CHARSET = /;[ \t]*charset[ \t]*=[ \t]*"?([^";, \t]+)/i;
