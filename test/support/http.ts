import { Agent, type IncomingHttpHeaders, type OutgoingHttpHeaders, request as requestPlainly } from "node:http";
import { Agent as SecureAgent, request as requestSecurely } from "node:https";
import { expect } from "vitest";

export interface Request {
  readonly method?: string;
  /** Sent exactly as it is: no URL parser tidies it up. */
  readonly path: string;
  /** An array as value sends the field several times. */
  readonly headers?: OutgoingHttpHeaders;
  /** Makes the request a POST, with `content-type: application/json` unless `headers` says otherwise. */
  readonly body?: string | Buffer;
  readonly ca?: Buffer | undefined;
}

export class Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly bytes: Buffer;
  /** False when the connection ended before the body did. */
  readonly isComplete: boolean;

  constructor(head: Pick<Answer, "status" | "headers" | "rawHeaders" | "isComplete">, bytes: Buffer) {
    this.status = head.status;
    this.headers = head.headers;
    this.rawHeaders = head.rawHeaders;
    this.isComplete = head.isComplete;
    this.bytes = bytes;
  }

  get text(): string {
    return this.bytes.toString();
  }

  // oxlint-disable-next-line no-explicit-any
  get json(): any {
    return JSON.parse(this.text);
  }

  /** The code of an error of the gateway's own. */
  get code(): string | undefined {
    return this.headers["registry-gateway-error"] as string | undefined;
  }

  /** The sentence of an error. */
  get error(): string {
    return (this.json as { error: string }).error;
  }

  /** What the cache did: `hit`, `stale`, `miss`, `revalidated`; undefined where it had no part. */
  get cache(): string | undefined {
    const field = this.headers["cache-status"];
    if (typeof field !== "string") return undefined;
    if (field.includes("fwd-status=304")) return "revalidated";
    if (field.includes(";stored") && field.includes(";fwd=")) return "miss";
    const isFresh = Number(/;\s*ttl=(-?\d+)/.exec(field)?.[1] ?? 0) >= 0;
    if (/;detail=stale-(if|while)/.test(field) || !isFresh) return "stale";
    return /;\s*hit\b/.test(field) ? "hit" : "miss";
  }

  /** Status and, of an error of the gateway's own, code: `200`, `404 admin_unknown`. */
  get outcome(): string {
    return this.code === undefined ? `${this.status}` : `${this.status} ${this.code}`;
  }
}

/** Connections are kept, as clients keep them: a new one for each request is half of what it costs. */
const AGENTS = { "http:": new Agent({ keepAlive: true }), "https:": new SecureAgent({ keepAlive: true }) };

/** One request. Rejects when no head of an answer comes, never when the body breaks off. */
export function send(base: string, { method, path, headers = {}, body, ca }: Request): Promise<Answer> {
  const { hostname, port, protocol } = new URL(base);
  const request = protocol === "https:" ? requestSecurely : requestPlainly;
  return new Promise((resolve, reject) => {
    const sent = request({
      hostname,
      port,
      path,
      agent: AGENTS[protocol as "http:"],
      ...(ca !== undefined && { ca }),
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers: { ...(body !== undefined && { "content-type": "application/json" }), ...headers },
    });
    sent.on("response", (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", () => undefined);
      response.on("close", () => {
        const { statusCode: status = 0, headers: received, rawHeaders, complete: isComplete } = response;
        resolve(new Answer({ status, headers: received, rawHeaders, isComplete }, Buffer.concat(chunks)));
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

/** A base URL with the requests that tests send to it. */
export class Site {
  readonly url: string;
  private readonly ca: Buffer | undefined;

  constructor(url: string, ca?: Buffer) {
    this.url = url;
    this.ca = ca;
  }

  send(request: Request): Promise<Answer> {
    return send(this.url, { ca: this.ca, ...request });
  }

  get(path: string, headers: OutgoingHttpHeaders = {}): Promise<Answer> {
    return this.send({ path, headers });
  }

  post(path: string, body: string | Buffer = "{}", headers: OutgoingHttpHeaders = {}): Promise<Answer> {
    return this.send({ path, body, headers });
  }
}

/** No host, port, address or stack of a registry. */
export function expectNoAddress(answer: Answer): void {
  const everything = `${answer.rawHeaders.join("\n")}\n${answer.text}`;
  expect(everything).not.toMatch(/127\.0\.0\.1|localhost|:\d{4,5}\b|ECONN|UND_ERR|HPE_|\bat .*\.[jt]s/);
}

/** Holds of every answer with an error of the gateway's own: one form, one code, and nothing of a registry's address. */
export function expectOwnError(answer: Answer, status: number, code?: string): void {
  expect(answer.outcome).toBe(`${status} ${code ?? String(answer.code)}`);
  const { headers } = answer;
  const retryAfter = headers["retry-after"] === undefined ? {} : { retryAfter: Number(headers["retry-after"]) };
  expect(answer.json).toEqual({
    error: expect.stringMatching(/^registry-gateway: ./) as string,
    code: answer.code,
    requestId: headers["x-request-id"],
    ...retryAfter,
  });
  expect(headers["content-type"]).toMatch(/^application\/json\b/);
  expect(headers["access-control-allow-origin"]).toBe("*");
  expect(headers["x-content-type-options"]).toBe("nosniff");
  expect(headers["x-request-id"]).toMatch(/./);
  if (status >= 502) expect(headers["proxy-status"]).toMatch(/^registry-gateway; ?error=[a-z_]+/);
  else expect(headers["proxy-status"]).toBeUndefined();
  expectNoAddress(answer);
}

/** The names of an answer's fields, in lower case, as they came. */
export function fieldNames({ rawHeaders }: Pick<Answer, "rawHeaders">): string[] {
  return rawHeaders.filter((_text, at) => at % 2 === 0).map((name) => name.toLowerCase());
}
