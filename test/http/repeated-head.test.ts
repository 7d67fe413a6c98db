import { once } from "node:events";
import type { IncomingMessage, RequestListener, Server } from "node:http";
import { type AddressInfo, connect, Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { ClientConnections } from "../../src/http/connections.ts";
import { HeadReader, RepeatedHeads, type RepeatedRequest } from "../../src/http/repeated-head.ts";
import { mulberry32, type Random } from "../../src/sandbox/random.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { runs } from "../support/thorough.ts";

/** Says what it makes of requests, in answers of the same form whether Node's parser has seen the request or not. */
class EchoServer {
  readonly server: Server;
  /** Heads that Node's parser did not see. */
  repeated: RepeatedRequest[] = [];
  /** How repeated requests are served: at once, or at the end of the turn. */
  isCrowded = false;
  /** Called when one has come, and is not served yet where it is served later. */
  onBegin: (() => void) | undefined;
  /** What Node's parser made, while it is in memory. */
  parsed: WeakRef<IncomingMessage>[] = [];
  /** Whether such are answered, or left to Node's parser. */
  isAnswering = true;
  readonly sockets = new Set<Socket>();
  private readonly connections: ClientConnections;

  constructor(hasRepeats: boolean) {
    this.connections = new ClientConnections({ clock: new ManualClock(), max: 1_000 });
    this.server = this.connections.createServer({ keepAliveTimeout: 5_000, requireHostHeader: false }, this.answer);
    this.server.on("connection", (socket) => {
      this.sockets.add(socket);
      socket.once("close", () => this.sockets.delete(socket));
    });
    this.server.on("connect", (_request, socket: Socket) => socket.destroy());
    if (!hasRepeats) return;
    this.connections.answerRepeats({
      begin: (request) => {
        if (this.isCrowded) setImmediate(request.serve);
        else request.serve();
        this.onBegin?.();
      },
      answer: (request) => this.answerAgain(request),
    });
  }

  async listen(): Promise<void> {
    this.server.listen(0, "127.0.0.1");
    await once(this.server, "listening");
  }

  async close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => {
      this.server.close(resolve);
    });
  }

  private readonly answer: RequestListener = (request, response) => {
    response.sendDate = false;
    this.parsed.push(new WeakRef(request));
    const { url = "" } = request;
    const send = (body: string) => {
      const text = echo(request, body);
      response.writeHead(200, ["content-length", String(text.length)]);
      response.end(request.method === "HEAD" ? "" : text);
      if (url.startsWith("/hit")) this.connections.noteAnswered(request, response);
    };
    if (url.startsWith("/hit") && request.complete) return send(bodyOf(url));
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    // Later than what comes behind it.
    const body = () => bodyOf(url) || Buffer.concat(chunks).toString("latin1");
    request.on("end", () => setImmediate(() => setImmediate(() => send(body()))));
  };

  private answerAgain(request: RepeatedRequest): boolean {
    if (!this.isAnswering) return false;
    this.repeated.push(request);
    const text = echo(request, bodyOf(request.url!));
    const head = `HTTP/1.1 200 OK\r\ncontent-length: ${text.length}\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\n`;
    request.socket.write(request.method === "HEAD" ? head : head + text);
    return true;
  }
}

/** More than the kernel takes. */
const BIG = 24 * 1024 * 1024;

function bodyOf(url: string): string {
  return url === "/hit/big" ? "b".repeat(BIG) : "";
}

function echo(
  { method, url, rawHeaders }: Pick<IncomingMessage, "method" | "url" | "rawHeaders">,
  body: string,
): string {
  return JSON.stringify({ method, url, rawHeaders, body });
}

/** Looks in every turn: what is waited for comes within a few. */
async function until(condition: () => boolean): Promise<void> {
  const startedAt = performance.now();
  while (!condition()) {
    if (performance.now() - startedAt > 10_000) throw new Error(`not true within 10 s: ${condition.toString()}`);
    await new Promise(setImmediate);
  }
}

class Client {
  text = "";
  isClosed = false;
  readonly socket: Socket;
  private readonly to: EchoServer;
  private sent = 0;
  private peer: Socket | undefined;

  constructor(to: EchoServer) {
    this.to = to;
    this.socket = connect({ port: (to.server.address() as AddressInfo).port, host: "127.0.0.1", noDelay: true });
    this.socket.on("data", (chunk: Buffer) => (this.text += chunk.toString("latin1")));
    this.socket.on("error", () => undefined);
    this.socket.on("close", () => (this.isClosed = true));
  }

  async opened(): Promise<this> {
    await once(this.socket, "connect");
    const find = () => [...this.to.sockets].find(({ remotePort }) => remotePort === this.socket.localPort);
    await until(() => find() !== undefined);
    this.peer = find();
    return this;
  }

  /** Resolves when the server has read it, in one piece. */
  async send(text: string): Promise<void> {
    if (this.isClosed || this.peer!.destroyed) return;
    this.sent += text.length;
    this.socket.write(text, "latin1");
    await until(() => this.isClosed || this.peer!.destroyed || this.peer!.bytesRead >= this.sent);
  }

  /** Resolves when a large answer has come. */
  async whole(): Promise<void> {
    await until(() => this.text.length > BIG);
    this.text = "";
  }

  /** The answers, when there are so many or the connection is closed. */
  async answers(count: number): Promise<{ method: string; url: string; body: string }[]> {
    const read = () => [...this.text.matchAll(/\r\n\r\n(\{[^\r]*\})/g)].map((match) => JSON.parse(match[1]!));
    await until(() => this.isClosed || read().length >= count);
    return read();
  }
}

const A = "GET /hit/a HTTP/1.1\r\nHost: g\r\n\r\n";
const B = "GET /hit/b HTTP/1.1\r\nHost: g\r\nAccept: */*\r\n\r\n";
const HEAD_A = "HEAD /hit/a HTTP/1.1\r\nHost: g\r\n\r\n";
const MISS = "GET /miss HTTP/1.1\r\nHost: g\r\n\r\n";
const post = (body: string) => `POST /p HTTP/1.1\r\nHost: g\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const chunked = (body: string) =>
  `POST /c HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;

let echoes: EchoServer;
let plain: EchoServer;

beforeAll(async () => {
  echoes = new EchoServer(true);
  plain = new EchoServer(false);
  await Promise.all([echoes.listen(), plain.listen()]);
});

afterEach(() => {
  echoes.repeated = [];
  echoes.parsed = [];
  echoes.isCrowded = false;
  echoes.isAnswering = true;
  echoes.onBegin = undefined;
});

afterAll(async () => {
  await Promise.all([echoes.close(), plain.close()]);
});

/** A connection on which these heads were answered often enough to be known. */
async function acquainted(...heads: readonly string[]): Promise<Client> {
  const client = await new Client(echoes).opened();
  let sent = 0;
  for (let i = 0; i < 4; i += 1) {
    for (const head of heads) {
      await client.send(head);
      await client.answers((sent += 1));
    }
  }
  client.text = "";
  echoes.repeated = [];
  return client;
}

describe.each([
  ["at once", false],
  ["at the end of a turn", true],
])("a head that came before, served %s,", (_when, isCrowded) => {
  test("is not parsed again", async () => {
    const client = await acquainted(A, B);
    echoes.isCrowded = isCrowded;
    for (const [i, head] of [A, B, A, A, B].entries()) {
      await client.send(head);
      await client.answers(i + 1);
    }
    expect((await client.answers(5)).map(({ url }) => url)).toEqual(["/hit/a", "/hit/b", "/hit/a", "/hit/a", "/hit/b"]);
    expect(echoes.repeated).toHaveLength(5);
  });

  test("is answered after the one before it and before the one after it", async () => {
    const client = await acquainted(A, B);
    echoes.isCrowded = isCrowded;
    // The second comes while the first waits for the end of its turn, or is still being answered.
    client.socket.write(MISS);
    await client.send(A);
    client.socket.write(A);
    client.socket.write(B);
    client.socket.write(MISS);
    const answers = await client.answers(5);
    expect(answers.map(({ url }) => url)).toEqual(["/miss", "/hit/a", "/hit/a", "/hit/b", "/miss"]);
  });

  test("is given to the parser where it is to go on", async () => {
    const client = await acquainted(A);
    echoes.isCrowded = isCrowded;
    echoes.isAnswering = false;
    for (let i = 1; i <= 3; i += 1) {
      await client.send(A);
      expect(await client.answers(i)).toHaveLength(i);
    }
    echoes.isAnswering = true;
    await client.send(A);
    expect(await client.answers(4)).toHaveLength(4);
    expect(echoes.repeated).toHaveLength(1);
  });

  test("is answered though the listener closes what is idle before it comes to that", async () => {
    const client = await acquainted(A);
    echoes.isCrowded = isCrowded;
    echoes.onBegin = () => echoes.server.closeIdleConnections();
    await client.send(A);
    await until(() => client.isClosed);
    expect(await client.answers(1)).toMatchObject([{ url: "/hit/a" }]);
  });

  test("is answered though the client says with it that nothing follows", async () => {
    const client = await acquainted(A);
    echoes.isCrowded = isCrowded;
    client.socket.end(A);
    await until(() => client.isClosed);
    expect(await client.answers(1)).toMatchObject([{ url: "/hit/a" }]);
  });
});

test.each([
  ["in a body", `POST /p HTTP/1.1\r\nHost: g\r\nContent-Length: ${A.length}\r\n\r\n`, 1],
  ["in a chunk", `POST /c HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n${A.length.toString(16)}\r\n`, 0],
  ["as a field of a head", "GET /hit/x HTTP/1.1\r\nHost: g\r\nX-A: b", 1],
  ["behind half a line", "GET /hit/x HTTP/1.1\r\nHost: g\r\nX-A:", 1],
])("the same bytes %s are no request", async (_where, before, answered) => {
  const client = await acquainted(A);
  await client.send(before);
  await client.send(A);
  if (answered === 0) await client.send("\r\n0\r\n\r\n");
  await client.answers(1);
  expect(echoes.repeated).toEqual([]);
  expect(client.text).not.toContain('"url":"/hit/a"');
});

test.each([
  ["closes the connection", "GET /hit/close HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n"],
  ["is of HTTP/1.0", "GET /hit/old HTTP/1.0\r\nHost: g\r\nConnection: keep-alive\r\n\r\n"],
  ["has an id of its own", "GET /hit/id HTTP/1.1\r\nHost: g\r\nX-Request-Id: 7\r\n\r\n"],
  ["is of a trace", `GET /hit/t HTTP/1.1\r\nHost: g\r\ntraceparent: 00-${"a".repeat(32)}-${"b".repeat(16)}-01\r\n\r\n`],
  ["has two hosts", "GET /hit/hosts HTTP/1.1\r\nHost: g\r\nHost: h\r\n\r\n"],
  ["has an empty body", "GET /hit/empty HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
  ["is no hit", MISS],
  ["is long", `GET /hit/long HTTP/1.1\r\nHost: g\r\nX-A: ${"a".repeat(3_000)}\r\n\r\n`],
])("a head that %s is not remembered", async (_what, head) => {
  const client = await acquainted(A);
  for (let i = 1; i <= 6 && !client.isClosed; i += 1) {
    await client.send(head);
    await client.answers(i);
  }
  expect(echoes.repeated).toEqual([]);
});

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

test.each([
  ["with a body", [post("{}")]],
  ["with a body that ends as heads do", [post("{}\r\n\r\n")]],
  ["that is chunked", [chunked("{}")]],
  ["in two pieces", [MISS.slice(0, -2), MISS.slice(-2)]],
  ["that is no hit", [MISS]],
])("a request %s is not kept once it is answered", async (_what, pieces) => {
  const client = await acquainted(A);
  echoes.parsed = [];
  const count = 50;
  for (let i = 1; i <= count; i += 1) {
    for (const piece of pieces) await client.send(piece);
    await client.answers(i);
  }
  collectGarbage();
  expect(echoes.parsed).toHaveLength(count);
  // Node keeps the last one or two of a connection.
  expect(echoes.parsed.filter((request) => request.deref() !== undefined).length).toBeLessThan(5);
});

test("a head with a credential is known to its own connection alone, and keeps what it came with", async () => {
  const head = "GET /hit/k HTTP/1.1\r\nHost: g\r\nX-API-Key: secret\r\nAuthorization: Bearer b\r\n\r\n";
  const client = await acquainted(head);
  for (let i = 1; i <= 3; i += 1) {
    await client.send(head);
    await client.answers(i);
    const { headers } = echoes.repeated.at(-1)!;
    expect(headers).toMatchObject({ "x-api-key": "secret", authorization: "Bearer b" });
    // As whoever takes a credential does.
    headers["x-api-key"] = undefined;
  }
  expect(echoes.repeated).toHaveLength(3);
  const another = await acquainted(A);
  await another.send(head);
  await another.answers(1);
  expect(echoes.repeated).toEqual([]);
});

test("a head of many fields is not known again, however short they are", async () => {
  const headOf = (fields: number) =>
    `GET /hit/a HTTP/1.1\r\nHost: g\r\n${Array.from({ length: fields - 1 }, (_, i) => `X${i}:\r\n`).join("")}\r\n`;
  for (const [fields, times] of [
    [40, 1],
    [41, 0],
  ] as const) {
    const client = await acquainted(headOf(fields));
    await client.send(headOf(fields));
    await client.answers(1);
    expect(echoes.repeated).toHaveLength(times);
  }
});

test("heads with credentials are of a thousand connections at most, and go with them", () => {
  const heads = new RepeatedHeads();
  const ownerOf = () =>
    new HeadReader(new Socket(), { heads, isQuiet: () => true, begin: () => undefined, answer: () => false });
  const [text, head] = ["GET / HTTP/1.1\r\nCookie: a\r\n\r\n", { headers: {}, rawHeaders: [], showsCredential: true }];
  const owners = Array.from({ length: 1_001 }, ownerOf);
  for (const owner of owners) for (let i = 0; i < 6; i += 1) heads.remember(text + i, head, owner);
  const known = owners.map((owner) => [0, 1, 2, 3, 4, 5].filter((i) => heads.find(text + i, owner) === head));
  expect(known[0]).toEqual([]);
  expect(new Set(known.slice(1).map(String))).toEqual(new Set(["0,1,2,3"]));
  const last = owners.at(-1)!;
  heads.forget(last);
  expect(heads.find(`${text}0`, last)).toBeUndefined();
  expect(heads.find(`${text}0`, owners[500]!)).toBe(head);
});

test("a head with a credential is let go of with its connection, even the one that was repeated last", async () => {
  const client = await acquainted("GET /hit/a HTTP/1.1\r\nHost: g\r\nCookie: c\r\n\r\n");
  await client.send("GET /hit/a HTTP/1.1\r\nHost: g\r\nCookie: c\r\n\r\n");
  await client.answers(1);
  const repeated = new WeakRef(echoes.repeated.at(-1)!.rawHeaders);
  expect(echoes.repeated).toHaveLength(1);
  echoes.repeated = [];
  client.socket.destroy();
  await until(() => client.isClosed);
  await until(() => {
    collectGarbage();
    return repeated.deref() === undefined;
  });
});

describe("an answer past any response", () => {
  const big = "GET /hit/big HTTP/1.1\r\nHost: g\r\n\r\n";

  /** A connection whose client has not read such an answer, and the server's end of it. */
  async function unread(): Promise<{ client: Client; peer: Socket }> {
    const client = await acquainted(A);
    for (let i = 0; i < 3; i += 1) {
      await client.send(big);
      await client.whole();
    }
    echoes.repeated = [];
    client.socket.pause();
    await client.send(big);
    const peer = [...echoes.sockets].find(({ remotePort }) => remotePort === client.socket.localPort)!;
    await until(() => peer.writableLength > 0);
    expect(echoes.repeated).toHaveLength(1);
    return { client, peer };
  }

  test("is not cut off by the time for idle connections, which are", async () => {
    const { client, peer } = await unread();
    peer.emit("timeout");
    expect(peer.destroyed).toBe(false);
    client.socket.resume();
    await client.whole();
    await until(() => peer.writableLength === 0);
    peer.emit("timeout");
    expect(peer.destroyed).toBe(true);
  });

  test("comes whole where idle connections are closed meanwhile, and is the last", async () => {
    const { client } = await unread();
    const idle = await acquainted(A);
    echoes.server.closeIdleConnections();
    await until(() => idle.isClosed);
    client.socket.resume();
    await client.whole();
    await until(() => client.isClosed);
  });
});

test("so does one that Node's parser has seen", async () => {
  const client = await new Client(plain).opened();
  client.socket.pause();
  await client.send("GET /hit/big HTTP/1.1\r\nHost: g\r\n\r\n");
  const peer = [...plain.sockets].find(({ remotePort }) => remotePort === client.socket.localPort)!;
  await until(() => peer.writableLength > 0);
  plain.server.closeIdleConnections();
  client.socket.resume();
  await client.whole();
  await until(() => client.isClosed);
});

test("a head is looked up now and then after many that were not known", async () => {
  const client = await acquainted(A, B);
  for (let i = 1; i <= 40; i += 1) {
    await client.send(`GET /hit/${i} HTTP/1.1\r\nHost: g\r\nN: ${i}\r\n\r\n`);
    await client.answers(i);
  }
  expect(echoes.repeated).toEqual([]);
  for (let i = 1; i <= 40; i += 1) {
    await client.send(i % 2 === 0 ? A : B);
    await client.answers(40 + i);
  }
  expect(echoes.repeated.length).toBeGreaterThan(20);
});

test("a request without a body that is no GET or HEAD is not known again", async () => {
  const client = await acquainted(A);
  const bare = "POST /hit/a HTTP/1.1\r\nHost: g\r\n\r\n";
  for (let i = 1; i <= 4; i += 1) {
    await client.send(bare);
    await client.answers(i);
  }
  expect(echoes.repeated).toEqual([]);
});

const REFUSED = "HTTP/1.1 400 Bad Request";

/** What may follow on a connection. */
const PIECES: readonly string[] = [
  A,
  A,
  A,
  B,
  B,
  HEAD_A,
  MISS,
  A + B,
  A + MISS + B,
  MISS + A,
  post("x"),
  post(A),
  post(A + B),
  chunked(A),
  chunked("x"),
  post(""),
  "\r\n",
  "GET /hit/a HTTP/1.1\r\nHost: g\r\nX: y\r\n\r\n",
  "GET /hit/a HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n",
  "GET /x HTTP/1.1\r\nX-A: b\r\n",
  "GET /x HTTP/1.1\nHost: g\n\n",
  "nonsense\r\n\r\n",
  "CONNECT g:1 HTTP/1.1\r\nHost: g\r\n\r\n",
  "GET /hit/a HTTP/1.1\r\nHost: g\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
  "0\r\n\r\n",
];
const LAST = "GET /last HTTP/1.1\r\nHost: g\r\n\r\n";
/** Those that end a connection sooner or later come seldom. */
const SEEMLY = 17;

/** Requests one after the other, cut where they end, anywhere, or not at all. */
function createStream(random: Random): string[] {
  const pieces = Array.from({ length: 12 }, () => {
    const all = random() < 0.85 ? SEEMLY : PIECES.length;
    return PIECES[Math.floor(random() * all)]!;
  });
  const stream: string[] = [];
  for (const piece of pieces) {
    const kind = random();
    if (kind < 0.7 || stream.length === 0) stream.push(piece);
    else if (kind < 0.85) stream[stream.length - 1] += piece;
    else {
      const at = Math.floor(random() * piece.length);
      stream.push(piece.slice(0, at), piece.slice(at));
    }
  }
  return stream.filter((text) => text !== "");
}

test("whatever comes in whatever pieces is answered as Node's parser alone has it answered", async () => {
  const random = mulberry32(20_261_123);
  let repeated = 0;
  let whole = 0;
  const most = runs(150, 3_000);
  for (let run = 0; run < most; run += 1) {
    echoes.isCrowded = run % 2 === 1;
    const stream = createStream(random);
    const isHurried = random() < 0.3;
    const texts = await Promise.all(
      [echoes, plain].map(async (server) => {
        const client = await new Client(server).opened();
        for (const text of [A, B, A, B, A, B, ...stream]) {
          const before = client.text.length;
          await client.send(text);
          // Mostly the next comes when something was answered, if something was to be.
          if (isHurried) continue;
          for (let i = 0; i < 6 && client.text.length === before; i += 1) await new Promise(setImmediate);
        }
        await client.send(LAST);
        await until(() => client.isClosed || client.text.includes('"url":"/last"'));
        client.socket.destroy();
        return client.text;
      }),
    );
    const [mine, parsers] = texts.map((text) => text.split(REFUSED)[0]!) as [string, string];
    // How many answers are out when the parser meets what is no request depends on who was quicker.
    const isCut = !texts.every((text) => text.includes('"url":"/last"'));
    const common = isCut ? Math.min(mine.length, parsers.length) : Infinity;
    expect(mine.slice(0, common), JSON.stringify(stream)).toBe(parsers.slice(0, common));
    whole += isCut ? 0 : 1;
    repeated += echoes.repeated.length;
    echoes.repeated = [];
  }
  // Else it has not been tried.
  expect(repeated).toBeGreaterThan(2 * most);
  expect(whole).toBeGreaterThan(most / 3);
}, 600_000);
