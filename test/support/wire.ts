import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest, type RequestOptions } from "node:https";
import { connect } from "node:net";

export interface WireAnswer {
  status: number;
  headers: IncomingMessage["headers"];
  rawHeaders: string[];
  body: Buffer;
  /** False when the connection ended before the body did. */
  isComplete: boolean;
}

export interface WireRequest extends RequestOptions {
  headers?: Record<string, string>;
  /** Sent as JSON, unless `headers` says otherwise; makes the request a POST. */
  body?: string | object;
}

/** One request on a connection of its own; rejects when no answer's head comes, never when the body breaks off. */
export function ask(url: string, options: WireRequest = {}): Promise<WireAnswer> {
  const { body, headers, method = body === undefined ? "GET" : "POST", ...rest } = options;
  return new Promise((resolve, reject) => {
    const send = url.startsWith("https:") ? httpsRequest : httpRequest;
    const allHeaders = { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers };
    const request = send(url, { ...rest, agent: false, method, headers: allHeaders }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", () => undefined);
      response.on("close", () => {
        const { statusCode = 0, headers, rawHeaders, complete } = response;
        resolve({ status: statusCode, headers, rawHeaders, body: Buffer.concat(chunks), isComplete: complete });
      });
    });
    request.on("error", reject);
    request.end(typeof body === "object" ? JSON.stringify(body) : body);
  });
}

/** Sends `text` on a plain connection and gives every byte that comes back until the other side ends it. */
export function exchangeBytes(url: string, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect(Number(new URL(url).port), "127.0.0.1", () => socket.write(text));
    socket.on("data", (chunk) => chunks.push(chunk));
    socket.on("error", reject);
    socket.on("close", () => resolve(Buffer.concat(chunks).toString("latin1")));
  });
}

export function parse(answer: WireAnswer): unknown {
  return JSON.parse(answer.body.toString());
}

export function errorOf(answer: WireAnswer): string {
  return (parse(answer) as { error: string }).error;
}
