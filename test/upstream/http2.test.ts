import { readFileSync } from "node:fs";
import {
  createSecureServer,
  createServer as createPlainServer,
  type Http2SecureServer,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  constants,
} from "node:http2";
import { createServer as createTlsServer } from "node:tls";
import { type AddressInfo, connect, createServer } from "node:net";
import { join } from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { describe, expect, onTestFinished, test } from "vitest";
import { impostorAt } from "../../src/upstream/parts.ts";
import { Http2Connection } from "../../src/upstream/wire/http2-connection.ts";
import type { Upstreams } from "../../src/upstream/upstreams.ts";
import { ManualClock } from "../support/manual-clock.ts";
import {
  acceptCall,
  ADMIN,
  ANSWER_KINDS,
  askWhole,
  inTime,
  listCall,
  openUpstream,
  OTHER_ADMIN,
  streamedCall,
} from "../support/upstream-registries.ts";

const fixture = (name: string) => join(import.meta.dirname, "../fixtures/tls", name);
const TLS = { caFile: fixture("ca.pem") };

type Serve = (stream: ServerHttp2Stream, path: string, session: ServerHttp2Session) => void;

interface Http2Node {
  readonly url: string;
  readonly server: Http2SecureServer;
  /** Requests but infos, by the connection they came over. */
  readonly asked: { path: string; session: ServerHttp2Session }[];
  readonly sessions: ServerHttp2Session[];
  infos: number;
}

function json(stream: ServerHttp2Stream, body: unknown, fields: Record<string, string> = {}): void {
  if (stream.destroyed) return;
  stream.respond({ ":status": 200, "content-type": "application/json", ...fields });
  stream.end(JSON.stringify(body));
}

const own: Serve = (stream, path) =>
  json(stream, { choiceContextData: { values: { asked: path } }, disclosedContracts: [] });

/** A registry that speaks HTTP/2 alone, tells its info, and answers the rest as `serve` does. */
async function startNode(
  serve: Serve = own,
  settings: Record<string, number> = {},
  admin = () => ADMIN,
): Promise<Http2Node> {
  const server = createSecureServer({
    cert: readFileSync(fixture("server.pem")),
    key: readFileSync(fixture("server-key.pem")),
    settings,
  });
  const node: Http2Node = { url: "", server, asked: [], sessions: [], infos: 0 };
  server.on("session", (session) => {
    node.sessions.push(session);
    session.on("error", () => undefined);
  });
  server.on("stream", (stream, headers) => {
    const path = headers[":path"]!;
    stream.on("error", () => undefined);
    if (path.endsWith("/info")) {
      node.infos += 1;
      return json(stream, { adminId: admin(), supportedApis: {} });
    }
    node.asked.push({ path, session: stream.session as ServerHttp2Session });
    stream.resume();
    serve(stream, path, stream.session as ServerHttp2Session);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    for (const session of node.sessions) session.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return {
    ...node,
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get infos() {
      return node.infos;
    },
  };
}

async function openHttp2(serve?: Serve, keys: Record<string, unknown> = {}, settings: Record<string, number> = {}) {
  const node = await startNode(serve, settings);
  const opened = openUpstream([node.url], { admin: ADMIN, tls: TLS, ...keys });
  await opened.upstream.learnAdmin(inTime(5_000));
  const call = (n: number | string = 0) => opened.upstream.call(acceptCall({ path: pathOf(n) }));
  return { ...opened, node, call };
}

const pathOf = (n: number | string) => `/registry/transfer-instruction/v1/${n}/choice-contexts/accept`;
const askedOf = (body: Buffer) => JSON.parse(body.toString()).choiceContextData.values.asked as string;

describe("to a node that offers HTTP/2", () => {
  test("calls share one connection, whose first exchange is the proof, and each gets its own answer", async () => {
    const { node, call, upstream } = await openHttp2((stream, path) =>
      setTimeout(() => own(stream, path, stream.session as never), Math.random() * 20),
    );
    const answers = await Promise.all(Array.from({ length: 40 }, (_, n) => call(n)));
    expect(answers.map(({ body }) => askedOf(body))).toEqual(answers.map((_, n) => pathOf(n)));
    expect(node.infos).toBe(1);
    expect(node.sessions.length).toBeLessThanOrEqual(2);
    expect(upstream.status().nodes[0]).toMatchObject({ protocol: "h2", inFlight: 0 });
  });

  test("http2: off speaks HTTP/1.1 where there is that", async () => {
    const server = createSecureServer(
      { allowHTTP1: true, cert: readFileSync(fixture("server.pem")), key: readFileSync(fixture("server-key.pem")) },
      (request, response) => {
        request.resume();
        response.setHeader("content-type", "application/json");
        response.end(JSON.stringify({ adminId: ADMIN, asked: request.httpVersion }));
      },
    );
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
    for (const [http2, version, protocol] of [
      ["off", "1.1", "http/1.1"],
      ["auto", "2.0", "h2"],
    ]) {
      const { upstream, upstreams } = openUpstream([url], { admin: ADMIN, tls: TLS, http2 });
      const { body } = await upstream.call(listCall({ operation: "info", path: "/registry/metadata/v1/info" }));
      expect(JSON.parse(body.toString()).asked).toBe(version);
      expect(upstream.status().nodes[0]!.protocol).toBe(protocol);
      await upstreams.close();
    }
  });

  test("its fields, its status and its body are those of the registry, and none that only HTTP/1.1 has is sent", async () => {
    const seen: Record<string, unknown>[] = [];
    const { upstream, node } = await openHttp2((stream, path) => own(stream, path, undefined as never));
    node.server.on("stream", (_stream, headers) => seen.push(headers));
    const { status, fields } = await upstream.call(acceptCall());
    expect(status).toBe(200);
    expect(fields).toContain("content-type");
    const sent = Object.keys(seen[0]!);
    for (const name of ["connection", "host", "transfer-encoding", "keep-alive"]) expect(sent).not.toContain(name);
    expect(seen[0]).toMatchObject({ ":method": "POST", "content-type": "application/json" });
  });

  test("fields of any name reach it as they are, and several of one name as a list", async () => {
    const seen: Record<string, unknown>[] = [];
    const { upstream, node } = await openHttp2();
    node.server.on("stream", (_stream, headers) => seen.push(headers));
    const fields = ["constructor", "a", "__proto__", "b", "tostring", "c", "x-two", "d", "x-two", "e"];
    await upstream.call(acceptCall({ fields }));
    expect(Object.entries(seen[0]!)).toEqual(
      expect.arrayContaining([
        ["constructor", "a"],
        ["__proto__", "b"],
        ["tostring", "c"],
        ["x-two", "d, e"],
      ]),
    );
  });
});

describe("a connection that the node ends", () => {
  test("with GOAWAY lets accepted requests finish and sends the refused ones elsewhere, each once answered", async () => {
    let isEnded = false;
    const { node, call, observer } = await openHttp2((stream, path, session) => {
      if (!isEnded && node.asked.length === 5) {
        isEnded = true;
        session.goaway(constants.NGHTTP2_NO_ERROR, stream.id! - 4);
        session.close();
      }
      setTimeout(() => own(stream, path, session), 30);
    });
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => call(n)));
    expect(answers.map(({ body }) => askedOf(body))).toEqual(answers.map((_, n) => pathOf(n)));
    expect(node.sessions.length).toBeGreaterThan(1);
    expect(observer.count("node")).toBeLessThanOrEqual(1);
  });

  test("with an error has its requests tried again", async () => {
    let isEnded = false;
    const { node, call } = await openHttp2((stream, path, session) => {
      if (isEnded) return own(stream, path, session);
      isEnded = true;
      session.destroy(undefined, constants.NGHTTP2_INTERNAL_ERROR);
    });
    const answers = await Promise.all([call("a"), call("b")]);
    expect(answers.map(({ body }) => askedOf(body))).toEqual([pathOf("a"), pathOf("b")]);
    expect(node.sessions.length).toBeGreaterThan(1);
  });

  test("by going away midway is no answer", async () => {
    const { call } = await openHttp2(
      (stream, _path, session) => {
        stream.respond({ ":status": 200, "content-type": "application/json" });
        stream.write('{"choiceContextData":');
        setTimeout(() => session.destroy(), 10);
      },
      { retry: { attempts: 1 } },
    );
    await expect(call()).rejects.toMatchObject({ status: 502, code: "upstream_reset" });
  });

  test("and that becomes another registry gets no request", async () => {
    let admin = ADMIN;
    const node = await startNode(own, {}, () => admin);
    const { upstream } = openUpstream([node.url], { admin: ADMIN, tls: TLS });
    expect((await upstream.call(acceptCall())).status).toBe(200);
    admin = OTHER_ADMIN;
    for (const session of node.sessions) session.destroy();
    await expect.poll(() => node.sessions.every(({ destroyed }) => destroyed)).toBe(true);
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({
      status: 502,
      message: expect.stringMatching(/another registry/),
    });
    expect(node.asked).toHaveLength(1);
  });
});

describe("streams", () => {
  test("beyond those that the node takes go over another connection", async () => {
    const { node, call } = await openHttp2(
      (stream, path, session) => setTimeout(() => own(stream, path, session), 50),
      {},
      { maxConcurrentStreams: 8 },
    );
    const answers = await Promise.all(Array.from({ length: 24 }, (_, n) => call(n)));
    expect(answers.map(({ body }) => askedOf(body))).toEqual(answers.map((_, n) => pathOf(n)));
    expect(node.sessions.length).toBeGreaterThanOrEqual(3);
    expect(node.infos).toBe(1);
  });

  test("one at a time, where the node takes no more", async () => {
    const { call } = await openHttp2(own, {}, { maxConcurrentStreams: 1 });
    const answers = await Promise.all(Array.from({ length: 12 }, (_, n) => call(n)));
    expect(answers.map(({ body }) => askedOf(body))).toEqual(answers.map((_, n) => pathOf(n)));
  });

  test("none, where the node takes none: a failure, and not one connection after the other", async () => {
    const node = await startNode(own, { maxConcurrentStreams: 0 });
    const { upstream } = openUpstream([node.url], {
      admin: ADMIN,
      tls: TLS,
      retry: { attempts: 2 },
      timeout: "2s",
      attemptTimeout: "1s",
    });
    await expect(upstream.call(acceptCall({ deadline: inTime(2_000) }))).rejects.toMatchObject({
      status: expect.toSatisfy((status) => status >= 502),
    });
    expect(node.sessions.length).toBeLessThan(20);
  });

  test("that are refused once are sent again, and always refused are a failure", async () => {
    let refused = 0;
    const { call } = await openHttp2((stream, path, session) => {
      if (path.includes("never") || refused === 0) {
        refused += 1;
        stream.close(constants.NGHTTP2_REFUSED_STREAM);
      } else own(stream, path, session);
    });
    expect(askedOf((await call("a")).body)).toBe(pathOf("a"));
    await expect(call("never")).rejects.toMatchObject({ status: 502, code: "upstream_reset" });
    expect(refused).toBeLessThan(12);
  });

  test("that are reset are tried again, and cost the others nothing", async () => {
    let resets = 0;
    const { node, call } = await openHttp2((stream, path, session) => {
      if (path.includes("bad") && resets < 1) {
        resets += 1;
        return stream.close(constants.NGHTTP2_INTERNAL_ERROR);
      }
      setTimeout(() => own(stream, path, session), 20);
    });
    const answers = await Promise.all([call("a"), call("bad"), call("b")]);
    expect(answers.map(({ body }) => askedOf(body))).toEqual(["a", "bad", "b"].map(pathOf));
    expect(node.sessions.filter(({ destroyed }) => !destroyed)).toHaveLength(node.sessions.length);
  });
});

describe("a node that lies", () => {
  test.each<[string, Serve]>([
    [
      "sends less than it said",
      (stream) => {
        stream.respond({ ":status": 200, "content-type": "application/json", "content-length": "100" });
        stream.write("{}");
        setTimeout(() => stream.close(constants.NGHTTP2_NO_ERROR), 10);
      },
    ],
    [
      "sends more than it said",
      (stream) => {
        stream.respond({ ":status": 200, "content-type": "application/json", "content-length": "1" });
        stream.end('{"a":1}');
      },
    ],
    ["ends its stream without an answer", (stream) => stream.close(constants.NGHTTP2_NO_ERROR)],
  ])("and %s gives no answer", async (_what, serve) => {
    const { call } = await openHttp2(serve, { retry: { attempts: 1 } });
    await expect(call()).rejects.toMatchObject({ status: 502 });
  });

  test("and answers 1xx without end gives none", async () => {
    const { call } = await openHttp2(
      (stream, path, session) => {
        for (let i = 0; i < 50; i++) stream.additionalHeaders({ ":status": 103, link: "</a>" });
        own(stream, path, session);
      },
      { retry: { attempts: 1 } },
    );
    await expect(call()).rejects.toMatchObject({ status: 502 });
  });

  test("and says h2 but speaks something else is a failure", async () => {
    const server = createTlsServer(
      {
        cert: readFileSync(fixture("server.pem")),
        key: readFileSync(fixture("server-key.pem")),
        ALPNProtocols: ["h2"],
      },
      (socket) => {
        socket.on("error", () => undefined);
        socket.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
      },
    );
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const { upstream } = openUpstream([`https://127.0.0.1:${(server.address() as AddressInfo).port}`], {
      admin: ADMIN,
      tls: TLS,
      attemptTimeout: "1s",
      timeout: "2s",
    });
    await expect(upstream.call(acceptCall({ deadline: inTime(2_000) }))).rejects.toMatchObject({
      status: expect.toSatisfy((status) => status >= 502),
    });
  });

  test("and takes no byte of a body (a window of 0) is 504 at the deadline, and others are answered", async () => {
    const { call, upstream } = await openHttp2(
      (stream, path, session) => (path.includes("stuck") ? undefined : own(stream, path, session)),
      {},
      { initialWindowSize: 0 },
    );
    const stuck = upstream.call(
      acceptCall({ path: pathOf("stuck"), body: Buffer.alloc(1_000, "x"), deadline: inTime(300) }),
    );
    await expect(stuck).rejects.toMatchObject({ status: 504 });
    expect((await upstream.call(listCall({ operation: "info", path: "/registry/metadata/v1/info" }))).status).toBe(200);
    void call;
  });
});

test("an answer that is passed through comes as fast as it is read, over HTTP/2 too", async () => {
  const size = 900_000;
  const { upstream } = await openHttp2((stream) => {
    stream.respond({ ":status": 200, "content-type": "application/octet-stream" });
    stream.end(Buffer.alloc(size, "y"));
  });
  const { body } = await upstream.stream(streamedCall());
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect((await buffer(body)).length).toBe(size);
});

describe("a node that takes a part of a body alone", () => {
  const body = Buffer.alloc(300_000, "x");
  const refuse = (stream: ServerHttp2Stream) => {
    stream.pause();
    json(stream, { error: "too much" }, { ":status": "400" });
  };

  test.each<[string, (stream: ServerHttp2Stream) => void]>([
    ["", () => undefined],
    [", and then takes no more of it", (stream) => stream.close(constants.NGHTTP2_NO_ERROR)],
    [", and then cancels its stream", (stream) => stream.close(constants.NGHTTP2_CANCEL)],
  ])("and answers%s, gives its answer", async (_what, then) => {
    const { upstream } = await openHttp2(
      (stream) => {
        refuse(stream);
        then(stream);
      },
      { retry: { attempts: 1 } },
    );
    for (const kind of ANSWER_KINDS) {
      const answer = await askWhole(upstream, kind, { body, deadline: inTime(3_000) });
      expect([answer.status, answer.body.toString()]).toEqual([400, '{"error":"too much"}']);
    }
    const readable = Readable.from([body.subarray(0, 200_000), body.subarray(200_000)]);
    const { status, body: streamed } = await upstream.stream(
      streamedCall({ body: readable, deadline: inTime(3_000), bodyDeadline: inTime(3_000) }),
    );
    expect([status, (await buffer(streamed)).toString()]).toEqual([400, '{"error":"too much"}']);
    await expect.poll(() => upstream.status()).toMatchObject({ running: 0, nodes: [{ inFlight: 0 }] });
  });

  test("and breaks off its answer, is a failure at once", async () => {
    const { upstream } = await openHttp2(
      (stream) => {
        stream.pause();
        stream.respond({ ":status": 400, "content-type": "application/json", "content-length": "100" });
        stream.write('{"error":', () => setTimeout(() => stream.destroy(), 10));
      },
      { retry: { attempts: 1 } },
    );
    const broken = upstream.call(acceptCall({ body, deadline: inTime(3_000) }));
    await expect(broken).rejects.toMatchObject({ status: 502, code: "upstream_reset" });
  });
});

/** What lets a connection take no more requests, and end with the calls that run on it. */
const ENDINGS: [string, (node: Http2Node, upstreams: Upstreams) => void][] = [
  ["", () => undefined],
  [", where the node lets the connection end", ({ sessions }) => sessions.forEach((session) => session.close())],
  [", where the gateway lets it end", ({ url }, upstreams) => upstreams.receive(impostorAt(url))],
];

test.each(ENDINGS)("a client that goes away ends its stream and no other's%s", async (_where, end) => {
  const over = Promise.withResolvers<void>();
  const { node, call, upstream, upstreams } = await openHttp2(
    (stream, path, session) => {
      if (path !== pathOf("gone")) void over.promise.then(() => own(stream, path, session));
    },
    { retry: { attempts: 1 } },
  );
  const abort = new AbortController();
  const gone = upstream.call(acceptCall({ path: pathOf("gone"), signal: abort.signal }));
  const stays = call("stays");
  await expect.poll(() => node.asked.length).toBe(2);
  end(node, upstreams);
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  abort.abort();
  await expect(gone).rejects.toMatchObject({ status: 499 });
  over.resolve();
  expect(askedOf((await stays).body)).toBe(pathOf("stays"));
  expect(upstream.status()).toMatchObject({ running: 0, nodes: [{ inFlight: 0 }] });
});

test("calls that are given up cost no proof, and no connection each", async () => {
  const { node, call, upstream } = await openHttp2(
    (stream, path, session) => {
      if (!path.includes("hangs")) own(stream, path, session);
    },
    { retry: { attempts: 1 } },
  );
  const [infos, { length: connections }] = [node.infos, node.sessions];
  for (let i = 0; i < 10; i++) {
    const abort = new AbortController();
    const hangs = upstream.call(acceptCall({ path: pathOf(`hangs-${i}`), signal: abort.signal }));
    await expect.poll(() => node.asked.length).toBe(i + 1);
    abort.abort();
    await expect(hangs).rejects.toMatchObject({ status: 499 });
  }
  expect((await call("next")).status).toBe(200);
  expect(node.infos).toBe(infos);
  expect(node.sessions.length).toBeLessThanOrEqual(connections + 2);
});

/** A connection to a node that ends none by itself, and answers when it is told to. */
async function openHalfOpen() {
  const sessions: ServerHttp2Session[] = [];
  const asked: ServerHttp2Stream[] = [];
  const node = createPlainServer()
    .on("session", (session) => sessions.push(session))
    .on("stream", (stream) => asked.push(stream.on("error", () => undefined)));
  await new Promise<void>((resolve) => node.listen(0, "127.0.0.1", resolve));
  const front = createServer({ allowHalfOpen: true }, (client) => {
    const behind = connect((node.address() as AddressInfo).port, "127.0.0.1");
    client.on("data", (chunk) => behind.write(chunk)).on("error", () => undefined);
    behind.on("data", (chunk) => client.write(chunk)).on("error", () => undefined);
    onTestFinished(() => void [client, behind].map((each) => each.destroy()));
  });
  await new Promise<void>((resolve) => front.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void [node, front].map((each) => each.close()));
  const { port } = front.address() as AddressInfo;
  const socket = connect(port, "127.0.0.1");
  const clock = new ManualClock();
  const target = { origin: `http://127.0.0.1:${port}`, connectTimeout: 5_000, tls: () => ({}) };
  const connection = await Http2Connection.open(socket, target, clock, () => undefined);
  /** Sends a request that it takes; returns how to give up its answer, and whether that has come. */
  const ask = async () => {
    const answer = { isHere: false, giveUp: () => undefined as void };
    connection.dispatch(
      { origin: target.origin, method: "GET", path: "/", headers: [], body: null },
      {
        onRequestStart: (controller) => {
          answer.giveUp = () => controller.abort(new Error("given up"));
        },
        onResponseEnd: () => {
          answer.isHere = true;
        },
        onResponseError: () => undefined,
      },
    );
    await expect.poll(() => asked.length).toBe(1);
    return answer;
  };
  return { socket, clock, connection, session: sessions[0]!, asked, ask };
}

// Each took a file descriptor as long as the process ran.
describe("a connection that its node does not end, too, is closed within a second", () => {
  test.each<[string, (opened: Awaited<ReturnType<typeof openHalfOpen>>) => void]>([
    ["after the gateway has ended it", ({ connection }) => connection.close()],
    ["after a GOAWAY", ({ session }) => session.goaway(constants.NGHTTP2_NO_ERROR)],
  ])("%s", async (_when, end) => {
    const opened = await openHalfOpen();
    const { socket, clock, connection } = opened;
    end(opened);
    await expect.poll(() => connection.isOpen).toBe(false);
    await expect.poll(() => socket.writableFinished).toBe(true);
    expect(socket.destroyed).toBe(false);
    clock.advance(1_000);
    expect(socket.destroyed).toBe(true);
  });

  test("after its last answer", async () => {
    const { socket, clock, connection, asked, ask } = await openHalfOpen();
    const answer = await ask();
    connection.close();
    clock.advance(60_000);
    expect(socket.destroyed).toBe(false);
    asked[0]!.respond();
    asked[0]!.end("answer");
    await expect.poll(() => answer.isHere).toBe(true);
    clock.advance(1_000);
    expect(socket.destroyed).toBe(true);
  });

  test("after its last call was given up", async () => {
    const { socket, clock, connection, ask } = await openHalfOpen();
    const answer = await ask();
    connection.close();
    answer.giveUp();
    clock.advance(1_000);
    expect(socket.destroyed).toBe(true);
  });
});
