import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { measureLoopTime } from "../../support/loop-time.ts";
import { useGateways } from "../../support/gateways.ts";
import { ownError } from "../../support/own-error.ts";
import { firstAnswer, sendAndHalfClose, sendRaw } from "../../support/raw-connection.ts";
import { send } from "../../support/send.ts";
import { useThreeRegistries } from "../../support/three-registries.ts";

const running = useThreeRegistries({
  keys: { listen: { host: "127.0.0.1", port: 0, headersTimeout: "300ms", maxConnections: 8 } },
});

const BASE = "/api/token-standard/v0/registrars/amulet/registry";
const CANCEL = `${BASE}/allocations/v1/x/choice-contexts/cancel`;
const DRAFT = `${BASE}/drafts/v1/x`;

const PATIENCE = 8_000;

test.concurrent.each([
  ["half a request line", "GET /registry"],
  ["half a head", `GET ${BASE}/metadata/v1/info HTTP/1.1\r\nHost: g\r\nX:`],
  [
    "half a body",
    `POST ${CANCEL} HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"a"`,
  ],
  ["half a body that passes through", `POST ${DRAFT} HTTP/1.1\r\nHost: g\r\nContent-Length: 9\r\n\r\n{"a"`],
])("%s and then nothing is 408 in our form", async (_what, text) => {
  const answer = await sendRaw(running().url, text, PATIENCE);
  expect(answer.statuses).toEqual([408]);
  expect(answer.isClosed).toBe(true);
  const { head, body } = firstAnswer(answer);
  expect(head).toContain("content-type: application/json");
  expect(head).toContain("access-control-allow-origin: *");
  expect(JSON.parse(body)).toEqual(ownError(/too long/));
});

test("clients that dawdle take nobody's place for long", async () => {
  const dawdlers = Array.from({ length: 8 }, () => sendRaw(running().url, "GET /", PATIENCE));
  await Promise.all(dawdlers);
  expect((await send(running().url, { path: `${BASE}/metadata/v1/info` })).status).toBe(200);
});

const clients: Socket[] = [];

afterEach(() => {
  for (const client of clients.splice(0)) client.destroy();
});

/** Sends what will be refused, reads the answer, and keeps the connection open from this side. */
async function refusedAndStaying(base: string, text: string): Promise<{ answer: string; socket: Socket }> {
  const { hostname, port } = new URL(base);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  clients.push(socket);
  socket.on("error", () => undefined);
  let answer = "";
  socket.on("data", (chunk: Buffer) => (answer += chunk.toString("latin1")));
  socket.write(text, "latin1");
  await once(socket, "end");
  return { answer, socket };
}

const REFUSED: readonly (readonly [string, string, number])[] = [
  ["what is no HTTP", "no HTTP\r\n\r\n", 400],
  ["a head that is too large", `GET / HTTP/1.1\r\nX: ${"x".repeat(40_000)}`, 431],
  ["CONNECT", "CONNECT g:1 HTTP/1.1\r\nHost: g\r\n\r\n", 405],
  ["half a head", "GET / HTTP/1.1\r\nHost:", 408],
];

describe("connections that were refused and that the client keeps", () => {
  test("are closed within two seconds, and take nobody's place until then", async () => {
    const { url } = running();
    for (let i = 0; i < 8; i++) {
      const [, text, status] = REFUSED[i % 3]!;
      expect((await refusedAndStaying(url, text)).answer).toContain(`HTTP/1.1 ${status} `);
    }
    expect((await send(url, { path: `${BASE}/metadata/v1/info` })).status).toBe(200);
    const connections = async () => {
      const { text } = await send(running().operations, { path: "/metrics" });
      return /^registry_gateway_connections ([0-9]+)$/m.exec(text)?.[1];
    };
    await expect.poll(connections).toBe("0");
  });
});

describe("a stop", () => {
  const start = useGateways();

  test.each(REFUSED)("does not wait for a client that got its refusal of %s", async (_what, text, status) => {
    const gateway = await start({
      listen: { host: "127.0.0.1", port: 0, headersTimeout: "300ms" },
      upstreams: [
        { name: "amulet", admin: running().registries.amulet.admin, urls: [running().registries.amulet.url] },
      ],
      shutdown: { timeout: "30s" },
    });
    const open = [await refusedAndStaying(gateway.url, text)];
    // The timeout of the operations listener is its own, and longer.
    if (status !== 408) open.push(await refusedAndStaying(gateway.operations, text));
    for (const { answer } of open) expect(answer).toContain(`HTTP/1.1 ${status} `);
    const took = measureLoopTime();
    await gateway.stop();
    expect(took()).toBeLessThan(10_000);
  });
});

describe("a call with Upgrade", () => {
  const start = useGateways();

  // Node says nothing of errors in such a body.
  test("whose body is none is refused when its time is over, and asks no registry", async () => {
    const { amulet } = running().registries;
    const gateway = await start({
      listen: { host: "127.0.0.1", port: 0, headersTimeout: "300ms" },
      upstreams: [{ name: "amulet", admin: amulet.admin, urls: [amulet.url] }],
    });
    const head = `POST ${CANCEL} HTTP/1.1\r\nHost: g\r\nConnection: Upgrade\r\nUpgrade: x\r\nContent-Type: application/json\r\n`;
    const before = amulet.calls.recent.filter(({ method }) => method === "POST").length;
    const answer = await sendRaw(gateway.url, [`${head}Transfer-Encoding: chunked\r\n\r\n`, "zz\r\n"]);
    expect([answer.statuses, answer.isClosed]).toEqual([[408], true]);
    expect(amulet.calls.recent.filter(({ method }) => method === "POST").length).toBe(before);
  });
});

describe("the operations listener", () => {
  test.each(REFUSED.slice(0, 3))("refuses %s in our form", async (_what, text, status) => {
    const answer = await sendRaw(running().operations, text);
    expect(answer.statuses).toEqual([status]);
    expect(answer.isClosed).toBe(true);
    expect(JSON.parse(firstAnswer(answer).body)).toEqual(ownError());
  });
});

test("a client that half-closes its connection is gone: its call ends, and a hit is answered", async () => {
  const { url, operations, registries } = running();
  const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
  const info = get(`${BASE}/metadata/v1/info`);
  await sendRaw(url, info.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
  expect(await sendAndHalfClose(url, info)).toMatch(/^HTTP\/1\.1 200 /);
  expect(await sendAndHalfClose(operations, get("/livez"))).toMatch(/^HTTP\/1\.1 200 /);
  registries.amulet.slow(60_000);
  try {
    const head = "Host: g\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    expect(await sendAndHalfClose(url, `POST ${CANCEL} HTTP/1.1\r\n${head}`)).toBe("");
    expect(await sendAndHalfClose(url, get(DRAFT))).toBe("");
  } finally {
    registries.amulet.slow(0);
  }
});

test("what is no HTTP behind a request whose answer has begun adds nothing to that answer", async () => {
  const { url, registries } = running();
  const over = Promise.withResolvers<void>();
  async function* body() {
    yield Buffer.from("half of it");
    await over.promise;
  }
  registries.amulet.script(({ operation }) =>
    operation === "pass_through" ? { status: 200, headers: ["Content-Length", "20"], body: body() } : undefined,
  );
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  clients.push(socket);
  let text = "";
  socket.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
  socket.on("error", () => undefined);
  socket.write(`GET ${DRAFT} HTTP/1.1\r\nHost: g\r\n\r\n`);
  await expect.poll(() => text).toContain("half of it");
  socket.write("no HTTP\r\n\r\n");
  await once(socket, "close");
  over.resolve();
  registries.amulet.script(undefined);
  expect(text).not.toContain("HTTP/1.1 400");
});
