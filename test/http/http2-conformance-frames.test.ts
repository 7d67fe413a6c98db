import { describe, expect, test } from "vitest";
import { ask, FLAG, FRAME, frame, FrameClient, headerBlock, openHttp2, REQUEST, uint32 } from "../support/http2.ts";
import {
  ANSWERED,
  AT_ONCE,
  block,
  connectionError,
  continuation,
  data,
  ENDED_BY_NODE,
  expectOutcome,
  headers,
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
  useListener,
  WIDE,
  windowUpdate,
  WITH_BODY,
} from "../support/http2-conformance.ts";

const listener = useListener();
const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
const UNKNOWN = 0x16;

/** ALTSVC (RFC 7838) and ORIGIN (RFC 8336), which only servers send, and PRIORITY_UPDATE (RFC 9218). */
const EXTENSIONS = [
  frame(0x0a, 0, 0, Buffer.from('\0\x09localhosth2=":1"')),
  frame(0x0c, 0, 0, Buffer.from("\0\x09localhost")),
  frame(0x10, 0, 0, Buffer.concat([uint32(1), Buffer.from("u=1")])),
  ping(),
];

describe("the beginning of a connection (RFC 9113 §3.4)", () => {
  test("is the listener's settings, before anything else", async () => {
    const client = await FrameClient.open(listener.url);
    await client.find(() => true);
    expect([client.frames[0]!.type, client.frames[0]!.flags, client.frames[0]!.stream]).toEqual([FRAME.settings, 0, 0]);
  });

  test.each([
    ["a preface and a request, without settings", [PREFACE, headers(1)]],
    ["a preface and an acknowledgement of settings", [PREFACE, frame(FRAME.settings, FLAG.ack, 0)]],
  ])("with %s ends the connection", async (_what, sent) => {
    const client = await FrameClient.connect(listener.url);
    client.send(...sent);
    await expectOutcome(client, connectionError("PROTOCOL_ERROR"));
  });

  test("is read a byte at a time", async () => {
    const client = await FrameClient.connect(listener.url);
    const sent = Buffer.concat([PREFACE, settings(), headers(1, WITH_BODY, FLAG.endHeaders), data(1)]);
    for (const byte of sent) client.send(Buffer.of(byte));
    await expectOutcome(client, ANSWERED);
  });

  test.each([
    ["another preface", "INVALID CONNECTION PREFACE\r\n\r\n"],
    ["a request of HTTP/1.1", "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"],
  ])("with %s ends the connection", async (_what, sent) => {
    const client = await FrameClient.connect(listener.url);
    client.send(Buffer.from(sent));
    await expectOutcome(client, ENDED_BY_NODE);
  });
});

describe("frames in general (RFC 9113 §4, §5.5):", () => {
  const large = headerBlock([
    ...REQUEST,
    ...Array.from({ length: 5 }, (_, i) => [`x-${i}`, "x".repeat(4_096)] as const),
  ]);
  testEach(listener, [
    ["one of an unknown type is ignored", [frame(UNKNOWN, 0, 0, Buffer.alloc(8)), ping()], PONG],
    ["unknown flags are ignored", [ping(1, 0x16)], PONG],
    ["frames of extensions are ignored", EXTENSIONS, PONG],
    ["the reserved bit is ignored", [frame(FRAME.ping, 0x16, 0x80000000, Buffer.of(0, 0, 0, 0, 0, 0, 0, 1))], PONG],
    [
      "DATA of 16 KiB is read",
      [headers(1, WITH_BODY, FLAG.endHeaders), frame(FRAME.data, FLAG.endStream, 1, Buffer.alloc(16_384))],
      ANSWERED,
    ],
    [
      "DATA of more than that is an error",
      [headers(1, WITH_BODY, FLAG.endHeaders), frame(FRAME.data, FLAG.endStream, 1, Buffer.alloc(16_385))],
      streamError("FRAME_SIZE_ERROR"),
    ],
    [
      "HEADERS of more than that are one of the connection",
      [frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, 1, large)],
      connectionError("FRAME_SIZE_ERROR"),
    ],
    [
      "PING of more than that is one",
      [frame(FRAME.ping, 0, 0, Buffer.alloc(16_385))],
      connectionError("FRAME_SIZE_ERROR"),
    ],
    [
      "SETTINGS of more than that are one",
      [frame(FRAME.settings, 0, 0, Buffer.alloc(16_386))],
      connectionError("FRAME_SIZE_ERROR"),
    ],
    [
      "an unknown frame of more than that is one",
      [frame(UNKNOWN, 0, 0, Buffer.alloc(16_385))],
      connectionError("FRAME_SIZE_ERROR"),
    ],
    [
      // RFC 9113 wants an error; nghttp2 counts what all frames of a block hold, and that is bounded.
      "CONTINUATION of a little more than that is read",
      [headers(1, AT_ONCE, FLAG.endStream), continuation(1, FLAG.endHeaders, "x-more", 16_384)],
      ANSWERED,
    ],
    [
      "CONTINUATION of much more is an error",
      [headers(1, AT_ONCE, FLAG.endStream), continuation(1, FLAG.endHeaders, "x-more", 1_000_000)],
      connectionError("FRAME_SIZE_ERROR", "COMPRESSION_ERROR"),
    ],
    [
      "a block that cannot be read is an error of the connection",
      [frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, 1, Buffer.of(0x40))],
      connectionError("COMPRESSION_ERROR"),
    ],
    [
      "PRIORITY within a block is one",
      [headers(1, AT_ONCE, 0), frame(FRAME.priority, 0, 1, priority(0)), continuation(1, FLAG.endHeaders)],
      connectionError("PROTOCOL_ERROR"),
    ],
    [
      "HEADERS of another stream within a block are one",
      [headers(1, AT_ONCE, 0), headers(3), continuation(1, FLAG.endHeaders)],
      connectionError("PROTOCOL_ERROR"),
    ],
    [
      "an unknown frame within a block is one",
      [headers(1, AT_ONCE, FLAG.endStream), frame(UNKNOWN, 0, 0, Buffer.alloc(8))],
      connectionError("PROTOCOL_ERROR"),
    ],
  ]);
});

describe("DATA (RFC 9113 §6.1):", () => {
  const body = (...parts: Buffer[]) => [headers(1, WITH_BODY, FLAG.endHeaders), ...parts];
  const padded = (padding: number, rest: Buffer) =>
    frame(FRAME.data, FLAG.endStream | FLAG.padded, 1, Buffer.concat([Buffer.of(padding), rest]));
  testEach(listener, [
    ["a frame is read", body(data(1)), ANSWERED],
    ["several are", body(data(1, 0), data(1)), ANSWERED],
    ["padding is left out", body(padded(6, Buffer.from("test\0\0\0\0\0\0"))), ANSWERED],
    ["padding may be all there is", body(padded(4, Buffer.alloc(4))), ANSWERED],
    [
      "padding longer than its frame is an error",
      body(padded(6, Buffer.from("test"))),
      connectionError("PROTOCOL_ERROR"),
    ],
    [
      "a padded frame without its length is one",
      body(frame(FRAME.data, FLAG.padded, 1)),
      connectionError("PROTOCOL_ERROR", "FRAME_SIZE_ERROR"),
    ],
    ["a frame of no stream is one", [data(0)], connectionError("PROTOCOL_ERROR")],
    [
      "a frame behind the end of its stream is one",
      [headers(1, NEVER_WITH_BODY), data(1)],
      streamError("STREAM_CLOSED"),
    ],
  ]);
});

describe("HEADERS (RFC 9113 §6.2):", () => {
  const framed = (flags: number, ...parts: Buffer[]) =>
    frame(FRAME.headers, flags | FLAG.endHeaders | FLAG.endStream, 1, Buffer.concat(parts));
  testEach(listener, [
    ["a request is answered", [headers(1)], ANSWERED],
    ["padding is left out", [framed(FLAG.padded, Buffer.of(8), block(), Buffer.alloc(8))], ANSWERED],
    ["a priority is left out", [framed(FLAG.priority, priority(0), block())], ANSWERED],
    [
      "padding longer than its frame is an error",
      [framed(FLAG.padded, Buffer.of(block().length + 2), block())],
      streamError("PROTOCOL_ERROR"),
    ],
    ["a frame of no stream is one", [headers(0)], connectionError("PROTOCOL_ERROR")],
    [
      "a frame too short for its priority is one",
      [framed(FLAG.priority, Buffer.of(0, 0, 0))],
      connectionError("FRAME_SIZE_ERROR", "PROTOCOL_ERROR"),
    ],
  ]);
});

describe("PRIORITY (RFC 9113 §5.3, §6.3):", () => {
  const say = (stream: number, payload: Buffer) => frame(FRAME.priority, 0, stream, payload);
  testEach(listener, [
    ["the least weight is taken", [say(1, priority(0, 1)), headers(1)], ANSWERED],
    ["the greatest weight is", [say(1, priority(0, 256)), headers(1)], ANSWERED],
    ["a dependency is", [say(3, priority(1)), headers(1)], ANSWERED],
    ["an exclusive one is", [say(1, priority(0x80000000)), headers(1)], ANSWERED],
    ["that of a later stream closes no earlier one", [say(3, priority(0)), headers(1)], ANSWERED],
    [
      "one of another length is an error",
      [headers(1, NEVER), say(1, Buffer.alloc(4))],
      streamError("FRAME_SIZE_ERROR"),
    ],
    [
      "a request that depends on itself is one",
      [
        frame(
          FRAME.headers,
          FLAG.endHeaders | FLAG.endStream | FLAG.priority,
          1,
          Buffer.concat([priority(1), block(NEVER)]),
        ),
      ],
      streamError("PROTOCOL_ERROR"),
    ],
  ]);
  // What they say is out of use: nghttp2 does not look.
  testEachIgnored(listener, [
    ["one of no stream is ignored", [say(0, priority(0))], 0],
    ["a stream that depends on itself is", [say(1, priority(1))], 0],
  ]);
});

describe("RST_STREAM (RFC 9113 §6.4):", () => {
  testEach(listener, [
    ["it ends a request", [headers(1, NEVER_WITH_BODY, FLAG.endHeaders), reset(1), ping()], PONG],
    ["with an unknown code as well (§7)", [headers(1, NEVER_WITH_BODY, FLAG.endHeaders), reset(1, 0xff), ping()], PONG],
    ["one of no stream is an error", [reset(0)], connectionError("PROTOCOL_ERROR")],
    ["one of an idle stream is one", [reset(1)], connectionError("PROTOCOL_ERROR")],
    [
      "one of another length is one",
      [headers(1, NEVER), frame(FRAME.reset, 0, 1, Buffer.alloc(3))],
      connectionError("FRAME_SIZE_ERROR"),
    ],
  ]);
});

const LARGEST = [
  setting(SETTING.headerTableSize, 0xffffffff),
  setting(SETTING.enablePush, 1),
  setting(SETTING.maxConcurrentStreams, 0xffffffff),
  setting(SETTING.initialWindowSize, 0x7fffffff),
  setting(SETTING.maxFrameSize, 0xffffff),
  setting(SETTING.maxHeaderListSize, 0xffffffff),
];

const LEAST = [
  setting(SETTING.headerTableSize, 0),
  setting(SETTING.enablePush, 0),
  setting(SETTING.maxConcurrentStreams, 0),
  setting(SETTING.initialWindowSize, 0),
  setting(SETTING.maxFrameSize, 16_384),
  setting(SETTING.maxHeaderListSize, 0),
];

describe("SETTINGS (RFC 9113 §6.5):", () => {
  test("they are acknowledged, all of them known or not", async () => {
    const client = await shakeHands(listener.url);
    const acks = () => client.frames.filter(({ type, flags }) => type === FRAME.settings && flags === FLAG.ack);
    expect(acks()).toHaveLength(1);
    client.send(
      settings(
        setting(SETTING.headerTableSize, 4_096),
        setting(SETTING.enablePush, 1),
        setting(SETTING.maxConcurrentStreams, 100),
        setting(SETTING.initialWindowSize, 65_535),
        setting(SETTING.maxFrameSize, 16_384),
        setting(SETTING.maxHeaderListSize, 100),
      ),
      settings(setting(SETTING.enablePush, 0)),
      settings(setting(0xff, 1)),
      settings(),
      ping(),
    );
    await client.find(({ type }) => type === FRAME.ping);
    expect(acks().map(({ stream, payload }) => [stream, payload.length])).toEqual(
      Array.from({ length: 5 }, () => [0, 0]),
    );
  });

  test("those of the listener are such as a server may have", async () => {
    const client = await FrameClient.open(listener.url);
    const all = settingsOf((await client.find(({ type }) => type === FRAME.settings))!);
    expect(all.get(SETTING.maxConcurrentStreams)).toBe(100);
    expect(all.get(SETTING.enablePush) ?? 0).toBe(0);
    expect(all.get(SETTING.initialWindowSize) ?? 65_535).toBeLessThanOrEqual(0x7fffffff);
    expect(all.get(SETTING.maxFrameSize) ?? 16_384).toBe(16_384);
  });

  testEach(listener, [
    ["an unknown one is ignored", [settings(setting(0xff, 1)), ping()], PONG],
    ["the largest values are taken", [settings(...LARGEST), headers(1)], ANSWERED],
    ["the least values are", [settings(...LEAST), ping()], PONG],
    ["an acknowledgement of none is an error", [frame(FRAME.settings, FLAG.ack, 0)], connectionError("PROTOCOL_ERROR")],
    [
      "an acknowledgement with a payload is an error",
      [frame(FRAME.settings, FLAG.ack, 0, Buffer.of(0))],
      connectionError("FRAME_SIZE_ERROR"),
    ],
    [
      "those of a stream are one",
      [frame(FRAME.settings, 0, 1, setting(SETTING.maxConcurrentStreams, 100))],
      connectionError("PROTOCOL_ERROR"),
    ],
    [
      "a length that is no multiple of six is one",
      [frame(FRAME.settings, 0, 0, Buffer.alloc(9))],
      connectionError("FRAME_SIZE_ERROR"),
    ],
    [
      "a push that is neither on nor off is one",
      [settings(setting(SETTING.enablePush, 2))],
      connectionError("PROTOCOL_ERROR"),
    ],
    [
      "a window of 2 GiB is one",
      [settings(setting(SETTING.initialWindowSize, 0x80000000))],
      connectionError("FLOW_CONTROL_ERROR"),
    ],
    [
      "frames of less than 16 KiB are one",
      [settings(setting(SETTING.maxFrameSize, 16_383))],
      connectionError("PROTOCOL_ERROR"),
    ],
    [
      "frames of 16 MiB are one",
      [settings(setting(SETTING.maxFrameSize, 0x1000000))],
      connectionError("PROTOCOL_ERROR"),
    ],
  ]);
});

describe("PUSH_PROMISE (RFC 9113 §8.4):", () => {
  testEach(listener, [
    [
      "a client cannot push",
      [headers(1, NEVER), frame(FRAME.push, FLAG.endHeaders, 1, Buffer.concat([uint32(2), block()]))],
      connectionError("PROTOCOL_ERROR"),
    ],
    [
      "nor on a stream that it has not opened",
      [frame(FRAME.push, FLAG.endHeaders, 1, Buffer.concat([uint32(3), block()]))],
      connectionError("PROTOCOL_ERROR"),
    ],
  ]);
});

describe("PING (RFC 9113 §6.7):", () => {
  testEach(listener, [
    ["it comes back as it is", [ping(7)], ["PING 07"]],
    ["an acknowledgement of none ends the connection", [ping(8, FLAG.ack), ping(9)], ENDED_BY_NODE],
    ["one of a stream is an error", [frame(FRAME.ping, 0, 1, Buffer.alloc(8))], connectionError("PROTOCOL_ERROR")],
    ["one of another length is one", [frame(FRAME.ping, 0, 0, Buffer.alloc(6))], connectionError("FRAME_SIZE_ERROR")],
  ]);

  test("an error of the connection is said before it closes (§5.4.1)", async () => {
    const client = await shakeHands(listener.url);
    client.send(headers(1, NEVER), frame(FRAME.ping, 0, 3, Buffer.alloc(8)));
    await client.closed();
    const { payload } = client.frames.findLast(({ type }) => type === FRAME.goaway)!;
    expect([payload.readUInt32BE(0), payload.readUInt32BE(4)]).toEqual([1, 1]);
  });
});

describe("GOAWAY (RFC 9113 §6.8, §7):", () => {
  const goaway = (stream: number, code: number) =>
    frame(FRAME.goaway, 0, stream, Buffer.concat([uint32(0), uint32(code), Buffer.from("debug")]));
  testEach(listener, [
    ["the client may go", [goaway(0, 0), ping()], [...PONG, ...connectionError("NO_ERROR")]],
    ["for a reason that is unknown as well", [goaway(0, 0xff), ping()], [...PONG, ...connectionError("NO_ERROR")]],
    ["one of a stream is an error", [goaway(1, 0)], connectionError("PROTOCOL_ERROR")],
    ["one of another length is one", [frame(FRAME.goaway, 0, 0, uint32(0))], connectionError("FRAME_SIZE_ERROR")],
  ]);

  test("what was asked before is answered", async () => {
    const client = await shakeHands(listener.url);
    client.send(headers(1, WITH_BODY, FLAG.endHeaders), goaway(0, 0), data(1));
    expect(await client.endOf(1)).toBe("answered");
    await client.closed();
  });
});

describe("CONTINUATION (RFC 9113 §6.10):", () => {
  const whole = block();
  const cut = (fields = AT_ONCE) => headers(1, fields, FLAG.endStream);
  testEach(listener, [
    [
      "a block goes on in one",
      [
        frame(FRAME.headers, FLAG.endStream, 1, whole.subarray(0, 5)),
        frame(FRAME.continuation, FLAG.endHeaders, 1, whole.subarray(5)),
      ],
      ANSWERED,
    ],
    [
      "or in several",
      [
        frame(FRAME.headers, FLAG.endStream, 1, whole.subarray(0, 5)),
        frame(FRAME.continuation, 0, 1, whole.subarray(5, 10)),
        frame(FRAME.continuation, FLAG.endHeaders, 1, whole.subarray(10)),
      ],
      ANSWERED,
    ],
    ["it brings more fields", [cut(), continuation(1, 0, "x-a"), continuation(1, FLAG.endHeaders, "x-b")], ANSWERED],
    [
      "another frame before the block's end is an error",
      [headers(1, NEVER_WITH_BODY, 0), continuation(1, 0), data(1)],
      connectionError("PROTOCOL_ERROR"),
    ],
    ["one of no stream is one", [cut(), continuation(0, FLAG.endHeaders)], connectionError("PROTOCOL_ERROR")],
    [
      "one behind a whole block is one",
      [headers(1, NEVER), continuation(1, FLAG.endHeaders)],
      connectionError("PROTOCOL_ERROR"),
    ],
    [
      "one behind the last of a block is one",
      [headers(1, NEVER, FLAG.endStream), continuation(1, FLAG.endHeaders), continuation(1, FLAG.endHeaders)],
      connectionError("PROTOCOL_ERROR"),
    ],
    [
      "one behind DATA is one",
      [headers(1, NEVER_WITH_BODY, 0), data(1), continuation(1, 0), continuation(0, FLAG.endHeaders)],
      connectionError("PROTOCOL_ERROR"),
    ],
  ]);
});

describe("WINDOW_UPDATE (RFC 9113 §6.9):", () => {
  testEach(listener, [
    ["one of the connection is taken", [windowUpdate(0, 1), ping()], PONG],
    ["one of a stream is", [headers(1), windowUpdate(1, 1)], ANSWERED],
    ["one by nothing is an error", [windowUpdate(0, 0)], connectionError("PROTOCOL_ERROR")],
    [
      "one by nothing of a stream is one",
      [headers(1, NEVER_WITH_BODY, FLAG.endHeaders), windowUpdate(1, 0)],
      streamError("PROTOCOL_ERROR"),
    ],
    [
      "one of another length is one",
      [frame(FRAME.windowUpdate, 0, 0, Buffer.of(0, 0, 1))],
      connectionError("FRAME_SIZE_ERROR"),
    ],
  ]);
});

describe("an answer (RFC 9113 §4.2, §4.3, §6.10)", () => {
  test("is HEADERS, and DATA that end it", async () => {
    const client = await shakeHands(listener.url);
    client.send(headers(1));
    await client.endOf(1);
    const frames = client.frames.filter(({ stream }) => stream === 1);
    expect(frames.map(({ type, flags }) => [type, flags])).toEqual([
      [FRAME.headers, FLAG.endHeaders],
      [FRAME.data, FLAG.endStream],
    ]);
  });

  test("has CONTINUATION right behind its HEADERS where one frame holds not all fields", async () => {
    const client = await shakeHands(listener.url);
    client.send(headers(1, WIDE), headers(3, WIDE));
    expect([await client.endOf(1), await client.endOf(3)]).toEqual(["answered", "answered"]);
    // No other frame may come in between: not even DATA of the other answer.
    const begin = client.frames.flatMap(({ type }, i) => (type === FRAME.headers ? [i] : []));
    const blocks = begin.map((i) =>
      client.frames.slice(i, i + 3).map(({ type, flags, stream }) => [type, flags, stream]),
    );
    const blockOf = (stream: number) => [
      [FRAME.headers, 0, stream],
      [FRAME.continuation, 0, stream],
      [FRAME.continuation, FLAG.endHeaders, stream],
    ];
    expect(blocks).toEqual([blockOf(1), blockOf(3)]);
  });

  test.each([
    ["16 KiB", 16_384],
    ["more", 20_000],
  ])("has no frame that is larger than the client takes: %s", async (_what, size) => {
    const client = await shakeHands(listener.url);
    const window = setting(SETTING.initialWindowSize, 1_000_000);
    client.send(settings(setting(SETTING.maxFrameSize, size), window), windowUpdate(0, 1_000_000), headers(1, LONG));
    expect(await client.endOf(1)).toBe("answered");
    const parts = client.frames.filter(({ type }) => type === FRAME.data).map(({ payload }) => payload);
    expect(Buffer.concat(parts).toString()).toBe(LONG_TEXT);
    expect(Math.max(...parts.map(({ length }) => length))).toBeLessThanOrEqual(size);
  });

  test.each([
    ["keeps no table of fields", { headerTableSize: 0 }],
    ["keeps a small one", { headerTableSize: 100 }],
  ])("can be read by a client that %s", async (_what, own) => {
    const session = await openHttp2(listener.url, { settings: own });
    for (let i = 0; i < 3; i++) {
      const { status, text } = await ask(session, { path: "/" });
      expect([status, text]).toEqual([200, TEXT]);
    }
  });
});
