import type { ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { type Clock, type Duration, sleep } from "../../src/clock.ts";
import { type Call, CallLog } from "../../src/sandbox/call-log.ts";
import { SampleRegistry as Sandboxed, type SampleRegistryOptions } from "../../src/sandbox/registry.ts";
import type { Route } from "../../src/sandbox/route.ts";

export type { SampleRegistryOptions } from "../../src/sandbox/registry.ts";

/** An answer given field by field, for tests of what exactly comes over the wire. */
export type ScriptedAnswer =
  | {
      status: number;
      /** The reason phrase; by default the usual one. */
      statusText?: string;
      /**
       * Name, value, name, value, … sent in this order and case, repeated fields apart; values are latin1. Nothing is
       * added but Connection and, unless Content-Length or Transfer-Encoding is here, the length: not even a Date.
       */
      headers?: readonly string[];
      /** Streamed chunk by chunk when it is an iterable. */
      body?: string | Uint8Array | AsyncIterable<Uint8Array>;
      /** How long it waits before it answers. */
      delay?: Duration;
    }
  /** These bytes and nothing else, then the connection ends. */
  | { raw: string | Uint8Array };

/**
 * Answers a call, or leaves it to the registry with undefined. A promise holds the call until it is resolved, which is
 * how a test keeps a call open for exactly as long as it wants.
 */
export type Script = (call: Call) => ScriptedAnswer | undefined | Promise<ScriptedAnswer | undefined>;

/** The sample registry, with what only tests do to it. */
export class SampleRegistry extends Sandboxed {
  override readonly calls = new AwaitedCalls();
  private readonly clock: Clock;
  private handler: Script | undefined;

  constructor(options: SampleRegistryOptions) {
    super(options);
    this.clock = options.clock;
  }

  /** Lets `handler` answer calls first, before faults and latency; undefined ends it. */
  script(handler: Script | undefined): void {
    this.handler = handler;
  }

  protected override async respond(call: Call, route: Route, response: ServerResponse): Promise<void> {
    const scripted = await this.handler?.(call);
    if (scripted !== undefined) return sendScripted(scripted, response, this.clock);
    return super.respond(call, route, response);
  }
}

class AwaitedCalls extends CallLog {
  private waiters: { total: number; resolve: () => void }[] = [];

  /** Resolves once `total` is at least `count`. */
  async reached(count: number): Promise<void> {
    if (this.total >= count) return;
    await new Promise<void>((resolve) => {
      this.waiters.push({ total: count, resolve });
    });
  }

  override begin(call: Call): void {
    super.begin(call);
    const due = this.waiters.filter((waiter) => waiter.total <= this.total);
    this.waiters = this.waiters.filter((waiter) => waiter.total > this.total);
    for (const waiter of due) waiter.resolve();
  }
}

function hasFraming(headers: readonly string[]): boolean {
  return headers.some((name, i) => i % 2 === 0 && /^(content-length|transfer-encoding)$/i.test(name));
}

/** Sends `scripted` byte for byte. */
async function sendScripted(scripted: ScriptedAnswer, response: ServerResponse, clock: Clock): Promise<void> {
  if ("raw" in scripted) {
    response.socket?.end(scripted.raw);
    return;
  }
  const { status, statusText, body = "", delay = 0 } = scripted;
  if (delay > 0) await sleep(delay, clock);
  const headers = [...(scripted.headers ?? [])];
  const isWhole = typeof body === "string" || body instanceof Uint8Array;
  const mayHaveBody = status !== 304 && status !== 204;
  if (isWhole && mayHaveBody && !hasFraming(headers)) headers.push("Content-Length", String(Buffer.byteLength(body)));
  response.sendDate = false;
  if (statusText === undefined) response.writeHead(status, headers);
  else response.writeHead(status, statusText, headers);
  if (isWhole) response.end(body);
  else await pipeline(Readable.from(body), response);
}
