import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ClosingReason } from "../../src/observe/metrics/labels.ts";
import { isFramedSafely } from "../../src/http/framing.ts";
import {
  answerOf,
  ask,
  CODE,
  FLAG,
  FRAME,
  frame,
  FrameClient,
  headerBlock,
  openHttp2,
  REQUEST,
  uint32,
} from "../support/http2.ts";
import { type Http2Listener, startHttp2Listener } from "../support/http2-listener.ts";
import type { ManualClock } from "../support/manual-clock.ts";

const MIB = 1024 * 1024;

let clock: ManualClock;
let url: string;
let isDraining: boolean;
let answer: (request: IncomingMessage, response: ServerResponse) => void;
let closed: readonly ClosingReason[];
let listener: Http2Listener;

beforeEach(async () => {
  isDraining = false;
  answer = (_request, response) => response.writeHead(200, ["content-type", "text/plain"]).end("hello");
  listener = await startHttp2Listener({
    answer: (request, response) => answer(request, response),
    isDraining: () => isDraining,
  });
  ({ clock, url, closed } = listener);
});

afterEach(() => listener.close());

/** A GET, or another request, with these fields besides or in place of the usual ones. */
function head(stream: number, fields: Record<string, string | undefined> = {}, flags: number = FLAG.endStream): Buffer {
  const usual: Record<string, string | undefined> = { ...Object.fromEntries(REQUEST), ...fields };
  const all = Object.entries(usual).flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]));
  return frame(FRAME.headers, FLAG.endHeaders | flags, stream, headerBlock(all));
}

describe("a request", () => {
  test("is one of HTTP/1.1 with its authority as Host, and no pseudo-fields", async () => {
    let seen: IncomingMessage | undefined;
    answer = (request, response) => {
      seen = request;
      response.end(String(isFramedSafely(request)));
    };
    const session = await openHttp2(url);
    expect((await ask(session, { path: "/x?y=1", headers: { "x-a": "1" } })).text).toBe("true");
    const { method, headers, rawHeaders } = seen!;
    expect([method, seen!.url, headers]).toEqual(["GET", "/x?y=1", { host: new URL(url).host, "x-a": "1" }]);
    expect(rawHeaders).toEqual(["host", new URL(url).host, "x-a", "1"]);
  });

  test("with a body of unknown length is chunked, and read whole", async () => {
    answer = (request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        response.end(`${request.headers["transfer-encoding"]} ${Buffer.concat(chunks).length} ${request.complete}`);
      });
    };
    const session = await openHttp2(url);
    const sent = await ask(session, { path: "/", body: Buffer.alloc(3 * MIB) });
    expect(sent.text).toBe(`chunked ${3 * MIB} true`);
  });

  test.each([
    ["an authority and another host", { host: "other" }, "400"],
    ["an authority and the same host", { host: "LOCALHOST" }, "hello"],
    ["a host alone", { ":authority": undefined, host: "localhost" }, "hello"],
    ["an authority that is a list", { ":authority": "a,b" }, "400"],
    ["an authority with a user", { ":authority": "me@localhost" }, CODE.protocol],
    ["an empty host", { ":authority": undefined, host: "" }, CODE.protocol],
    // Node would leave such a field out, and with it an admin or a credential (RFC 9113 §8.2.1).
    ["a blank before a value", { "x-api-key": " a" }, "400"],
    ["a blank behind a value", { "x-instrument-admin": "a " }, "400"],
    ["a tab behind a value", { a: "b\t" }, "400"],
    ["a blank instead of a value", { a: " " }, "400"],
    ["a blank in a value, or no value", { a: "b c", d: "" }, "hello"],
    ["another expectation", { expect: "200-maybe" }, "417"],
    ["CONNECT", { ":method": "CONNECT", ":path": undefined, ":scheme": undefined }, "405"],
  ])("with %s", async (_what, fields, expected) => {
    const client = await FrameClient.open(url);
    client.send(head(1, fields));
    const end = await client.endOf(1);
    const data = client.frames.filter(({ type, stream }) => type === FRAME.data && stream === 1);
    expect(end === "answered" ? Buffer.concat(data.map(({ payload }) => payload)).toString() : end).toBe(expected);
  });

  test("with more than 24 KiB of fields is 431", async () => {
    const session = await openHttp2(url);
    const headers = { a: "b".repeat(20_000), c: "d".repeat(6_000) };
    expect((await ask(session, { path: "/", headers })).status).toBe(431);
    expect((await ask(session, { path: "/" })).status).toBe(200);
  });

  test("with more than 100 fields is 431, with many more cut off", async () => {
    const fieldsOf = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`x-${i}`, "1"]));
    const session = await openHttp2(url);
    const statusOf = async (count: number) => (await ask(session, { path: "/", headers: fieldsOf(count) })).status;
    // Beside its authority, as Host.
    expect([await statusOf(99), await statusOf(100), await statusOf(500)]).toEqual([200, 431, 0]);
    expect(await statusOf(1)).toBe(200);
  });

  test("whose body is longer or shorter than it said is cut off, and its reader told", async () => {
    const ends: string[] = [];
    answer = (request) => {
      request.on("data", () => undefined).on("end", () => ends.push("end"));
      request.on("error", (error) => ends.push(error.message));
    };
    for (const said of ["5", "1"]) {
      const client = await FrameClient.open(url);
      const body = frame(FRAME.data, FLAG.endStream, 1, Buffer.from("abc"));
      client.send(head(1, { ":method": "POST", "content-length": said }, 0), body);
      expect((await client.endOf(1)) ?? (await client.goaway())).not.toBe("answered");
    }
    await expect.poll(() => ends).toEqual(["aborted", "aborted"]);
  });

  test("whose trailers name what it could not itself, is answered without a look at them", async () => {
    let seen: IncomingMessage | undefined;
    answer = (request, response) => {
      seen = request;
      request.resume().on("end", () => response.end());
    };
    const client = await FrameClient.open(url);
    const trailers = headerBlock([["x-api-key", "rgk_x"]]);
    client.send(head(1, { ":method": "POST" }, 0), frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, 1, trailers));
    expect(await client.endOf(1)).toBe("answered");
    expect([seen!.headers["x-api-key"], seen!.rawHeaders.includes("x-api-key")]).toEqual([undefined, false]);
  });

  test("that waits for 100 is told to go on, once", async () => {
    answer = (request, response) => void request.resume().on("end", () => response.end("read"));
    const session = await openHttp2(url);
    const stream = session.request({ ":method": "POST", ":path": "/", expect: "100-continue" });
    stream.once("continue", () => stream.end("body"));
    expect((await answerOf(stream)).text).toBe("read");
  });

  test("whose body never ends is given up after the time for bodies", async () => {
    const ends: string[] = [];
    let isBegun = false;
    answer = (request, response) => {
      isBegun = true;
      request.on("error", (error) => {
        ends.push(error.message);
        response.writeHead(408).end();
      });
      request.resume();
    };
    const session = await openHttp2(url);
    const stream = session.request({ ":method": "POST", ":path": "/" });
    stream.write("a");
    const got = answerOf(stream);
    await expect.poll(() => isBegun).toBe(true);
    clock.advance(31_000);
    await expect.poll(() => ends.some((each) => each.includes("too long"))).toBe(true);
    stream.close();
    await got;
  });
});

describe("an answer", () => {
  test("has none of the fields of HTTP/1.1's connections, and repeats what was repeated", async () => {
    answer = (_request, response) => {
      response.writeHead(200, [
        "connection",
        "close",
        "keep-alive",
        "x",
        "transfer-encoding",
        "chunked",
        "vary",
        "a",
        "vary",
        "b",
        "etag",
        '"1"',
        "etag",
        '"2"',
      ]);
      response.end("x");
    };
    const session = await openHttp2(url);
    const { status, headers } = await ask(session, { path: "/" });
    expect([status, headers["vary"]]).toEqual([200, "a, b"]);
    expect(Object.keys(headers)).not.toEqual(expect.arrayContaining(["connection"]));
    expect(headers["keep-alive"] ?? headers["transfer-encoding"]).toBeUndefined();
    // The connection stays: only while the process drains does an answer end it.
    expect((await ask(session, { path: "/" })).status).toBe(200);
  });

  test("to HEAD, and one without content, has no body", async () => {
    answer = (request, response) => {
      if (request.method === "HEAD") response.writeHead(200, ["content-length", "5"]).end();
      else response.writeHead(204).end();
    };
    const session = await openHttp2(url);
    const got = await ask(session, { path: "/", method: "HEAD" });
    expect([got.status, got.headers["content-length"], got.text]).toEqual([200, "5", ""]);
    expect((await ask(session, { path: "/" })).status).toBe(204);
  });

  test("of several MiB comes whole, many at once, as fast as it is read", async () => {
    const body = Buffer.alloc(5 * MIB, "0123456789abcdef");
    answer = (_request, response) => response.end(body);
    const session = await openHttp2(url);
    const all = await Promise.all(Array.from({ length: 12 }, () => ask(session, { path: "/" })));
    expect(all.map(({ text }) => text.length)).toEqual(all.map(() => body.length));
    expect(all[0]!.text === body.toString()).toBe(true);
  });

  test("that breaks off resets its stream alone", async () => {
    answer = (request, response) => {
      if (request.url !== "/broken") return void response.end("whole");
      response.write("part");
      setImmediate(() => response.destroy());
    };
    const session = await openHttp2(url);
    expect((await ask(session, { path: "/broken" })).code).not.toBe(CODE.none);
    expect((await ask(session, { path: "/" })).text).toBe("whole");
  });

  test("to a request that was not read whole is complete, and the stream closed without an error", async () => {
    answer = (_request, response) => response.writeHead(413).end("too large");
    const session = await openHttp2(url);
    const stream = session.request({ ":method": "POST", ":path": "/" });
    stream.write("a");
    const got = await answerOf(stream);
    expect([got.status, got.text, got.code]).toEqual([413, "too large", CODE.none]);
  });

  test("is told of a client that gives it up", async () => {
    let ended: Promise<unknown> | undefined;
    answer = (_request, response) => {
      ended = once(response, "close").then(() => response.writableFinished);
    };
    const client = await FrameClient.open(url);
    client.send(head(1));
    await expect.poll(() => ended !== undefined).toBe(true);
    client.send(frame(FRAME.reset, 0, 1, uint32(8)));
    expect(await ended).toBe(false);
  });
});

describe("a client that", () => {
  test("opens more than a hundred streams at once has the others refused", async () => {
    let running = 0;
    let most = 0;
    answer = (_request, response) => {
      most = Math.max(most, ++running);
      response.once("close", () => running--);
    };
    const client = await FrameClient.open(url);
    for (let i = 0; i < 150; i++) client.send(head(2 * i + 1));
    expect(await client.endOf(299)).toBe(CODE.refused);
    expect(most).toBe(100);
  });

  test("shows more fields than memory is for has requests refused, on all connections together", async () => {
    let running = 0;
    answer = (request, response) => {
      if (request.url === "/") response.end("ok");
      else running += 1;
    };
    const fields = Object.fromEntries(Array.from({ length: 95 }, (_, i) => [`x-${i}`, "1"]));
    const clients: FrameClient[] = [];
    for (let i = 0; i < 24; i += 1) {
      const client = await FrameClient.open(url);
      for (let k = 0; k < 100; k += 1) client.send(head(2 * k + 1, { ":path": "/slow", ...fields }));
      client.send(frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
      await client.find(({ type, flags }) => type === FRAME.ping && flags === FLAG.ack);
      clients.push(client);
    }
    // 60 KiB each.
    expect(running).toBeGreaterThan(2_000);
    expect(running).toBeLessThan(2_300);
    expect(await clients.at(-1)!.endOf(199)).toBe(CODE.refused);
    // Who goes on all the same is sent away.
    const last = clients.at(-1)!;
    for (let k = 100; k < 500; k += 1) last.send(head(2 * k + 1, { ":path": "/slow", ...fields }));
    await last.closed();
    expect(closed).toEqual(["flood"]);
    for (const client of clients) client.socket.destroy();
    const session = await openHttp2(url);
    await expect.poll(async () => (await ask(session, { path: "/" })).text).toBe("ok");
  });

  test("reads nothing of its answers is cut off after 30 s, pings or not", async () => {
    answer = (_request, response) => void response.end(Buffer.alloc(MIB));
    const window = Buffer.concat([Buffer.of(0, 4), uint32(0)]);
    const client = await FrameClient.open(url, window);
    client.send(head(1), head(3));
    await client.find(({ type, stream }) => type === FRAME.headers && stream === 3);
    for (let second = 0; second < 32; second++) {
      client.send(frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
      await client.find(({ type, flags }) => type === FRAME.ping && flags === FLAG.ack);
      clock.advance(1_000);
    }
    await client.closed();
    expect(closed).toEqual(["unread"]);
  });

  test("reads nothing while others wait does not fill the memory: its next requests wait", async () => {
    let requests = 0;
    const body = Buffer.alloc(4 * MIB);
    answer = (_request, response) => {
      requests++;
      response.end(body);
    };
    const client = await FrameClient.open(url, Buffer.concat([Buffer.of(0, 4), uint32(0)]));
    for (let i = 0; i < 12; i++) client.send(head(2 * i + 1));
    client.send(frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
    await client.find(({ type, flags }) => type === FRAME.ping && flags === FLAG.ack);
    expect(requests).toBe(5);
    // When it reads, they are served.
    client.send(
      frame(FRAME.settings, 0, 0, Buffer.concat([Buffer.of(0, 4), uint32(0x7fffffff)])),
      frame(FRAME.windowUpdate, 0, 0, uint32(0x7ffe0000)),
    );
    await expect.poll(() => requests, { timeout: 20_000 }).toBe(12);
  });

  test("says nothing after its handshake, or between requests, is closed in time", async () => {
    const silent = await FrameClient.connect(url);
    const session = await openHttp2(url);
    expect((await ask(session, { path: "/" })).status).toBe(200);
    clock.advance(16_000);
    await silent.closed();
    expect(session.closed).toBe(false);
    clock.advance(60_000);
    await once(session, "close");
  });

  test("closes its side is gone", async () => {
    let ended: Promise<unknown> | undefined;
    answer = (_request, response) => {
      ended = once(response, "close");
    };
    const client = await FrameClient.open(url);
    client.send(head(1));
    await expect.poll(() => ended !== undefined).toBe(true);
    client.socket.end();
    await ended;
  });
});

test("while the process drains an answer sends the client elsewhere, and says what is still answered", async () => {
  const slow: (() => void)[] = [];
  answer = (request, response) => {
    const send = () => void response.writeHead(200, isDraining ? ["connection", "close"] : []).end("done");
    if (request.url === "/slow") slow.push(send);
    else send();
  };
  const client = await FrameClient.open(url);
  client.send(head(1, { ":path": "/slow" }));
  await expect.poll(() => slow.length).toBe(1);
  isDraining = true;
  client.send(head(3));
  expect(await client.goaway()).toBe(CODE.none);
  const goaway = client.frames.find(({ type }) => type === FRAME.goaway)!;
  expect(goaway.payload.readUInt32BE(0)).toBe(3);
  slow[0]!();
  expect([await client.endOf(1), await client.endOf(3)]).toEqual(["answered", "answered"]);
  await client.closed();
});
