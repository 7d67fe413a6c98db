import { describe, expect, test } from "vitest";
import { ask, CODE, FLAG, FRAME, frame, type Frame, type FrameClient, openHttp2, uint32 } from "../support/http2.ts";
import {
  ANSWERED,
  block,
  connectionError,
  continuation,
  data,
  expectOutcome,
  headers,
  IDLE,
  LONG,
  LONG_TEXT,
  NEVER,
  NEVER_WITH_BODY,
  ping,
  PONG,
  priority,
  reset,
  SETTING,
  setting,
  settings,
  settingsOf,
  shakeHands,
  streamError,
  testEach,
  testEachIgnored,
  TEXT,
  UNREAD,
  useListener,
  windowUpdate,
  WITH_BODY,
} from "../support/http2-conformance.ts";

const listener = useListener();

describe("a stream that is idle (RFC 9113 §5.1):", () => {
  testEach(listener, [
    ["PRIORITY is taken", [frame(FRAME.priority, 0, 1, priority(0)), ping()], PONG],
    ["DATA is an error", [data(1)], connectionError("PROTOCOL_ERROR")],
    ["RST_STREAM is one", [reset(1)], connectionError("PROTOCOL_ERROR")],
    ["WINDOW_UPDATE is one", [windowUpdate(1, 100)], connectionError("PROTOCOL_ERROR")],
    [
      "CONTINUATION is one",
      [frame(FRAME.continuation, FLAG.endHeaders, 1, block())],
      connectionError("PROTOCOL_ERROR"),
    ],
  ]);
});

describe("a stream whose request is whole (RFC 9113 §5.1):", () => {
  testEach(listener, [
    ["RST_STREAM is taken", [headers(1, NEVER), reset(1), ping()], PONG],
    ["DATA is an error", [headers(1, NEVER), data(1)], streamError("STREAM_CLOSED")],
    ["HEADERS are one", [headers(1, NEVER), headers(1, NEVER)], streamError("STREAM_CLOSED")],
    [
      "CONTINUATION is one",
      [headers(1, NEVER), continuation(1, FLAG.endHeaders)],
      streamError("STREAM_CLOSED", "PROTOCOL_ERROR"),
    ],
  ]);

  test.each([
    ["WINDOW_UPDATE", []],
    ["PRIORITY", [frame(FRAME.priority, 0, 1, priority(0))]],
  ])("%s is taken", async (_what, before) => {
    const client = await shakeHands(listener.url);
    client.send(settings(setting(SETTING.initialWindowSize, 0)), headers(1), ...before, windowUpdate(1, 1));
    const first = await client.find(({ type }) => type === FRAME.data);
    expect(first?.payload.toString()).toBe(TEXT.slice(0, 1));
  });
});

describe("a stream that the client has reset (RFC 9113 §5.1):", () => {
  const open = [headers(1, NEVER_WITH_BODY, FLAG.endHeaders), reset(1)];
  // They may have been on their way.
  testEachIgnored(listener, [
    ["DATA is ignored", [...open, data(1)], 1],
    ["HEADERS are", [...open, headers(1)], 1],
  ]);
  testEach(listener, [
    [
      "CONTINUATION is an error",
      [...open, continuation(1, FLAG.endHeaders)],
      streamError("STREAM_CLOSED", "PROTOCOL_ERROR"),
    ],
  ]);
});

describe("a stream that is answered (RFC 9113 §5.1):", () => {
  test.each([
    ["PRIORITY is taken", [frame(FRAME.priority, 0, 1, priority(0)), ping()], PONG],
    // RFC 9113 wants an error here; nghttp2 keeps nothing of a stream that is over, so that none can be told apart.
    ["DATA is ignored", [data(1), ping()], PONG],
    ["HEADERS are no second request", [headers(1), ping()], PONG],
    [
      "CONTINUATION is an error",
      [continuation(1, FLAG.endHeaders)],
      connectionError("STREAM_CLOSED", "PROTOCOL_ERROR"),
    ],
  ])("%s", async (_what, sent, allowed) => {
    const client = await shakeHands(listener.url);
    client.send(headers(1));
    await expectOutcome(client, ANSWERED);
    client.frames.length = 0;
    const before = listener.seen.requests;
    client.send(...sent);
    await expectOutcome(client, allowed);
    expect(listener.seen.requests).toBe(before);
  });
});

describe("numbers of streams (RFC 9113 §5.1.1, §5.1.2):", () => {
  testEach(listener, [
    ["an even one is an error", [headers(2)], connectionError("PROTOCOL_ERROR")],
    ["the last there is, is answered", [headers(0x7fffffff)], ["answered 2147483647"]],
  ]);
  // RFC 9113 wants an error here as well: see above.
  testEachIgnored(listener, [["one below the last is ignored", [headers(5, NEVER), headers(3, NEVER)], 1]]);

  test("one more than may be open is refused", async () => {
    const client = await shakeHands(listener.url);
    const first = client.frames.find(({ type }) => type === FRAME.settings)!;
    const most = settingsOf(first).get(SETTING.maxConcurrentStreams)!;
    const last = 2 * most + 1;
    client.send(settings(setting(SETTING.initialWindowSize, 0)));
    for (let stream = 1; stream <= last; stream += 2) client.send(headers(stream));
    await expectOutcome(client, [
      `RST_STREAM ${last} PROTOCOL_ERROR`,
      `RST_STREAM ${last} REFUSED_STREAM`,
      ...connectionError("PROTOCOL_ERROR", "REFUSED_STREAM"),
    ]);
  });
});

/** What came of the body, frame by frame. */
function body(client: FrameClient): string[] {
  return client.frames.filter(isData).map(({ payload }) => payload.toString());
}

function isData({ type }: Frame): boolean {
  return type === FRAME.data;
}

/** Waits until all that was sent before has been seen to. */
async function settle(client: FrameClient, last: number): Promise<void> {
  client.send(ping(last));
  await client.find(({ type, payload }) => type === FRAME.ping && payload[7] === last);
}

describe("a client's window (RFC 9113 §6.9)", () => {
  test.each([
    ["of one byte", [setting(SETTING.initialWindowSize, 1)]],
    ["of the last value of a frame", [setting(SETTING.initialWindowSize, 100), setting(SETTING.initialWindowSize, 1)]],
  ])("%s is not overrun", async (_what, all) => {
    const client = await shakeHands(listener.url);
    client.send(settings(...all), headers(1));
    await client.find(isData);
    await settle(client, 1);
    expect(body(client)).toEqual([TEXT.slice(0, 1)]);
    client.send(windowUpdate(1, 1_000));
    expect(await client.endOf(1)).toBe("answered");
    expect(body(client).join("")).toBe(TEXT);
  });

  test("of the connection is not overrun", async () => {
    const client = await shakeHands(listener.url);
    client.send(settings(setting(SETTING.initialWindowSize, 1_000_000)), headers(1, LONG));
    const length = () => body(client).join("").length;
    await client.find(() => length() === 65_535);
    await settle(client, 1);
    expect(length()).toBe(65_535);
    client.send(windowUpdate(0, 1_000_000));
    expect(await client.endOf(1)).toBe("answered");
    expect(body(client).join("")).toBe(LONG_TEXT);
  });

  test("grows on streams that are open when their first size does", async () => {
    const client = await shakeHands(listener.url);
    client.send(settings(setting(SETTING.initialWindowSize, 0)), headers(1));
    await settle(client, 1);
    expect(body(client)).toEqual([]);
    client.send(settings(setting(SETTING.initialWindowSize, 1)));
    await client.find(isData);
    await settle(client, 2);
    expect(body(client)).toEqual([TEXT.slice(0, 1)]);
  });

  test("may be less than nothing, and is counted on from there", async () => {
    const client = await shakeHands(listener.url);
    client.send(settings(setting(SETTING.initialWindowSize, 3)), headers(1));
    await client.find(isData);
    client.send(settings(setting(SETTING.initialWindowSize, 2)));
    await settle(client, 1);
    client.send(windowUpdate(1, 1));
    await settle(client, 2);
    expect(body(client)).toEqual([TEXT.slice(0, 3)]);
    client.send(windowUpdate(1, 1));
    await settle(client, 3);
    expect(body(client)).toEqual([TEXT.slice(0, 3), TEXT.slice(3, 4)]);
  });

  testEach(listener, [
    [
      "beyond 2 GiB ends the connection",
      [windowUpdate(0, 0x7fffffff), windowUpdate(0, 0x7fffffff)],
      connectionError("FLOW_CONTROL_ERROR"),
    ],
    [
      "beyond 2 GiB of a stream ends that, or the connection",
      [headers(1, NEVER_WITH_BODY, FLAG.endHeaders), windowUpdate(1, 0x7fffffff), windowUpdate(1, 0x7fffffff)],
      streamError("FLOW_CONTROL_ERROR"),
    ],
    [
      "beyond 2 GiB by the settings ends the connection",
      [headers(1, NEVER), windowUpdate(1, 0x7fff0000), settings(setting(SETTING.initialWindowSize, 0x7fffffff))],
      connectionError("FLOW_CONTROL_ERROR"),
    ],
    [
      "of 2 GiB by the settings ends the connection",
      [frame(FRAME.settings, 0, 0, Buffer.concat([Buffer.of(0, 4), uint32(0x80000000)]))],
      connectionError("FLOW_CONTROL_ERROR"),
    ],
  ]);
});

describe("the listener's window (RFC 9113 §5.2, §6.9)", () => {
  const part = (stream: number, length: number, flags = 0) => frame(FRAME.data, flags, stream, Buffer.alloc(length));
  const times = (count: number, each: Buffer) => Array.from({ length: count }, () => each);
  const opened = (stream: number, fields: Readonly<Record<string, string>>) => headers(stream, fields, FLAG.endHeaders);
  const given = (client: FrameClient, of: number) =>
    client.frames
      .filter(({ type, stream }) => type === FRAME.windowUpdate && stream === of)
      .reduce((sum, { payload }) => sum + payload.readUInt32BE(0), 0);

  testEach(listener, [
    ["of a stream may be filled", [opened(1, IDLE), ...times(5, part(1, 13_107)), ping()], PONG],
    [
      "of a stream may not be overrun",
      [opened(1, IDLE), ...times(5, part(1, 13_107)), part(1, 1)],
      streamError("FLOW_CONTROL_ERROR"),
    ],
  ]);

  const padding = frame(FRAME.data, FLAG.padded, 1, Buffer.concat([Buffer.of(255), Buffer.alloc(255)]));
  test.each([
    // So much that at least half of a window has to be given back.
    ["is given back for a body that is read", [opened(1, NEVER_WITH_BODY), ...times(4, part(1, 16_000))], [0, 1]],
    ["is given back for padding", [opened(1, NEVER_WITH_BODY), ...times(250, padding)], [0, 1]],
    ["is given back for what was reset unread", [opened(1, IDLE), ...times(4, part(1, 16_000)), reset(1)], [0]],
    ["is given back for what comes behind a reset", [opened(1, IDLE), reset(1), ...times(4, part(1, 16_000))], [0]],
  ] as const)("%s", async (_what, sent, streams) => {
    const client = await shakeHands(listener.url);
    client.send(...sent);
    await client.find(() => streams.every((stream) => given(client, stream) >= 32_000));
    expect(client.isClosed).toBe(false);
  });

  // Node gives the connection's back as soon as something comes: what is unread is bounded by the streams'.
  test("is a stream's own: one that is not read holds no other up", async () => {
    const client = await shakeHands(listener.url);
    client.send(opened(1, IDLE), ...times(4, part(1, 16_000)));
    await client.find(() => given(client, 0) >= 32_000);
    client.send(opened(3, WITH_BODY), part(3, 16_000), part(3, 16_000, FLAG.endStream));
    expect(await client.endOf(3)).toBe("answered");
    expect(given(client, 1)).toBe(0);
  });

  test("is given back for bodies that nobody reads: the next one comes through", async () => {
    const session = await openHttp2(listener.url);
    const send = (path: string, length: number) => ask(session, { path, body: Buffer.alloc(length) });
    for (let i = 0; i < 4; i++) expect((await send(UNREAD[":path"], 60_000)).text).toBe(TEXT);
    expect((await send(WITH_BODY[":path"], 200_000)).text).toBe(TEXT);
  });
});

test("an error of one stream leaves the others (RFC 9113 §5.4.2)", async () => {
  const client = await shakeHands(listener.url);
  client.send(headers(1, WITH_BODY, FLAG.endHeaders), headers(3, { ":path": "" }), data(1), headers(5));
  const ends = [await client.endOf(1), await client.endOf(3), await client.endOf(5)];
  expect(ends).toEqual(["answered", CODE.protocol, "answered"]);
});
