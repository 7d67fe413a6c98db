import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DSO, PAGE } from "../../bench/bodies.ts";
import { capture, requestText } from "../../bench/client.ts";
import { type BenchGateway, startGateway } from "../../bench/gateway.ts";
import { Load } from "../../bench/load.ts";
import type { Expected } from "../../bench/load-plan.ts";
import { type BenchRegistry, gatewayBefore, startRegistry } from "../../bench/registry.ts";
import { residentOf } from "../../bench/memory.ts";
import { spreadOf } from "../../bench/spread.ts";
import { useFolder } from "../../bench/work-folder.ts";

const MIB = 1024 * 1024;

const MAX_BYTES = 64 * MIB;

/** Distinct keys in all: so many steps of so many of each kind. */
const STEPS = 100;
const OF_EACH_KIND = 667;

const METADATA = `/api/token-standard/v0/registrars/${encodeURIComponent(DSO)}/registry/metadata/v1`;
const HOT = [`${METADATA}/info`, `${METADATA}/instruments`, `${METADATA}/instruments/Amulet`];

const A_PAGE: Expected = { status: 200, bodyLength: Buffer.byteLength(PAGE) };
const NOT_FOUND: Expected = { status: 404, bodyLength: Buffer.byteLength('{"error":"no such instrument"}') };

/** What clients may make up. */
const KINDS: readonly (readonly [path: string, expected: Expected])[] = [
  [`${METADATA}/instruments?pageToken=made-up-{n}`, A_PAGE],
  [`${METADATA}/instruments?pageSize={n}`, A_PAGE],
  [`${METADATA}/instruments/unknown-{n}`, NOT_FOUND],
];

const work = useFolder("soak");
let registry: BenchRegistry;
let gateway: BenchGateway;
let load: Load;

beforeAll(async () => {
  registry = await startRegistry();
  const { cache, ...config } = gatewayBefore([registry]);
  const bounded = { ...config, cache: { ...(cache as object), memory: { maxBytes: `${MAX_BYTES / MIB}MiB` } } };
  gateway = await startGateway({ config: bounded, folder: work.folder });
  load = await Load.start();
});

afterAll(async () => {
  await load.stop();
  await gateway.stop();
  await registry.stop();
  work.remove();
});

/** Bytes of buffers: bodies above all, whatever keeps them alive. */
async function externalBytes(): Promise<number> {
  const metrics = await (await fetch(`http://127.0.0.1:${gateway.operationsPort}/metrics`)).text();
  return Number(/^nodejs_external_memory_bytes ([0-9]+)$/m.exec(metrics)![1]);
}

/** Sends `OF_EACH_KIND` requests that were never sent before. */
async function flood(step: number): Promise<void> {
  for (const [path, expected] of KINDS) {
    const plan = {
      port: gateway.port,
      connections: 8,
      count: OF_EACH_KIND,
      request: requestText({ method: "GET", path }),
      from: 1 + step * OF_EACH_KIND,
      numbering: "each" as const,
      expected,
    };
    // On a machine that others use as well, the gateway may refuse work for a while.
    await load.run(plan, gateway.pid).catch(async () => {
      await sleep(3_500);
      await load.run(plan, gateway.pid);
    });
  }
}

async function askHot(): Promise<readonly string[]> {
  const answers = await Promise.all(HOT.map((path) => capture(gateway.port, { method: "GET", path })));
  return answers.map(({ fields }) => fields[fields.indexOf("cache-status") + 1]!);
}

const medianOf = (values: readonly number[]) => spreadOf(values).median;

test("200,000 made-up keys leave memory flat at a bound of 64 MiB, and what is in use in the cache", async () => {
  await askHot();
  const resident: number[] = [];
  const external: number[] = [];
  for (let step = 0; step < STEPS; step += 1) {
    await flood(step);
    const hot = await askHot();
    expect(hot).toEqual(HOT.map(() => expect.stringMatching(/^registry-gateway;hit;ttl=[0-9]+$/)));
    resident.push(residentOf(gateway.pid));
    external.push(await externalBytes());
  }
  const asked = STEPS * OF_EACH_KIND * KINDS.length;
  const [third, fourth] = [resident.slice(STEPS / 2, (3 * STEPS) / 4), resident.slice((3 * STEPS) / 4)];
  const figures = resident.filter((_, step) => step % 10 === 9).map((bytes) => Math.round(bytes / MIB));
  const buffers = Math.round(medianOf(external) / MIB);
  console.log(`${asked} distinct keys; resident MiB at every tenth: ${figures.join(" ")}; buffers ${buffers} MiB`);
  // What is held, and what waits for the garbage collector.
  expect(medianOf(external)).toBeLessThan(2 * MAX_BYTES);
  expect(medianOf(fourth) - medianOf(third)).toBeLessThan(0.05 * medianOf(third));
  expect(Math.max(...fourth)).toBeLessThan(Math.max(...third) * 1.1);
});
