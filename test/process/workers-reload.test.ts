import { fastify } from "fastify";
import { afterEach, beforeEach, expect, test } from "vitest";
import { configFromFlags } from "../../src/config/flags.ts";
import type { Config } from "../../src/config/schema.ts";
import { createLogger } from "../../src/observe/log.ts";
import { createMetrics } from "../../src/observe/metrics.ts";
import { Primary } from "../../src/workers/primary.ts";
import { createTestDiscovery } from "../support/discovery.ts";
import { settle } from "../support/workers-scene.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { type Puppet, spawnPuppet } from "../support/puppet.ts";

/** A worker was given this upstream's configuration, and has not said yet what it thinks of it. */
interface Reload {
  readonly worker: number;
  readonly upstream: string;
  readonly accept: () => void;
  readonly refuse: () => void;
}

let clock: ManualClock;
let primary: Primary;
let puppets: Puppet[];
let reloads: Reload[];

beforeEach(async () => {
  clock = new ManualClock();
  puppets = [];
  reloads = [];
  primary = new Primary({
    config: configOf("before"),
    workers: 2,
    clock,
    log: createLogger("silent"),
    version: "0",
    ...createMetrics(),
    reservePort: ({ port }) => Promise.resolve(port),
    spawn: () => spawnPuppet(puppets, clock),
    createDiscovery: (parts) => createTestDiscovery(configOf("before"), { ...parts, clock }),
    createOperations: () => fastify(),
  });
  const started = primary.start();
  await settle();
  await loadAll();
  await started;
  expect(puppets.map(({ hasBegun }) => hasBegun)).toEqual([true, true]);
});

afterEach(async () => {
  const stopped = primary.stop({ grace: false });
  for (const puppet of puppets) puppet.exit("SIGKILL");
  await stopped;
});

function configOf(upstream: string): Config {
  const config = configFromFlags({ upstreams: ["http://127.0.0.1:9"], port: 8080 });
  const operations = { ...config.operations, port: 0 };
  return { ...config, operations, upstreams: [{ ...config.upstreams[0]!, name: upstream }] };
}

async function loadAll(): Promise<void> {
  for (const puppet of puppets) {
    if (puppet.isAlive) continue;
    puppet.primary.answer("reload", ({ config }) => {
      return new Promise((resolve, reject) => {
        reloads.push({
          worker: puppet.id,
          upstream: config.upstreams[0]!.name,
          accept: () => resolve(undefined),
          refuse: () => reject(new Error("a file cannot be read")),
        });
      });
    });
    puppet.load();
  }
  await settle();
}

/** What a worker was told to begin with. */
const beganWith = (worker: number) => puppets[worker - 1]!.boot?.config.upstreams[0]!.name;

test("a worker that begins while others take a configuration takes it as well, and the next begins with it", async () => {
  const reloaded = primary.reload(configOf("after"));
  await settle();
  expect(reloads).toMatchObject([{ worker: 1, upstream: "after" }]);
  puppets[1]!.exit("SIGKILL");
  await settle();
  await loadAll();
  // Nobody has accepted the other one yet.
  expect(beganWith(3)).toBe("before");
  reloads[0]!.accept();
  await settle();
  expect(reloads.slice(1)).toMatchObject([{ worker: 3, upstream: "after" }]);
  reloads[1]!.accept();
  await reloaded;

  await loadAll();
  puppets[0]!.exit("SIGKILL");
  await settle();
  // The second that ended soon is replaced after a pause.
  clock.advance(1_000);
  await settle();
  await loadAll();
  expect(beganWith(4)).toBe("after");
});

test("a worker that replaces another begins with the configuration in use, not with one that was refused", async () => {
  const refused = primary.reload(configOf("after"));
  await settle();
  reloads[0]!.refuse();
  await expect(refused).rejects.toThrow("a file cannot be read");
  puppets[0]!.exit("SIGKILL");
  await settle();
  await loadAll();
  expect(beganWith(3)).toBe("before");
  expect(reloads).toHaveLength(1);
});
