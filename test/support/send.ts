import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request as requestPlainly } from "node:http";
import { request as requestSecurely } from "node:https";
import type { SecureContextOptions } from "node:tls";
import { pem } from "./sample.ts";

export interface SentRequest {
  readonly method?: string;
  /** Sent exactly as it is: no URL parser tidies it up. */
  readonly path: string;
  /** An array as value sends the field several times. */
  readonly headers?: OutgoingHttpHeaders;
  /** Sent with `content-type: application/json`, unless `headers` says otherwise; makes the request a POST. */
  readonly body?: string | Buffer;
}

export interface ReceivedAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly bytes: Buffer;
  /** The body's text. */
  readonly text: string;
}

/** One request on a connection of its own; with TLS, the tests' authority is trusted. */
export function send(
  base: string,
  { method, path, headers = {}, body }: SentRequest,
  tls: Pick<SecureContextOptions, "cert" | "key"> = {},
): Promise<ReceivedAnswer> {
  const { hostname, port, protocol } = new URL(base);
  const request = protocol === "https:" ? requestSecurely : requestPlainly;
  return new Promise((resolve, reject) => {
    const sent = request({
      ...(protocol === "https:" ? { ca: pem("ca-and-successor"), ...tls } : {}),
      hostname,
      port,
      path,
      agent: false,
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
    });
    sent.on("response", (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        const bytes = Buffer.concat(chunks);
        const { statusCode = 0, headers: received, rawHeaders } = response;
        resolve({ status: statusCode, headers: received, rawHeaders, bytes, text: bytes.toString("utf8") });
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

/** The text of an error in the one form that all of ours have. */
export function errorOf(answer: Pick<ReceivedAnswer, "text">): string {
  return (JSON.parse(answer.text) as { error: string }).error;
}
