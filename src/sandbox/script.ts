import type { ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Clock, Duration } from "../clock.ts";
import type { Call } from "./call-log.ts";

/** Resolves after `duration` on `clock`; at once when there is nothing to wait for. */
export async function delay(clock: Clock, duration: Duration): Promise<void> {
  if (duration <= 0) return;
  await new Promise<void>((resolve) => {
    clock.after(duration, resolve);
  });
}

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

function hasFraming(headers: readonly string[]): boolean {
  return headers.some((name, i) => i % 2 === 0 && /^(content-length|transfer-encoding)$/i.test(name));
}

/** Sends `scripted` byte for byte. */
export async function sendScripted(scripted: ScriptedAnswer, response: ServerResponse, clock: Clock): Promise<void> {
  if ("raw" in scripted) {
    response.socket?.end(scripted.raw);
    return;
  }
  if (scripted.delay !== undefined) await delay(clock, scripted.delay);
  const { status, statusText, body = "" } = scripted;
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
