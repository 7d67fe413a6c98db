import { once } from "node:events";
import { Agent, type OutgoingHttpHeaders, request as send } from "node:http";
import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { FACTORY_REQUEST } from "../../bench/bodies.ts";

import { type BenchRegistry, gatewayBefore, startRegistry } from "../../bench/registry.ts";
import { type CollectingGateway, startCollecting } from "../../bench/memory.ts";
import { useFolder } from "../../bench/work-folder.ts";

const MIB = 1024 * 1024;
const STEPS = 8;
/** On each connection. */
const REQUESTS_PER_STEP = 1_500;

const METADATA = "/registry/metadata/v1";
const FACTORY = "/registry/transfer-instruction/v1/transfer-factory";

interface Ask {
  readonly method: string;
  readonly path: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string;
  /** What it is answered with. */
  readonly status: number;
}

/** What connections carry: each a few hits first, then one of these alone. */
const ASKS: readonly ((n: number) => Ask)[] = [
  () => ({ method: "GET", path: `${METADATA}/instruments`, status: 200 }),
  () => ({ method: "HEAD", path: `${METADATA}/info`, status: 200 }),
  () => ({ method: "GET", path: `${METADATA}/info`, headers: { cookie: "session=1" }, status: 200 }),
  () => ({ method: "GET", path: `${METADATA}/instruments`, headers: { "if-none-match": "*" }, status: 304 }),
  (n) => ({ method: "GET", path: `${METADATA}/info`, headers: { "x-request-id": `soak-${n}` }, status: 200 }),
  (n) => ({ method: "GET", path: `${METADATA}/info`, headers: { "user-agent": `soak/${n}` }, status: 200 }),
  (n) => ({ method: "GET", path: `${METADATA}/info`, headers: { cookie: `session=${n}` }, status: 200 }),
  (n) => ({ method: "GET", path: `${METADATA}/instruments/unknown-${n % 500}`, status: 404 }),
  () => ({ method: "GET", path: "/nowhere", status: 404 }),
  () => ({ method: "POST", path: FACTORY, body: FACTORY_REQUEST, status: 200 }),
  () => ({
    method: "POST",
    path: FACTORY,
    headers: { "transfer-encoding": "chunked" },
    body: FACTORY_REQUEST,
    status: 200,
  }),
  () => ({ method: "POST", path: FACTORY, body: "{}\r\n\r\n", status: 400 }),
];

const work = useFolder("connections");
/** A connection for each. */
const agents = ASKS.map(() => new Agent({ keepAlive: true, maxSockets: 1 }));
let registry: BenchRegistry;
let gateway: CollectingGateway;

beforeAll(async () => {
  registry = await startRegistry();
  const bounded = { ...gatewayBefore([registry]), cache: { ttl: { instruments: "1h" }, memory: { maxBytes: "8MiB" } } };
  gateway = await startCollecting({ config: bounded, folder: work.folder });
});

afterAll(async () => {
  for (const agent of agents) agent.destroy();
  await gateway.stop();
  await registry.stop();
  work.remove();
});

/** The status of an answer that was read to its end. */
function statusOf(agent: Agent, { method, path, headers, body }: Ask): Promise<number> {
  const fields = { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers };
  return new Promise((resolve, reject) => {
    send({ port: gateway.port, host: "127.0.0.1", agent, method, path, headers: fields }, (response) => {
      response.resume();
      response.once("end", () => resolve(response.statusCode!));
      response.once("error", reject);
    })
      .once("error", reject)
      .end(body);
  });
}

test("connections that stay open hold no more memory the more they are used, whatever for", async () => {
  let sent = 0;
  const use = async (agent: Agent, asked: Ask): Promise<void> => {
    sent += 1;
    expect([asked.path, await statusOf(agent, asked)]).toEqual([asked.path, asked.status]);
  };
  for (const agent of agents) for (let i = 0; i < 5; i += 1) await use(agent, ASKS[0]!(i));
  const used: number[] = [];
  for (let step = 1; step <= STEPS; step += 1) {
    const useOften = async (agent: Agent, at: number): Promise<void> => {
      for (let i = 0; i < REQUESTS_PER_STEP; i += 1) await use(agent, ASKS[at]!(sent));
    };
    await Promise.all(agents.map(useOften));
    used.push((await gateway.memory()).used);
  }
  console.log(`${sent} requests; MiB in use: ${used.map((bytes) => (bytes / MIB).toFixed(1)).join(" ")}`);
  // The first steps fill the cache, and the memory of heads.
  expect(used.at(-1)! - used[2]!).toBeLessThan(2 * MIB);
});

test("heads that do not end take a bounded share of memory, however short their fields", async () => {
  const count = 1_000;
  // 20 KiB of fields of ten bytes.
  const fields = Array.from({ length: 2_000 }, (_, i) => `x${1_000 + i}:${i % 10}\r\n`);
  const head = `GET ${METADATA}/info HTTP/1.1\r\nHost: g\r\n${fields.join("")}`;
  const before = (await gateway.memory()).used;
  const sockets = await Promise.all(
    Array.from({ length: count }, async () => {
      const socket = connect({ port: gateway.port, host: "127.0.0.1" });
      socket.on("error", () => undefined);
      await once(socket, "connect");
      await new Promise((resolve) => socket.write(head, resolve));
      return socket;
    }),
  );
  // Answered when all that came before it was read.
  expect(await statusOf(agents[0]!, ASKS[0]!(0))).toBe(200);
  const used = (await gateway.memory()).used - before;
  for (const socket of sockets) socket.destroy();
  console.log(
    `${count} unfinished heads of ${head.length} bytes: ${(used / count / 1024).toFixed(1)} KiB in use for each`,
  );
  expect(used).toBeLessThan(count * 40 * 1024);
});
