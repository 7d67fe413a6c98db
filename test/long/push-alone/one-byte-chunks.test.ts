import { readFileSync, writeFileSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { GatewayProcess } from "../../support/gateway-process.ts";
import { findFreePort } from "../../support/ports.ts";
import { send } from "../../support/send.ts";

const MIB = 2 ** 20;

/** What garbage of a good run may lie around when it is looked at: what is collected when differs from run to run. */
const LATE_COLLECTION = 256 * MIB;

/** What a process may take in all. */
const MAX_MEMORY = 384 * MIB;

/**
 * By so many milliseconds of CPU hostile bodies may hold the event loop, and with it the hits of another registry, longer
 * than the same bytes in large chunks.
 */
const MAX_HELD = 300;

/**
 * Some 11,000 chunks of a request are in what Node reads of a connection at once, and its parser cannot be stopped in
 * between: it takes some 9 ms for them.
 */
const HELD_BY_REQUEST = 80;

const PREFIX = "/api/token-standard/v0/registrars";
const FACTORY = `${PREFIX}/big/registry/transfer-instruction/v1/transfer-factory`;

/** A JSON object of some bytes, in chunks of `size` bytes. */
function chunks(bytes: number, size: number): Buffer {
  const text = `{"choiceArguments":{"x":"${"a".repeat(bytes)}"}}`;
  const parts: string[] = [];
  for (let at = 0; at < text.length; at += size) {
    const part = text.slice(at, at + size);
    parts.push(`${part.length.toString(16)}\r\n${part}\r\n`);
  }
  parts.push("0\r\n\r\n");
  return Buffer.from(parts.join(""));
}

function head(path: string, target: string): string {
  return `POST ${path} HTTP/1.1\r\nhost: ${target}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`;
}

/** Sends a request with this body; resolves with the status of the answer, or 0 when the connection just ends. */
function post(target: string, path: string, body: Buffer): Promise<number> {
  const [host = "", port] = target.split(":");
  return new Promise((resolve) => {
    const socket: Socket = connect({ host, port: Number(port) });
    let text = "";
    const done = (): void => {
      socket.destroy();
      resolve(Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0));
    };
    socket.setTimeout(20_000, done);
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
      if (text.includes("\r\n\r\n")) done();
    });
    socket.on("error", done).on("close", done);
    socket.write(head(path, target));
    socket.write(body);
  });
}

let registry: Server;
let heldLoop: string;
let gateway: GatewayProcess;
/** What the registry named big answers to everything but its info. */
let answer: Buffer = Buffer.alloc(0);

const plain = (json: string): Buffer =>
  Buffer.from(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${json.length}\r\n\r\n${json}`);

beforeAll(async () => {
  registry = createServer((socket) => {
    let text = "";
    socket.on("error", () => undefined);
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
      for (let end = text.indexOf("\r\n\r\n"); end !== -1; end = text.indexOf("\r\n\r\n")) {
        const path = text.split(" ", 2)[1] ?? "";
        text = text.slice(end + 4);
        const [, name = "", rest = ""] = /^\/([^/]+)(.*)$/.exec(path) ?? [];
        if (rest.endsWith("/info")) socket.write(plain(`{"adminId":"${name}::1220aa","supportedApis":{}}`));
        else if (name === "well")
          socket.write(plain('{"id":"I-1","name":"N","symbol":"S","decimals":10,"supportedApis":{}}'));
        else socket.write(answer);
      }
    });
  });
  await new Promise<void>((resolve) => registry.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(registry.address() as AddressInfo).port}`;
  const port = await findFreePort();
  heldLoop = `http://127.0.0.1:${port}`;
  process.env["HELD_LOOP_PORT"] = String(port);
  const folder = import.meta.dirname;
  gateway = await GatewayProcess.start(
    {
      upstreams: ["big", "well"].map((name) => ({ name, admin: `${name}::1220aa`, urls: [`${url}/${name}`] })),
    },
    {
      command: [
        process.execPath,
        "--max-semi-space-size=8",
        "--import",
        join(folder, "../../support/held-loop.ts"),
        join(folder, "../../../src/main.ts"),
      ],
    },
  );
});
afterAll(async () => {
  await gateway.stop();
  registry.close();
});

/** The most that a process took, in bytes, since this was asked last. */
function memoryOf(pid: number): number {
  const [, most] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))!;
  writeFileSync(`/proc/${pid}/clear_refs`, "5");
  return Number(most) * 1024;
}

interface Measured {
  /** Milliseconds of CPU. */
  readonly held: number;
  /** The slowest hit of another registry, in milliseconds. */
  readonly slowest: number;
  /** Bytes. */
  readonly memory: number;
}

/** What is noticed while `work` is done. */
async function measure(work: () => Promise<unknown>): Promise<Measured> {
  memoryOf(gateway.pid);
  await send(heldLoop, { path: "/" });
  const done = new AbortController();
  const running = work().finally(() => done.abort());
  running.catch(() => undefined);
  let slowest = 0;
  do {
    const before = performance.now();
    const { status } = await send(gateway.url, { path: `${PREFIX}/well/registry/metadata/v1/instruments/I-1` });
    expect(status).toBe(200);
    slowest = Math.max(slowest, performance.now() - before);
    await setTimeout(2);
  } while (!done.signal.aborted);
  await running;
  const { held } = JSON.parse((await send(heldLoop, { path: "/" })).text) as { held: number };
  return { held, slowest: Math.round(slowest), memory: memoryOf(gateway.pid) };
}

const answerInChunks = (bytes: number, size: number): Buffer =>
  Buffer.concat([
    Buffer.from("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"),
    chunks(bytes, size),
  ]);

const eight = <Result>(one: (at: number) => Promise<Result>): Promise<Result[]> =>
  Promise.all(Array.from({ length: 8 }, (_, at) => one(at)));
const publicTarget = (): string => gateway.url.replace("http://", "");

const requests = (count: number, size: number): Promise<number[]> => {
  const body = chunks(MIB - 1_000, size);
  answer = plain("{}");
  return Promise.all(Array.from({ length: count }, () => post(publicTarget(), FACTORY, body)));
};

/** Each has a body of its own: what is asked alike at the same time may be one call. */
const ask = (at: number): string => `{"choiceArguments":{"x":"${at}"}}`;

const ANSWERS: Readonly<Record<string, (size: number) => Promise<number[]>>> = {
  "eight answers of 8 MiB": (size) => {
    answer = answerInChunks(8 * MIB - 1_000, size);
    return eight(async (at) => (await send(gateway.url, { path: FACTORY, body: ask(at) })).status);
  },
  "eight answers of 8 MiB that are passed through": (size) => {
    answer = answerInChunks(8 * MIB - 1_000, size);
    const path = `${PREFIX}/big/registry/draft/v1/download`;
    return eight(async () =>
      send(gateway.url, { path }).then(
        ({ status }) => status,
        () => 0,
      ),
    );
  },
};

/** With how many there are at once. */
const REQUESTS: Readonly<Record<string, [count: number, work: (size: number) => Promise<number[]>]>> = {
  "two requests of 1 MiB": [2, (size) => requests(2, size)],
  "twenty requests of 1 MiB": [20, (size) => requests(20, size)],
  "eight uploads of 1 MiB": [
    8,
    (size) => {
      const body = chunks(MIB - 1_000, size);
      answer = plain("{}");
      return eight(() => post(publicTarget(), `${PREFIX}/big/registry/draft/v1/upload`, body));
    },
  ],
  "eight sign-ins of 1 MiB": [8, (size) => eight(() => post(gateway.target, "/session", chunks(MIB, size)))],
};

const say = ({ held, slowest, memory }: Measured): string =>
  `held ${held} ms, slowest hit ${slowest} ms, ${Math.round(memory / MIB)} MiB`;

async function compare(what: string, work: (size: number) => Promise<number[]>, held: number): Promise<void> {
  await measure(() => work(64 * 1024));
  let inLarge: number[] = [];
  const large = await measure(async () => (inLarge = await work(64 * 1024)));
  let statuses: number[] = [];
  const small = await measure(async () => (statuses = await work(1)));
  console.log(
    `${what}: ${[...new Set(statuses)].join()}: ${say(small)}; in large chunks: ${[...new Set(inLarge)].join()}: ${say(large)}`,
  );
  expect(statuses).not.toContain(200);
  // Eight good answers of 8 MiB at once may take more than a small process has; in small chunks they take no more.
  expect(small.memory).toBeLessThan(Math.max(MAX_MEMORY, large.memory) + LATE_COLLECTION);
  expect(small.held).toBeLessThan(large.held + held);
}

test.each(Object.entries(ANSWERS))("%s in chunks of one byte take no more than in large ones", (what, work) =>
  compare(what, work, MAX_HELD),
);

test.each(Object.entries(REQUESTS))(
  "%s in chunks of one byte take no more than Node needs to read them",
  (what, [count, work]) => compare(what, work, Math.max(MAX_HELD, count * HELD_BY_REQUEST)),
);

test.each([
  [1_000, 1, 200],
  [15_000, 10, 200],
  [15_000, 1, 400],
])("a request of %i bytes in chunks of %i is answered with %i", async (bytes, size, status) => {
  answer = plain("{}");
  expect(await post(publicTarget(), FACTORY, chunks(bytes, size))).toBe(status);
});
