import type { IncomingMessage, ServerResponse } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { FLAG, FRAME, frame, type Frame, FrameClient, headerBlock, REQUEST, uint32 } from "./http2.ts";
import { type Http2Listener, startHttp2Listener } from "./http2-listener.ts";

/** Codes of errors, each at its number (RFC 9113 §7). */
const ERRORS = [
  "NO_ERROR",
  "PROTOCOL_ERROR",
  "INTERNAL_ERROR",
  "FLOW_CONTROL_ERROR",
  "SETTINGS_TIMEOUT",
  "STREAM_CLOSED",
  "FRAME_SIZE_ERROR",
  "REFUSED_STREAM",
  "CANCEL",
  "COMPRESSION_ERROR",
] as const;
export type ErrorName = (typeof ERRORS)[number];

/** What is sent after the handshake, and what may come of it. */
export type Case = readonly [what: string, frames: readonly Buffer[], allowed: readonly string[]];

/** The connection ends: with a GOAWAY that says why, or without (RFC 9113 §5.4.1). */
export const connectionError = (...codes: ErrorName[]): string[] => [
  ...codes.map((code) => `GOAWAY ${code}`),
  "closed",
];

/** The stream is reset, or the whole connection ends for it (RFC 9113 §5.4.2). */
export const streamError = (...codes: ErrorName[]): string[] => [
  ...codes.map((code) => `RST_STREAM 1 ${code}`),
  ...connectionError(...codes),
];

/**
 * Node ends the connection, and names no better reason: for what RFC 9113 calls an error of the stream, or none. Harmless:
 * who sends such a thing has sent something malformed.
 */
export const ENDED_BY_NODE = connectionError("INTERNAL_ERROR");

export const ANSWERED = ["answered 1"];
export const PONG = ["PING 01"];

/** What the listener serves: an answer at once, one when the body has been read, and none. */
export const AT_ONCE = {} as const;
export const WITH_BODY = { ":method": "POST", ":path": "/body" } as const;
export const NEVER = { ":path": "/never" } as const;
export const NEVER_WITH_BODY = { ":method": "POST", ":path": "/never" } as const;

/** What `AT_ONCE` is answered with. */
export const TEXT = "hello, world";

/** More than the window that a connection has at first. */
export const LONG = { ":path": "/long" } as const;
export const LONG_TEXT = "x".repeat(70_000);

/** Answered with a field that no single frame holds. */
export const WIDE = { ":path": "/wide" } as const;

/** Answered although nobody reads its body. */
export const UNREAD = { ":method": "POST", ":path": "/unread" } as const;

/** Neither answered nor read. */
export const IDLE = { ":method": "POST", ":path": "/idle" } as const;

export interface Seen {
  /** Requests that came through, and the fields of the last one. */
  requests: number;
  fields: readonly string[];
}

/** A listener for all tests of a file: each opens a connection of its own. */
export function useListener(): { readonly url: string; readonly seen: Seen } {
  const seen: Seen = { requests: 0, fields: [] };
  let listener: Http2Listener | undefined;
  beforeAll(async () => {
    listener = await startHttp2Listener({ answer: (request, response) => serve(request, response, seen) });
  });
  afterAll(() => listener?.close());
  return {
    seen,
    get url() {
      return listener!.url;
    },
  };
}

function serve(request: IncomingMessage, response: ServerResponse, seen: Seen): void {
  seen.requests += 1;
  seen.fields = request.rawHeaders;
  request.on("error", () => undefined);
  if (request.url === "/body") request.resume().on("end", () => response.end(TEXT));
  else if (request.url === "/never") request.resume();
  else if (request.url === "/idle") return;
  else if (request.url === "/wide") response.writeHead(200, ["x-wide", "x".repeat(40_000)]).end(TEXT);
  else response.end(request.url === "/long" ? LONG_TEXT : TEXT);
}

/** A connection whose settings both sides know of, and have acknowledged. */
export async function shakeHands(url: string): Promise<FrameClient> {
  const client = await FrameClient.open(url, setting(SETTING.initialWindowSize, 65_535));
  await client.find(({ type, flags }) => type === FRAME.settings && flags === 0);
  client.send(frame(FRAME.settings, FLAG.ack, 0));
  await client.find(({ type, flags }) => type === FRAME.settings && flags === FLAG.ack);
  return client;
}

/** The same for what is ignored: nothing comes of it but the PING behind it. */
export function testEachIgnored(
  listener: { readonly url: string; readonly seen: Seen },
  cases: readonly (readonly [what: string, frames: readonly Buffer[], requests: number])[],
): void {
  test.each(cases)("%s", async (_what, frames, requests) => {
    const client = await shakeHands(listener.url);
    const before = listener.seen.requests;
    client.send(...frames, ping());
    await expectOutcome(client, PONG);
    expect(listener.seen.requests - before).toBe(requests);
  });
}

/** Sends each case's frames on a connection of its own, and looks at the first thing that comes of them. */
export function testEach(listener: { readonly url: string }, cases: readonly Case[]): void {
  test.each(cases)("%s", async (_what, frames, allowed) => {
    const client = await shakeHands(listener.url);
    client.send(...frames);
    await expectOutcome(client, allowed);
  });
}

export async function expectOutcome(client: FrameClient, allowed: readonly string[]): Promise<void> {
  const found = await client.find((each) => outcomeOf(each) !== undefined);
  expect(allowed).toContain(found === undefined ? "closed" : outcomeOf(found));
  // RFC 9113 §5.4.1: who sends a GOAWAY for an error closes the connection.
  if (found?.type === FRAME.goaway) await client.closed();
}

function outcomeOf({ type, flags, stream, payload }: Frame): string | undefined {
  if (type === FRAME.goaway) return `GOAWAY ${nameOf(payload.readUInt32BE(4))}`;
  if (type === FRAME.reset) return `RST_STREAM ${stream} ${nameOf(payload.readUInt32BE(0))}`;
  if (type === FRAME.ping) return `PING ${payload.toString("hex").slice(-2)}${flags === FLAG.ack ? "" : "?"}`;
  if (type <= FRAME.headers && (flags & FLAG.endStream) !== 0) return `answered ${stream}`;
  return undefined;
}

function nameOf(code: number): string {
  return ERRORS[code] ?? String(code);
}

/** Parameters of a SETTINGS frame (RFC 9113 §6.5.2). */
export const SETTING = {
  headerTableSize: 1,
  enablePush: 2,
  maxConcurrentStreams: 3,
  initialWindowSize: 4,
  maxFrameSize: 5,
  maxHeaderListSize: 6,
} as const;

export function setting(id: number, value: number): Buffer {
  return Buffer.concat([Buffer.of(0, id), uint32(value)]);
}

/** What a SETTINGS frame says. */
export function settingsOf({ payload }: Frame): Map<number, number> {
  const at = Array.from({ length: payload.length / 6 }, (_, i) => 6 * i);
  return new Map(at.map((offset) => [payload.readUInt16BE(offset), payload.readUInt32BE(offset + 2)]));
}

export function settings(...all: readonly Buffer[]): Buffer {
  return frame(FRAME.settings, 0, 0, Buffer.concat(all));
}

/** The block of a GET, or of another request, with these fields besides or in place of the usual ones. */
export function block(fields: Readonly<Record<string, string | undefined>> = {}): Buffer {
  const all = Object.entries({ ...Object.fromEntries(REQUEST), ...fields } as Record<string, string | undefined>);
  return headerBlock(all.flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const])));
}

/** A request's HEADERS, all of it where no other flags are given. */
export function headers(
  stream: number,
  fields: Readonly<Record<string, string | undefined>> = {},
  flags: number = FLAG.endHeaders | FLAG.endStream,
): Buffer {
  return frame(FRAME.headers, flags, stream, block(fields));
}

export function continuation(stream: number, flags: number, name = "x-more", length = 100): Buffer {
  return frame(FRAME.continuation, flags, stream, headerBlock([[name, "x".repeat(length)]]));
}

export function data(stream: number, flags: number = FLAG.endStream): Buffer {
  return frame(FRAME.data, flags, stream, Buffer.from("test"));
}

export function reset(stream: number, code: number = ERRORS.indexOf("CANCEL")): Buffer {
  return frame(FRAME.reset, 0, stream, uint32(code));
}

/** A PRIORITY frame (RFC 9113 §6.3), or what a HEADERS frame says of it. */
export function priority(dependency: number, weight = 256): Buffer {
  return Buffer.concat([uint32(dependency), Buffer.of(weight - 1)]);
}

export function windowUpdate(stream: number, increment: number): Buffer {
  return frame(FRAME.windowUpdate, 0, stream, uint32(increment));
}

export function ping(last = 1, flags = 0): Buffer {
  return frame(FRAME.ping, flags, 0, Buffer.of(0, 0, 0, 0, 0, 0, 0, last));
}
