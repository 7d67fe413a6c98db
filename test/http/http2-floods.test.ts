import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ask, CODE, FLAG, FRAME, frame, type FrameClient, headerBlock, openHttp2, REQUEST } from "../support/http2.ts";
import {
  block,
  continuation,
  data,
  headers,
  NEVER,
  NEVER_WITH_BODY,
  ping,
  priority,
  reset,
  SETTING,
  setting,
  settings,
  shakeHands,
  windowUpdate,
} from "../support/http2-conformance.ts";
import { type Http2Listener, startHttp2Listener } from "../support/http2-listener.ts";

const MIB = 1024 * 1024;

let listener: Http2Listener;
let url: string;
let requests: number;
let answer: (request: IncomingMessage, response: ServerResponse) => void;

beforeEach(async () => {
  requests = 0;
  answer = (request, response) => {
    if (request.url === "/") response.end("ok");
    else request.on("error", () => undefined).resume();
  };
  listener = await startHttp2Listener({
    answer: (request, response) => {
      requests += 1;
      answer(request, response);
    },
  });
  ({ url } = listener);
});

afterEach(() => listener.close());

/** So many of what `make` makes, one behind the other. */
function many(count: number, make: (i: number) => Buffer): Buffer {
  return Buffer.concat(Array.from({ length: count }, (_, i) => make(i)));
}

/** Sends what `make` makes for the next streams, fewer at once than may be open, until the connection ends. */
async function floodInTurns(client: FrameClient, most: number, make: (stream: number) => Buffer): Promise<void> {
  for (let sent = 0; sent < most && !client.isClosed; sent += 50) {
    client.frames.length = 0;
    client.send(
      many(50, (i) => make(2 * (sent + i) + 1)),
      ping(),
    );
    await client.find(({ type }) => type === FRAME.ping);
  }
}

describe("a connection that", () => {
  test("opens and resets streams without end is ended (CVE-2023-44487)", async () => {
    const client = await shakeHands(url);
    await floodInTurns(client, 2_000, (stream) => Buffer.concat([headers(stream, NEVER), reset(stream)]));
    expect(client.isClosed).toBe(true);
    expect(requests).toBeLessThan(500);
    expect(listener.closed).toEqual(["flood"]);
  });

  test("opens and resets streams in one burst is ended before all of them are served", async () => {
    const client = await shakeHands(url);
    client.send(many(2_000, (i) => Buffer.concat([headers(2 * i + 1, NEVER), reset(2 * i + 1)])));
    await client.closed();
    expect(requests).toBeLessThan(500);
  });

  test("gives up some requests stays", async () => {
    const session = await openHttp2(url);
    for (let i = 0; i < 100; i++) {
      const stream = session.request({ ":path": "/never" });
      stream.on("error", () => undefined).close(CODE.cancel);
      await once(stream, "close");
    }
    expect((await ask(session, { path: "/" })).text).toBe("ok");
    expect(listener.closed).toEqual([]);
  });

  test.each([
    [
      "trailers in upper case",
      (stream: number) => [
        headers(stream, NEVER_WITH_BODY, FLAG.endHeaders),
        frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, stream, headerBlock([["X-TEST", "ok"]])),
      ],
    ],
    [
      "bodies that are too short",
      (stream: number) => [
        headers(stream, { ...NEVER_WITH_BODY, "content-length": "5" }, FLAG.endHeaders),
        data(stream),
      ],
    ],
  ])("has its streams reset for %s without end is ended (CVE-2025-8671)", async (_what, make) => {
    const client = await shakeHands(url);
    await floodInTurns(client, 1_000, (stream) => Buffer.concat(make(stream)));
    expect(client.isClosed).toBe(true);
    expect(requests).toBeLessThan(500);
    expect(listener.closed).toEqual(["flood"]);
  });

  test("sends malformed requests without end is ended", async () => {
    const client = await shakeHands(url);
    await floodInTurns(client, 2_000, (stream) => headers(stream, { ":path": "" }));
    expect([client.isClosed, requests]).toEqual([true, 0]);
  });

  test.each([
    ["pings (CVE-2019-9512)", (i: number) => ping(i % 256)],
    ["settings (CVE-2019-9515)", () => settings(setting(SETTING.initialWindowSize, 65_535))],
  ])("floods with %s is ended", async (_what, make) => {
    const client = await shakeHands(url);
    client.send(headers(1), many(3_000, make));
    await client.closed();
    expect(listener.closed).toEqual(["flood"]);
  });

  test("pings now and then stays", async () => {
    const session = await openHttp2(url);
    await ask(session, { path: "/" });
    for (let i = 0; i < 200; i++) {
      await new Promise((resolve) => session.ping(() => resolve(undefined)));
      listener.clock.advance(100);
    }
    expect((await ask(session, { path: "/" })).status).toBe(200);
  });

  const begun = frame(FRAME.headers, FLAG.endStream, 1, block());
  const open = headers(1, NEVER_WITH_BODY, FLAG.endHeaders);
  test.each([
    ["CONTINUATION (CVE-2024-27316)", [begun, many(1_000, () => continuation(1, 0, "x-more", 1_000))], 0],
    ["empty CONTINUATION", [begun, many(10_000, () => frame(FRAME.continuation, 0, 1))], 0],
    ["empty DATA (CVE-2019-9518)", [open, many(20_000, () => frame(FRAME.data, 0, 1))], 1],
    ["empty DATA with padding", [open, many(20_000, () => frame(FRAME.data, FLAG.padded, 1, Buffer.of(0)))], 1],
    ["PRIORITY (CVE-2019-9513)", [many(20_000, (i) => frame(FRAME.priority, 0, 2 * i + 1, priority(0)))], 0],
    ["unknown frames", [many(20_000, () => frame(0x40, 0, 0))], 0],
    ["many values of settings", [settings(...Array.from({ length: 1_000 }, () => setting(0xff, 1)))], 0],
    ["RST_STREAM", [open, many(5_000, () => reset(1))], 1],
    ["GOAWAY", [many(5_000, () => frame(FRAME.goaway, 0, 0, Buffer.alloc(8)))], 0],
    ["streams beyond those that may be open", [many(1_000, (i) => headers(2 * i + 1, NEVER))], 100],
  ])("floods with %s is ended", async (_what, sent, served) => {
    const client = await shakeHands(url);
    client.send(...sent, headers(0x7fffffff));
    await client.closed();
    expect(requests).toBe(served);
  });

  // Nothing comes of these, and nothing is kept of them.
  test.each([
    ["WINDOW_UPDATE", many(10_000, () => windowUpdate(0, 1))],
    ["DATA of a stream that is reset", Buffer.concat([open, reset(1), many(10_000, () => frame(FRAME.data, 0, 1))])],
    ["fields without a name (CVE-2019-9516)", namelessFields(1, 5_000)],
  ])("floods with %s is answered as ever", async (_what, sent) => {
    const client = await shakeHands(url);
    client.frames.length = 0;
    client.send(sent, headers(0x7fffffff));
    expect(await client.endOf(0x7fffffff)).toBe("answered");
    expect(client.frames.filter(({ type }) => type !== FRAME.data && type !== FRAME.headers)).toEqual([]);
  });

  test("makes much of few bytes by its table of fields gets nothing of it through", async () => {
    const client = await shakeHands(url);
    const entry = Buffer.concat([Buffer.from("4001617fa11e", "hex"), Buffer.alloc(4_000, "x")]);
    const whole = (stream: number, ...parts: Buffer[]) =>
      frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, stream, Buffer.concat([block(), ...parts]));
    client.send(whole(1, entry));
    expect(await client.endOf(1)).toBe("answered");
    // Each byte more is that field again: 64 MB of fields in a frame.
    const bombs = Array.from({ length: 50 }, (_, i) => 2 * i + 3);
    client.send(...bombs.map((stream) => whole(stream, Buffer.alloc(16_000, 0xbe))), headers(201));
    expect(await client.endOf(201)).toBe("answered");
    expect(new Set(await Promise.all(bombs.map((stream) => client.endOf(stream))))).toEqual(new Set([CODE.calm]));
    expect(requests).toBe(2);
  });
});

/** A request with fields whose names and values are empty. */
function namelessFields(stream: number, count: number): Buffer {
  const fields = Array.from({ length: count }, () => ["", ""] as const);
  return frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, stream, headerBlock([...REQUEST, ...fields]));
}

describe("a client that takes its answers", () => {
  const bytesOf = (client: FrameClient) =>
    client.frames.filter(({ type }) => type === FRAME.data).reduce((sum, { payload }) => sum + payload.length, 0);

  test("by the byte each second is cut off after 30 s (CVE-2019-9511)", async () => {
    answer = (_request, response) => response.end(Buffer.alloc(MIB));
    const client = await shakeHands(url);
    client.send(settings(setting(SETTING.initialWindowSize, 0)), headers(1));
    for (let second = 1; second < 30; second++) {
      client.send(windowUpdate(1, 1));
      await client.find(() => bytesOf(client) === second);
      listener.clock.advance(1_000);
    }
    expect(listener.closed).toEqual([]);
    listener.clock.advance(2_000);
    await client.closed();
    expect(listener.closed).toEqual(["unread"]);
  });

  test("by the byte, very often, gets as many bytes in few frames", async () => {
    answer = (_request, response) => response.end(Buffer.alloc(MIB));
    const client = await shakeHands(url);
    client.send(settings(setting(SETTING.initialWindowSize, 0)), headers(1));
    await client.find(({ type }) => type === FRAME.headers);
    client.send(many(10_000, () => windowUpdate(1, 1)));
    await client.find(() => bytesOf(client) === 10_000);
    expect(client.frames.filter(({ type }) => type === FRAME.data).length).toBeLessThan(1_000);
  });

  test("not at all, with its windows wide open, is served no more, and cut off (CVE-2019-9517)", async () => {
    const body = Buffer.alloc(4 * MIB);
    answer = (_request, response) => response.end(body);
    const client = await shakeHands(url);
    client.socket.pause();
    const wide = [settings(setting(SETTING.initialWindowSize, 0x7fffffff)), windowUpdate(0, 0x7ffe0000)];
    client.send(
      ...wide,
      many(90, (i) => headers(2 * i + 1)),
    );
    // What the kernel takes is progress; then there is none.
    await expect.poll(() => (listener.clock.advance(1_000), listener.closed), { interval: 5 }).toEqual(["unread"]);
    expect(requests).toBeLessThan(30);
  });

  test("with no window on a hundred streams, has them all when it opens one", async () => {
    const client = await shakeHands(url);
    const streams = Array.from({ length: 100 }, (_, i) => 2 * i + 1);
    client.send(settings(setting(SETTING.initialWindowSize, 0)), ...streams.map((stream) => headers(stream)), ping());
    await client.find(({ type }) => type === FRAME.ping);
    expect(bytesOf(client)).toBe(0);
    client.send(settings(setting(SETTING.initialWindowSize, 1_000)));
    const ends = await Promise.all(streams.map((stream) => client.endOf(stream)));
    expect(new Set(ends)).toEqual(new Set(["answered"]));
  });
});

describe("a connection on which no request comes is closed in time: one", () => {
  test.each([
    ["with a head that does not end", [frame(FRAME.headers, 0, 1, block())]],
    ["with malformed requests alone", [headers(1, { ":path": "" }), headers(3, { ":path": "" })]],
  ])("%s", async (_what, sent) => {
    const client = await shakeHands(url);
    client.send(...sent);
    listener.clock.advance(16_000);
    await client.closed();
    expect(requests).toBe(0);
  });
});
