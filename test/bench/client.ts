import { request } from "node:http";
import type { CannedAnswer } from "./canned-process.ts";

export interface HttpRequest {
  readonly method: "GET" | "HEAD" | "POST";
  readonly path: string;
  /** Flat: name, value, … */
  readonly fields?: readonly string[];
  readonly body?: string;
}

/** What the fetch of Node sends with every request; the official client adds its content type, even to GET. */
const CLIENT_FIELDS = [
  "accept",
  "application/json",
  "content-type",
  "application/json",
  "accept-language",
  "*",
  "sec-fetch-mode",
  "cors",
  "user-agent",
  "node",
];

/** The whole request as text, as a wallet sends it, without a content coding. */
export function requestText({ method, path, fields = [], body }: HttpRequest): string {
  const all = ["host", "registry.example", "connection", "keep-alive", ...CLIENT_FIELDS, ...fields];
  if (body !== undefined) all.push("content-length", String(Buffer.byteLength(body)));
  const lines = [`${method} ${path} HTTP/1.1`];
  for (let i = 0; i < all.length; i += 2) lines.push(`${all[i]}: ${all[i + 1]}`);
  return `${lines.join("\r\n")}\r\n\r\n${body ?? ""}`;
}

/** Fields of one connection; Node adds its own. */
const OF_THE_CONNECTION = new Set(["connection", "keep-alive", "transfer-encoding"]);

/** Sends one request and keeps the answer, to be sent by another server byte for byte. */
export function capture(port: number, { method, path, fields = [], body }: HttpRequest): Promise<CannedAnswer> {
  const headers = ["host", "registry.example", ...CLIENT_FIELDS, ...fields];
  if (body !== undefined) headers.push("content-length", String(Buffer.byteLength(body)));
  return new Promise((resolve, reject) => {
    const outgoing = request({ port, host: "127.0.0.1", method, path, headers, agent: false, timeout: 10_000 });
    outgoing.once("timeout", () => outgoing.destroy(new Error(`no answer to ${method} ${path}`)));
    outgoing.once("error", reject);
    outgoing.once("response", (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.once("error", reject);
      response.once("end", () => {
        const kept: string[] = [];
        for (let i = 0; i < response.rawHeaders.length; i += 2) {
          const [name, value] = [response.rawHeaders[i]!, response.rawHeaders[i + 1]!];
          if (!OF_THE_CONNECTION.has(name.toLowerCase())) kept.push(name, value);
        }
        resolve({ status: response.statusCode!, fields: kept, body: Buffer.concat(chunks).toString("base64") });
      });
    });
    outgoing.end(body);
  });
}
