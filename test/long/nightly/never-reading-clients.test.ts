import { readFileSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { Agent, request } from "undici";
import { afterEach, expect, test } from "vitest";
import { GatewayProcess } from "../../support/gateway-process.ts";
import { useSampleRegistries } from "../../support/sample-registries.ts";

// Figures of what these did before clients were served only as fast as they read: up to 2.7 GB and 37 s of CPU, in which
// nobody else was served, or the end of the process.

/** The limit of `config/kubernetes/deployment.yaml`. */
const MAX_MEMORY = 768 * 1024 * 1024;

/** Seconds of CPU, which other clients wait for; unlike what they wait, these do not depend on what else runs. */
const MAX_CPU = 10;

/** Of the times that Linux tells of a process. */
const TICKS_PER_SECOND = 100;

/** How long clients go on not reading after all is sent. */
const HELD_FOR = 3_000;

const INFO = "/registry/metadata/v1/info";
const PAGE = "/registry/metadata/v1/instruments?pageSize=200";
const COLD_PAGE = "/registry/metadata/v1/instruments?pageSize=150";
const ACCEPT = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";
const GET = (path: string) => `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`;

const registry = useSampleRegistries();
let gateway: GatewayProcess | undefined;
const clients: Socket[] = [];

afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy();
  await gateway?.stop();
});

/** Opens connections, sends `text` on each, and never reads. */
async function neverRead(base: string, { connections, text }: { connections: number; text: string }): Promise<void> {
  const { hostname, port } = new URL(base);
  const opened = Array.from({ length: connections }, () => {
    return new Promise<void>((resolve) => {
      const client = connect(Number(port), hostname);
      clients.push(client);
      client.pause();
      client.once("error", () => resolve());
      client.on("error", () => undefined);
      client.once("connect", () => client.write(text, "latin1", () => resolve()));
    });
  });
  await Promise.all(opened);
  await pause(HELD_FOR);
}

/** Milliseconds of the slowest hit while `attack` runs. */
async function slowestHit(base: string, attack: Promise<void>): Promise<number> {
  const agent = new Agent({ connections: 1 });
  const running = { isOver: false };
  void attack.then(() => (running.isOver = true));
  let slowest = 0;
  while (!running.isOver) {
    const startedAt = performance.now();
    const { statusCode, body } = await request(base + INFO, { dispatcher: agent });
    await body.dump();
    expect(statusCode).toBe(200);
    slowest = Math.max(slowest, performance.now() - startedAt);
    await pause(20);
  }
  await agent.close();
  return slowest;
}

/** The most memory that a process had since its peak was last forgotten. */
function peakOf({ pid }: GatewayProcess): number {
  return Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]) * 1024;
}

function forgetPeak({ pid }: GatewayProcess): void {
  writeFileSync(`/proc/${pid}/clear_refs`, "5");
}

async function start(): Promise<{ gateway: GatewayProcess; amulet: Awaited<ReturnType<typeof registry>> }> {
  const amulet = await registry({ instruments: 400 });
  gateway = await GatewayProcess.start({
    cache: { ttl: { info: "1h", instruments: "1h" } },
    // Answers under way are bounded by this.
    upstreams: [{ name: "amulet", admin: amulet.admin, urls: [amulet.url], concurrency: { max: 16, queue: 512 } }],
    log: { level: "warn" },
  });
  for (const path of [INFO, PAGE]) await (await request(gateway.url + path)).body.dump();
  return { gateway, amulet };
}

function cpuOf({ pid }: GatewayProcess): number {
  // User and system, see proc_pid_stat(5).
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(" ");
  return (Number(fields[13]) + Number(fields[14])) / TICKS_PER_SECOND;
}

async function expectBounds(gateway: GatewayProcess, what: string, attack: Promise<void>): Promise<void> {
  forgetPeak(gateway);
  const before = cpuOf(gateway);
  const slowest = await slowestHit(gateway.url, attack);
  const cpu = cpuOf(gateway) - before;
  const peak = peakOf(gateway);
  const memory = Math.round(peak / 1024 / 1024);
  console.log(`${what}: ${memory} MiB, ${cpu.toFixed(1)} s of CPU, slowest hit of others ${Math.round(slowest)} ms`);
  expect(peak).toBeLessThan(MAX_MEMORY);
  expect(cpu).toBeLessThan(MAX_CPU);
}

test.each([
  ["205 connections with 200 hits each", 205, GET(PAGE).repeat(200), "url"],
  ["100 connections with 1,500 requests for the API's description", 100, GET("/openapi.json").repeat(1_500), "url"],
  ["20 connections with 1,500 requests for metrics", 20, GET("/metrics").repeat(1_500), "operations"],
] as const)("%s that read nothing", async (what, connections, text, listener) => {
  const { gateway } = await start();
  await expectBounds(gateway, what, neverRead(gateway[listener], { connections, text }));
});

test("150 answers of 4 MiB that nobody reads", async () => {
  const { gateway, amulet } = await start();
  const body = JSON.stringify({
    choiceContextData: { values: {} },
    disclosedContracts: [],
    padding: "x".repeat(4 << 20),
  });
  const headers = ["Content-Type", "application/json"];
  amulet.script(({ method }) => (method === "POST" ? { status: 200, headers, body } : undefined));
  const text = `POST ${ACCEPT} HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`;
  await expectBounds(gateway, "150 answers of 4 MiB", neverRead(gateway.url, { connections: 150, text }));
});

test("1,000 connections with 400 requests each for one cold page", async () => {
  const { gateway, amulet } = await start();
  amulet.slow(1_000);
  const text = GET(COLD_PAGE).repeat(400);
  await expectBounds(gateway, "one cold page", neverRead(gateway.url, { connections: 1_000, text }));
});
