import createFetchClient, { type Client, defaultPathSerializer } from "openapi-fetch";
import type { components, paths } from "./api.ts";

export type { components, paths } from "./api.ts";

/** A code of {@link GatewayError}: why the gateway itself did not answer. */
export type ErrorCode = NonNullable<components["schemas"]["ErrorResponse"]["code"]>;

export interface ClientOptions {
  /** Base URL: of the gateway, or of one registry at it. No slash at the end is needed. */
  readonly url: string;
  /** An API key of the gateway, sent as `X-API-Key`. */
  readonly apiKey?: string;
  /** A token, sent as `Authorization: Bearer`; a function is asked for each request. */
  readonly token?: string | (() => string | Promise<string>);
  /** By default the global `fetch`. */
  readonly fetch?: (request: Request) => Promise<Response>;
  /** How often a request is sent again after 429, 502, 503, 504 or a broken connection; by default 2. */
  readonly retries?: number;
  /** Milliseconds for a request with all its retries; by default 30,000. */
  readonly timeout?: number;
}

/**
 * Every endpoint by method and path: `client.GET("/registry/metadata/v1/info")` gives `{ data, response }`, or throws.
 *
 * @throws {@link GatewayError} for every status from 400 on; `fetch`'s `TypeError` where no connection comes about; a
 *   `DOMException` named `TimeoutError` when the time is over, or `AbortError` for a signal of yours
 */
export interface GatewayClient extends Client<paths> {
  /** The client of one registry: by the party id of its admin, or its alias. */
  registry(admin: string): GatewayClient;
  /**
   * The changes of all registries of the gateway as they come, and over connections that end. Begins with a `reset`, or goes on
   * behind `lastId`. Ends when `signal` aborts.
   *
   * @throws {@link GatewayError} for a status that asking again does not help; a `TypeError` for a `url` that is none
   */
  changes(options?: ChangesOptions): AsyncGenerator<CatalogueEvent, void, undefined>;
}

export interface ChangesOptions {
  /** The `id` of the last event that was taken. */
  readonly lastId?: string;
  readonly signal?: AbortSignal;
}

/** `reset`: the changes since the last id cannot be told, or there was none. List the catalogue, then go on. */
export type CatalogueEvent =
  | { readonly event: "reset"; readonly id: string }
  | { readonly event: "change"; readonly id: string; readonly change: components["schemas"]["CatalogueChange"] };

/** An error in the place of an answer: the error body of the gateway or of a registry. */
export class GatewayError extends Error {
  override readonly name = "GatewayError";
  readonly status: number;
  /** The gateway's reason; undefined where a registry refused in its own words, which are `message` then. */
  readonly code: ErrorCode | undefined;
  /** Seconds after which asking again makes sense, where the answer says so. */
  readonly retryAfter: number | undefined;
  /** What the gateway's log calls this request. */
  readonly requestId: string | undefined;

  constructor(response: Response, body: unknown) {
    const { error, code, requestId } = (typeof body === "object" && body !== null ? body : {}) as {
      readonly error?: unknown;
      readonly code?: ErrorCode;
      readonly requestId?: string;
    };
    super(typeof error === "string" ? error : `${response.status} ${response.statusText}`.trim());
    this.status = response.status;
    this.code = code;
    this.retryAfter = retryAfterOf(response);
    this.requestId = requestId ?? response.headers.get("x-request-id") ?? undefined;
  }
}

/** Where the gateway has the base URL of each registry, unless `routing.prefix` says otherwise. */
const PREFIX = "/api/token-standard/v0/registrars";

/** A typed client of a gateway. It may live as long as the program; it holds nothing open. */
export function createClient(options: ClientOptions): GatewayClient {
  const url = options.url.replace(/\/+$/, "");
  return clientAt(url, url, options);
}

/** The client of a base URL at the gateway. */
function clientAt(baseUrl: string, gateway: string, options: ClientOptions): GatewayClient {
  const { apiKey, token, fetch: send = globalThis.fetch, retries = 2, timeout = 30_000 } = options;
  const client = createFetchClient<paths>({
    baseUrl,
    ...(apiKey === undefined ? {} : { headers: { "X-API-Key": apiKey } }),
    pathSerializer: writePath,
    fetch: (request) => sendWithRetries(request, { send, retries, timeout }),
  });
  client.use({
    async onRequest({ request }) {
      if (token === undefined) return;
      request.headers.set("Authorization", `Bearer ${typeof token === "string" ? token : await token()}`);
    },
    async onResponse({ response }) {
      if (response.status >= 400) throw new GatewayError(response, await bodyOf(response));
    },
  });
  return Object.assign(client, {
    changes: (asked: ChangesOptions = {}) => followChanges(gateway, options, asked),
    registry: (admin: string) => clientAt(`${gateway}${PREFIX}/${encodeURIComponent(admin)}`, gateway, options),
  });
}

/**
 * What is passed through has a path of several segments; every other parameter is one, with its slashes encoded.
 *
 * @throws TypeError for a path with a segment `.` or `..`, which would lead to another registry
 */
function writePath(url: string, params: Record<string, unknown>): string {
  if (!url.endsWith("/registry/{path}")) return defaultPathSerializer(url, params);
  const segments = String(params["path"]).split("/");
  if (segments.includes(".") || segments.includes("..")) throw new TypeError("the path has a segment . or ..");
  return url.replace("{path}", () => segments.map(encodeURIComponent).join("/"));
}

const RETRIED: ReadonlySet<number> = new Set([429, 502, 503, 504]);

interface Sending {
  readonly send: (request: Request) => Promise<Response>;
  readonly retries: number;
  readonly timeout: number;
}

/** Sends a request until it is answered: the standard's POSTs change nothing, so each may be sent again. */
async function sendWithRetries(request: Request, { send, retries, timeout }: Sending): Promise<Response> {
  const deadline = performance.now() + timeout;
  const signal = AbortSignal.any([request.signal, AbortSignal.timeout(timeout)]);
  for (let attempt = 0; ; attempt += 1) {
    const isLast = attempt >= retries;
    const answer = await send(new Request(request.clone(), { signal })).catch((error: unknown) => {
      if (isLast || signal.aborted) throw error;
    });
    if (answer !== undefined && (isLast || !RETRIED.has(answer.status))) return answer;
    const pause = 1_000 * (answer === undefined ? 0 : (retryAfterOf(answer) ?? 0)) + backOff(attempt);
    // An answer that would come too late helps nobody: the caller gets the one that is there.
    if (answer !== undefined && performance.now() + pause >= deadline) return answer;
    await answer?.body?.cancel();
    await waited(pause, signal);
  }
}

/** Milliseconds without a byte after which a stream is taken for dead: three heartbeats. */
const SILENCE = 45_000;

async function* followChanges(
  gateway: string,
  { apiKey, token, fetch: send = globalThis.fetch }: ClientOptions,
  { lastId, signal }: ChangesOptions,
): AsyncGenerator<CatalogueEvent, void, undefined> {
  let id = lastId;
  let retry = 1_000;
  for (;;) {
    if (signal?.aborted === true) return;
    const headers = new Headers({ Accept: "text/event-stream" });
    if (apiKey !== undefined) headers.set("X-API-Key", apiKey);
    if (token !== undefined)
      headers.set("Authorization", `Bearer ${typeof token === "string" ? token : await token()}`);
    if (id !== undefined) headers.set("Last-Event-ID", id);
    const silence = new AbortController();
    // The caller's may have aborted while the token was waited for.
    const ends = AbortSignal.any(signal === undefined ? [silence.signal] : [silence.signal, signal]);
    // Here it throws for a URL that is none, which asking again would not mend.
    const request = new Request(`${gateway}/catalog/v1/changes`, { headers, signal: ends });
    const stop = (): void => silence.abort();
    let timer = setTimeout(stop, SILENCE);
    let pause = retry;
    try {
      const response = await send(request);
      if (response.status >= 400) {
        const error = new GatewayError(response, await bodyOf(response));
        if (!RETRIED.has(response.status)) throw error;
        pause = Math.max(retry, 1_000 * (error.retryAfter ?? 0));
      } else {
        for await (const frame of framesOf(response)) {
          clearTimeout(timer);
          timer = setTimeout(stop, SILENCE);
          id = frame.get("id") ?? id;
          retry = pause = Number(frame.get("retry") ?? retry);
          const data = frame.get("data");
          if (data === undefined) continue;
          const said = JSON.parse(data) as components["schemas"]["CatalogueChange"];
          yield frame.get("event") === "reset"
            ? { event: "reset", id: said.id }
            : { event: "change", id: said.id, change: said };
        }
      }
    } catch (error) {
      if (error instanceof GatewayError) throw error;
    } finally {
      clearTimeout(timer);
      silence.abort();
    }
    await waited(pause, signal ?? new AbortController().signal).catch(() => undefined);
  }
}

/** The fields of each event of a stream, by name. */
async function* framesOf({ body }: Response): AsyncGenerator<ReadonlyMap<string, string>, void, undefined> {
  const reader = body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const frames = (rest + value).split("\n\n");
    rest = frames.pop()!;
    for (const frame of frames) {
      yield new Map(
        frame.split("\n").map((line) => {
          const colon = line.indexOf(": ");
          return [line.slice(0, Math.max(0, colon)), line.slice(colon + 2)] as const;
        }),
      );
    }
  }
}

/** Doubles from 100 ms, half of it by chance, so that many clients do not come back at once. */
function backOff(attempt: number): number {
  return 100 * 2 ** attempt * (0.5 + Math.random() / 2);
}

/** Rejects with the signal's reason when it ends the waiting. */
function waited(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (): void => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", end);
      resolve();
    }, milliseconds);
    if (signal.aborted) end();
    else signal.addEventListener("abort", end, { once: true });
  });
}

/** RFC 9110 §10.2.3: seconds, or a date; undefined where the field is missing or unreadable. */
function retryAfterOf(response: Response): number | undefined {
  const value = response.headers.get("retry-after")?.trim() ?? "";
  if (/^[0-9]{1,9}$/.test(value)) return Number(value);
  const seconds = (Date.parse(value) - Date.now()) / 1_000;
  return Number.isNaN(seconds) ? undefined : Math.max(0, Math.ceil(seconds));
}

async function bodyOf(response: Response): Promise<unknown> {
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
