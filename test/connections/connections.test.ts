import { once } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ClientConnections, type ClosingReason } from "../../src/connections/connections.ts";
import { readNoMore } from "../../src/connections/refused-connections.ts";
import { setTimeout as sleep } from "node:timers/promises";
import { ManualClock } from "../support/manual-clock.ts";

const GET = "GET / HTTP/1.1\r\nHost: g\r\n\r\n";
const MIB = 1024 * 1024;

let clock: ManualClock;
let connections: ClientConnections;
let server: Server;
let answer: (request: IncomingMessage, response: ServerResponse) => void;
let dropped: number;
const closed: ClosingReason[] = [];
const clients: Socket[] = [];

beforeEach(async () => {
  clock = new ManualClock();
  closed.length = 0;
  dropped = 0;
  answer = (_request, response) => response.end("hello");
  connections = new ClientConnections({
    clock,
    max: 1_000,
    unreadTimeout: 1_500,
    onDropped: () => (dropped += 1),
    onClosed: (reason) => closed.push(reason),
  });
  await listen();
});

afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

async function listen(): Promise<void> {
  server = connections.createServer({ highWaterMark: 8 * 1024 }, (request, response) => answer(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
}

interface Client {
  readonly socket: Socket;
  /** Bytes read so far. */
  received: number;
  text: string;
  /** By the other side, as far as the client has read. */
  isClosed: boolean;
}

/** A client that reads only what it is told to. */
async function open(): Promise<Client> {
  const socket = connect({ port: (server.address() as AddressInfo).port, host: "127.0.0.1", allowHalfOpen: true });
  socket.pause();
  clients.push(socket);
  const client: Client = { socket, received: 0, text: "", isClosed: false };
  socket.on("data", (chunk: Buffer) => {
    client.received += chunk.length;
    if (client.text.length < MIB) client.text += chunk.toString("latin1");
  });
  socket.pause();
  socket.on("error", () => undefined);
  socket.on("end", () => (client.isClosed = true));
  socket.on("close", () => (client.isClosed = true));
  await once(socket, "connect");
  return client;
}

/** Opens a connection and sends on it; resolves when the kernel has it. */
async function openAndSend(text: string): Promise<Client> {
  const client = await open();
  await new Promise<void>((resolve) => client.socket.write(text, "latin1", () => resolve()));
  return client;
}

const answersIn = ({ text }: Client) => text.split("HTTP/1.1 200 OK").length - 1;

const openConnections = () =>
  new Promise<number>((resolve) => server.getConnections((_error, count) => resolve(count)));

/** Resolves when all that is on its way in this process has arrived. */
async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
}

describe("requests that are sent ahead", () => {
  test("wait for the answers before them, and are answered in their order", async () => {
    const begun: ServerResponse[] = [];
    answer = (request, response) => {
      response.setHeader("path", request.url!);
      begun.push(response);
    };
    const client = await openAndSend("GET /1 HTTP/1.1\r\nHost: g\r\n\r\nGET /2 HTTP/1.1\r\nHost: g\r\n\r\n");
    client.socket.resume();
    await expect.poll(() => begun.length).toBe(1);
    await settle();
    expect(begun).toHaveLength(1);
    begun[0]!.end();
    await expect.poll(() => begun.length).toBe(2);
    begun[1]!.end();
    await expect.poll(() => [...client.text.matchAll(/path: (.*)\r/g)].map(([, path]) => path)).toEqual(["/1", "/2"]);
  });

  test("are all answered when the client reads, with their bodies", async () => {
    answer = (request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => response.end(`<${Buffer.concat(chunks).toString()}>`));
    };
    const bodies = Array.from({ length: 200 }, (_none, i) => "x".repeat(i % 7 === 0 ? 0 : (i * 37) % 900) + i);
    const requests = bodies.map(
      (body) => `POST / HTTP/1.1\r\nHost: g\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    const client = await openAndSend(requests.join(""));
    client.socket.resume();
    await expect.poll(() => [...client.text.matchAll(/<(.*?)>/g)].map(([, body]) => body)).toEqual(bodies);
    expect(closed).toEqual([]);
  });

  test("are not served while the client does not read, and served when it does", async () => {
    const body = Buffer.alloc(MIB);
    let served = 0;
    answer = (_request, response) => {
      served += 1;
      response.end(body);
    };
    const client = await openAndSend(GET.repeat(100));
    await expect.poll(() => served).toBeGreaterThan(0);
    await settle();
    // What the kernel takes, some megabytes.
    expect(served).toBeLessThan(30);
    client.socket.resume();
    await expect.poll(() => client.received).toBeGreaterThan(100 * MIB);
    expect(served).toBe(100);
  });

  test("end the connection when there are more than 256 of them", async () => {
    let served = 0;
    answer = () => (served += 1);
    const client = await openAndSend(GET.repeat(257));
    await settle();
    expect(client.isClosed).toBe(false);
    const excessive = await openAndSend(GET.repeat(1_500));
    excessive.socket.resume();
    await expect.poll(() => excessive.isClosed).toBe(true);
    expect(closed).toEqual(["pipelined"]);
    expect(served).toBe(2);
    expect(client.isClosed).toBe(false);
  });

  // All of them were counted as one, so that a connection could have 256 heads of 23 kB wait: 9 MB.
  test.each([
    ["a field of 15 kB", `GET / HTTP/1.1\r\nHost: g\r\nX: ${"x".repeat(15_000)}\r\n`, 30, 35],
    ["a URL of 8 kB", `GET /${"x".repeat(8_000)} HTTP/1.1\r\nHost: g\r\n`, 60, 66],
    ["a hundred short fields", `GET / HTTP/1.1\r\nHost: g\r\n${"X: y\r\n".repeat(98)}`, 60, 66],
  ])("end the connection when there are fewer, with %s", async (_what, head, few, many) => {
    answer = () => undefined;
    const client = await openAndSend(`${head}\r\n`.repeat(1 + few));
    const excessive = await openAndSend(`${head}\r\n`.repeat(1 + many));
    excessive.socket.resume();
    await expect.poll(() => excessive.isClosed).toBe(true);
    expect(closed).toEqual(["pipelined"]);
    expect(client.isClosed).toBe(false);
  });

  test("end the connection when there are more than 16 of them while 4,096 wait on all, or any while 16,384 do", async () => {
    let begun = 0;
    answer = () => (begun += 1);
    const fill = async (count: number, requests: number) => {
      const before = begun;
      await Promise.all(Array.from({ length: count }, () => openAndSend(GET.repeat(requests))));
      await expect.poll(() => begun).toBe(before + count);
    };
    const excessive = async (requests: number) => {
      const client = await openAndSend(GET.repeat(requests));
      client.socket.resume();
      await expect.poll(() => client.isClosed).toBe(true);
    };
    await fill(16, 1 + 256);
    await excessive(1 + 17);
    await fill(768, 1 + 16);
    expect(closed).toEqual(["pipelined"]);
    await excessive(2);
    expect(closed).toEqual(["pipelined", "pipelined"]);
    // Those who send one after the other are served all the same.
    answer = (_request, response) => response.end();
    const other = await openAndSend(GET);
    other.socket.resume();
    await expect.poll(() => answersIn(other)).toBe(1);
    // And everybody when the others are gone.
    for (const client of clients) if (client !== other.socket) client.resetAndDestroy();
    await expect.poll(openConnections).toBe(1);
    const next = await openAndSend(GET.repeat(2));
    next.socket.resume();
    await expect.poll(() => answersIn(next)).toBe(2);
  });

  // Each chunk of a byte takes some hundred bytes for as long as nobody reads it: one connection held 600 MB.
  test("end the connection after the answers before them where a body in chunks would have to wait", async () => {
    const begun: ServerResponse[] = [];
    answer = (_request, response) => begun.push(response);
    const chunks = "1\r\nx\r\n".repeat(1_000);
    const post = `POST / HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`;
    const client = await openAndSend(GET + post + GET);
    client.socket.resume();
    await expect.poll(() => begun.length).toBe(1);
    await settle();
    clock.advance(50);
    begun[0]!.end("hello");
    await expect.poll(() => client.isClosed).toBe(true);
    expect([begun.length, answersIn(client)]).toEqual([1, 1]);
    // What the kernel has still to send, a slow client may take later than a refusal.
    clock.advance(1_499);
    await settle();
    expect(closed).toEqual([]);
    clock.advance(1);
    expect(closed).toEqual(["unread"]);
  });

  // Over TLS the client has its answer, and sends on, before the response is known to be closed.
  test("are answered with a body in chunks, too, where they wait for a moment only", async () => {
    answer = (request, response) => void request.resume().once("end", () => response.end("hello"));
    const post = "POST / HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    const client = await openAndSend(GET + post);
    client.socket.resume();
    await expect.poll(() => answersIn(client)).toBe(2);
  });

  test.for([
    ["a body in chunks that cannot wait", "POST / HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
    ["a wish for another protocol", "GET / HTTP/1.1\r\nHost: g\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"],
  ])("end the connection where thousands follow %s", async ([, last]) => {
    answer = () => undefined;
    const client = await openAndSend(GET + last!);
    await settle();
    clock.advance(50);
    client.socket.write(GET.repeat(5_000));
    await expect.poll(() => closed).toEqual(["pipelined"]);
  });

  test("count for more with a body that is here, too", async () => {
    answer = () => undefined;
    const post = `POST / HTTP/1.1\r\nHost: g\r\nContent-Length: 6000\r\n\r\n${"x".repeat(6_000)}`;
    await openAndSend(GET + post.repeat(100));
    await expect.poll(() => closed).toEqual(["pipelined"]);
  });

  test("do not hide that the client is gone", async () => {
    const gone: boolean[] = [];
    answer = (_request, response) => response.once("close", () => gone.push(response.writableFinished));
    const client = await openAndSend(GET.repeat(3));
    await settle();
    client.socket.resetAndDestroy();
    await expect.poll(() => gone).toEqual([false]);
  });
});

describe("answers that are not read", () => {
  test("close the connection when nothing was read for so long", async () => {
    answer = (_request, response) => response.end(Buffer.alloc(40 * MIB));
    const client = await openAndSend(GET);
    await expect.poll(() => closed).toEqual(["unread"]);
    client.socket.resume();
    await expect.poll(() => client.isClosed).toBe(true);
    expect(client.received).toBeLessThan(40 * MIB);
  });

  test("close it though the client goes on sending", async () => {
    answer = (_request, response) => response.end(Buffer.alloc(40 * MIB));
    const client = await openAndSend(GET);
    const timer = setInterval(() => client.socket.write("G"), 50);
    await expect.poll(() => closed).toEqual(["unread"]);
    clearInterval(timer);
  });

  test("keep it while the client reads, however slowly", async () => {
    answer = (_request, response) => response.end(Buffer.alloc(40 * MIB));
    const client = await openAndSend(GET);
    // Some of it in a fifth of the time, longer in all.
    for (let bytes = 4 * MIB; bytes <= 36 * MIB; bytes += 4 * MIB) {
      client.socket.resume();
      await expect.poll(() => client.received, { interval: 1 }).toBeGreaterThanOrEqual(bytes);
      client.socket.pause();
      await sleep(200);
    }
    expect(closed).toEqual([]);
    client.socket.resume();
    await expect.poll(() => client.received).toBeGreaterThan(40 * MIB);
  });

  test("are the same when they are streamed", async () => {
    answer = (_request, response) => {
      const chunk = Buffer.alloc(MIB);
      const push = (): void => {
        while (response.write(chunk));
        response.once("drain", push);
      };
      push();
    };
    await openAndSend(GET);
    await expect.poll(() => closed).toEqual(["unread"]);
  });

  test("are not what a stream waits for whose next bytes are still to come", async () => {
    let response: ServerResponse | undefined;
    answer = (_request, given) => {
      response = given;
      given.write(Buffer.alloc(40 * MIB));
    };
    const client = await openAndSend(GET);
    client.socket.resume();
    await expect.poll(() => client.received).toBeGreaterThan(40 * MIB);
    await sleep(2_500);
    response!.end("the end");
    await expect.poll(() => client.received).toBeGreaterThan(40 * MIB + 7);
    expect(closed).toEqual([]);
  });

  test("close the connection that has waited longest, when they are more than 128 MiB in all", async () => {
    const body = Buffer.alloc(48 * MIB);
    answer = (_request, response) => response.end(body);
    const [first, second] = [await openAndSend(GET), await openAndSend(GET)];
    await settle();
    expect(closed).toEqual([]);
    const third = await openAndSend(GET);
    await expect.poll(() => closed).toEqual(["crowded"]);
    for (const { socket } of [first, second, third]) socket.resume();
    await expect.poll(() => first.isClosed).toBe(true);
    await expect.poll(() => second.received).toBeGreaterThan(48 * MIB);
    await expect.poll(() => third.received).toBeGreaterThan(48 * MIB);
    expect(first.received).toBeLessThan(48 * MIB);
  });

  test("are not counted any more when they were read or their client is gone", async () => {
    const body = Buffer.alloc(48 * MIB);
    answer = (_request, response) => response.end(body);
    for (let i = 0; i < 4; i++) {
      const client = await openAndSend(GET);
      await settle();
      if (i % 2 === 0) client.socket.resume();
      else client.socket.resetAndDestroy();
      await expect.poll(() => client.isClosed || client.received > 48 * MIB).toBe(true);
      await settle();
    }
    expect(closed).toEqual([]);
  });

  test("of one alone may be larger than all", async () => {
    const body = Buffer.alloc(160 * MIB);
    answer = (_request, response) => response.end(body);
    const client = await openAndSend(GET);
    client.socket.resume();
    await expect.poll(() => client.received).toBeGreaterThan(160 * MIB);
    expect(closed).toEqual([]);
  });
});

describe("a connection that was refused", () => {
  beforeEach(() => {
    server.on("clientError", (_error, socket: Socket) => {
      connections.refuse(socket, () => socket.end("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"));
    });
  });

  test("is closed a second later when the client does not close it", async () => {
    const client = await openAndSend("no HTTP\r\n\r\n");
    client.socket.resume();
    await expect.poll(() => client.text).toContain(" 400 ");
    await settle();
    expect(await openConnections()).toBe(1);
    clock.advance(1_000);
    await expect.poll(openConnections).toBe(0);
    expect(closed).toEqual(["refused"]);
  });

  test("is over when the client closes it, and hears nothing that comes until then", async () => {
    let served = 0;
    answer = () => (served += 1);
    const client = await openAndSend("no HTTP\r\n\r\n");
    client.socket.resume();
    await expect.poll(() => client.text).toContain(" 400 ");
    client.socket.write(GET.repeat(3));
    client.socket.end();
    await expect.poll(openConnections).toBe(0);
    clock.advance(2_000);
    expect([served, closed]).toEqual([0, []]);
  });

  test("is closed at once when nobody is to wait for it", async () => {
    const client = await openAndSend("no HTTP\r\n\r\n");
    client.socket.resume();
    await expect.poll(() => client.text).toContain(" 400 ");
    expect(await openConnections()).toBe(1);
    connections.closeRefused();
    await expect.poll(openConnections).toBe(0);
  });
});

describe("a refusal of a request whose body is still coming", () => {
  const HEAD = "POST / HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n";
  const refuse = (_request: IncomingMessage, response: ServerResponse): void => {
    response.writeHead(413, { "content-length": 5, connection: "close" }).end("large");
  };
  /** A connection that was refused before its body came. */
  const refused = async (): Promise<{ readonly client: Client; readonly socket: Socket }> => {
    let socket: Socket | undefined;
    answer = (request, response) => {
      socket = request.socket;
      refuse(request, response);
    };
    const client = await openAndSend(HEAD);
    client.socket.resume();
    await expect.poll(() => client.text).toMatch(/ 413 [^]*large$/);
    await settle();
    expect(client.isClosed).toBe(false);
    return { client, socket: socket! };
  };

  test("leaves the connection open until the body has come, and looks at nothing behind it", async () => {
    const { client } = await refused();
    let served = 0;
    answer = () => (served += 1);
    client.socket.write(`2\r\n{}\r\n0\r\n\r\n${GET}`);
    await expect.poll(() => client.isClosed).toBe(true);
    await expect.poll(openConnections).toBe(0);
    expect(served).toBe(0);
  });

  test("leaves it open where more of the body is here than Node takes unread", async () => {
    answer = refuse;
    const client = await openAndSend(`${HEAD}8000\r\n${"x".repeat(32 * 1024)}`);
    client.socket.resume();
    await expect.poll(() => client.text).toMatch(/ 413 [^]*large$/);
    await settle();
    expect(client.isClosed).toBe(false);
    client.socket.write("\r\n0\r\n\r\n");
    await expect.poll(() => client.isClosed).toBe(true);
  });

  test("leaves it open for a second at most", async () => {
    const { client } = await refused();
    clock.advance(999);
    await settle();
    expect(client.isClosed).toBe(false);
    clock.advance(1);
    await expect.poll(() => client.isClosed).toBe(true);
  });

  test("reads some MiB of the body, and no more", async () => {
    const { client, socket } = await refused();
    const chunk = "x".repeat(MIB);
    for (let i = 0; i < 64; i++) client.socket.write(`100000\r\n${chunk}\r\n`);
    await expect.poll(() => socket.bytesRead).toBeGreaterThan(4 * MIB);
    await settle();
    expect(socket.bytesRead).toBeLessThan(5 * MIB);
    expect(client.isClosed).toBe(false);
    clock.advance(1_000);
    await expect.poll(() => client.isClosed).toBe(true);
  });

  test("closes it at once when the chunks are of a few bytes", async () => {
    const { client, socket } = await refused();
    client.socket.write("1\r\nx\r\n".repeat(100_000));
    await expect.poll(() => client.isClosed).toBe(true);
    // What Node reads at once, and a little more.
    expect(socket.bytesRead).toBeLessThan(256 * 1024);
  });

  test("closes it at once where no more of it is taken", async () => {
    answer = (request, response) => {
      readNoMore(request);
      refuse(request, response);
    };
    const client = await openAndSend(HEAD);
    client.socket.resume();
    await expect.poll(() => client.isClosed).toBe(true);
  });
});

describe("when there is no place left", () => {
  const isServed = async (client: Client) => {
    client.socket.resume();
    await expect.poll(() => client.isClosed || answersIn(client) > 0).toBe(true);
    return !client.isClosed;
  };

  beforeEach(async () => {
    await new Promise((resolve) => server.close(resolve));
    connections = new ClientConnections({
      clock,
      max: 3,
      onDropped: () => (dropped += 1),
      onClosed: (reason) => closed.push(reason),
    });
    await listen();
  });

  test("the connection that has been idle longest makes room", async () => {
    const first = await openAndSend(GET);
    const second = await openAndSend(GET);
    const third = await openAndSend(GET);
    for (const client of [first, second, third]) expect(await isServed(client)).toBe(true);
    // Now the second has been idle longest.
    first.socket.write(GET);
    await expect.poll(() => answersIn(first)).toBe(2);
    await settle();
    expect(await isServed(await openAndSend(GET))).toBe(true);
    await expect.poll(() => second.isClosed).toBe(true);
    expect([first.isClosed, third.isClosed]).toEqual([false, false]);
    expect(closed).toEqual(["idle"]);
    expect(dropped).toBe(0);
  });

  test("one that has ended after its answers makes room, too", async () => {
    const begun: ServerResponse[] = [];
    answer = (request, response) => void (request.url === "/slow" ? begun.push(response) : response.end("hello"));
    const post = "POST / HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    for (let i = 0; i < 3; i += 1) await openAndSend(GET.replace("/ ", "/slow ") + post);
    await expect.poll(() => begun.length).toBe(3);
    await settle();
    clock.advance(50);
    for (const response of begun) response.end("hello");
    await settle();
    expect(await isServed(await openAndSend(GET))).toBe(true);
    expect(dropped).toBe(0);
  });

  test("one that was refused makes room first", async () => {
    server.on("clientError", (_error, socket: Socket) => {
      connections.refuse(socket, () => socket.end("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"));
    });
    const idle = await openAndSend(GET);
    expect(await isServed(idle)).toBe(true);
    for (let i = 0; i < 2; i++) {
      const refused = await openAndSend("no HTTP\r\n\r\n");
      refused.socket.resume();
      await expect.poll(() => refused.text).toContain(" 400 ");
    }
    expect(await isServed(await openAndSend(GET))).toBe(true);
    expect(closed).toEqual(["refused"]);
    expect(idle.isClosed).toBe(false);
  });

  test("one that never sent anything does so, too, the first of them first", async () => {
    const silent = [await open(), await open()];
    for (const { socket } of silent) socket.resume();
    expect(await isServed(await openAndSend(GET))).toBe(true);
    expect(await isServed(await openAndSend(GET))).toBe(true);
    await expect.poll(() => silent[0]!.isClosed).toBe(true);
    expect(silent[1]!.isClosed).toBe(false);
    silent[1]!.socket.write(GET);
    expect(await isServed(silent[1]!)).toBe(true);
    expect(dropped).toBe(0);
  });

  test("none does that has a request under way, or has sent a part of its first", async () => {
    const begun: ServerResponse[] = [];
    answer = (_request, response) => begun.push(response);
    const busy = [await openAndSend(GET), await openAndSend("GET / HT"), await openAndSend(GET)];
    await expect.poll(() => begun.length).toBe(2);
    expect(await isServed(await openAndSend(GET))).toBe(false);
    expect(dropped).toBe(1);
    expect(closed).toEqual([]);
    busy[1]!.socket.write("TP/1.1\r\nHost: g\r\n\r\n");
    await expect.poll(() => begun.length).toBe(3);
    for (const response of begun) response.end();
    for (const client of busy) expect(await isServed(client)).toBe(true);
  });
});

describe("the body of a GET", () => {
  const get = (body: string) => `GET / HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n${body}0\r\n\r\n`;

  // 200 event streams with such a body held 800 MB for as long as they were open.
  test("is dropped while the answer is to come, and the connection serves the next request", async () => {
    const begun: { request: IncomingMessage; response: ServerResponse }[] = [];
    answer = (request, response) => begun.push({ request, response });
    const client = await openAndSend(get("1\r\nx\r\n".repeat(1_000)));
    client.socket.resume();
    await expect.poll(() => begun.length).toBe(1);
    await settle();
    expect(begun[0]!.request).toMatchObject({ complete: true, readableLength: 0 });
    begun[0]!.response.end("hello");
    await expect.poll(() => answersIn(client)).toBe(1);
    client.socket.write(GET);
    await expect.poll(() => begun.length).toBe(2);
  });

  test("ends the connection where it comes in thousands of chunks of a byte", async () => {
    answer = () => undefined;
    await openAndSend(get("1\r\nx\r\n".repeat(10_000)));
    await expect.poll(() => closed).toEqual(["pipelined"]);
  });
});

test("a stop closes the listener when answers on their way are read, and cuts none", async () => {
  answer = (_request, response) => response.end(Buffer.alloc(40 * MIB));
  const client = await openAndSend(GET);
  await expect.poll(() => connections.isSending).toBe(true);
  let isSettled = false;
  const settled = connections.settled().then(() => (isSettled = true));
  await settle();
  expect(isSettled).toBe(false);
  client.socket.resume();
  await settled;
  server.close();
  await expect.poll(() => client.received).toBeGreaterThan(40 * MIB);
  expect(connections.isSending).toBe(false);
});

test("a client that has closed its side is taken for gone, but for what was answered at once", async () => {
  const gone: boolean[] = [];
  answer = (request, response) => {
    response.once("close", () => gone.push(response.writableFinished));
    if (request.url === "/now") response.end("now");
  };
  const client = await open();
  client.socket.resume();
  client.socket.end("GET /now HTTP/1.1\r\nHost: g\r\n\r\n");
  await expect.poll(() => client.isClosed).toBe(true);
  expect(client.text).toContain("now");
  (await open()).socket.end(GET);
  await expect.poll(() => gone).toEqual([true, false]);
});
