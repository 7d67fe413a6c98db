import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { startProgram, stop } from "../../bench/child.ts";
import { type BenchGateway, startGateway } from "../../bench/gateway.ts";
import { untilListening } from "../../bench/server.ts";
import { isRunning } from "../../support/child-processes.ts";
import { findFreePort } from "../../support/ports.ts";
import { buildProgram, PROGRAM } from "../../support/program.ts";
import { provideProgram, REDIS_SERVER } from "../../support/programs.ts";
import { until } from "../../support/until.ts";
import type { Contestant, PlacedRegistry, Scene } from "../contestant.ts";

/** This gateway, one process. */
export const gateway: Contestant = {
  name: "gateway",
  start: async (scene) => startReplicas(scene, 1),
};

/** This gateway, two replicas that share a port and a Redis. */
export const gatewayWithRedis: Contestant = {
  name: "gateway, two replicas, Redis",
  async start(scene) {
    const redis = await startRedis(scene);
    const replicas = await startReplicas(scene, 2, redis.url);
    return {
      ...replicas,
      pids: () => [...redis.pids(), ...replicas.pids()],
      redis,
      async stop() {
        await replicas.stop();
        await redis.kill();
      },
    };
  },
};

async function startReplicas(scene: Scene, count: number, redis?: string) {
  await buildProgram();
  const port = await findFreePort();
  const config = configuration(scene.registries, port, redis);
  let started = 0;
  const start = async () => {
    started += 1;
    const folder = join(scene.folder, `replica-${started}`);
    const replica = await startGateway({ config, folder, program: PROGRAM });
    await until(async () => (await fetch(`http://127.0.0.1:${replica.operationsPort}/readyz`)).ok);
    return replica;
  };
  const replicas: BenchGateway[] = [];
  for (let i = 0; i < count; i += 1) replicas.push(await start());
  return {
    bases: ({ admin }: PlacedRegistry) => [
      `http://127.0.0.1:${port}/api/token-standard/v0/registrars/${encodeURIComponent(admin)}`,
    ],
    pids: () => replicas.map(({ pid }) => pid),
    async purge({ alias }: PlacedRegistry) {
      const body = JSON.stringify({ upstream: alias });
      const headers = { "content-type": "application/json" };
      // Replicas without Redis know nothing of each other: one that still drains is asked as well.
      const asked = redis === undefined ? replicas : replicas.slice(-1);
      // Again, as an operator does who was told that Redis was away.
      const purgeAt = ({ operationsPort }: BenchGateway) =>
        until(
          async () => (await fetch(`http://127.0.0.1:${operationsPort}/purge`, { method: "POST", headers, body })).ok,
        );
      await Promise.all(asked.map(purgeAt));
    },
    /** One after the other: a new one is ready before an old one drains. */
    async restart() {
      for (const old of replicas.slice()) {
        replicas.push(await start());
        process.kill(old.pid, "SIGTERM");
        await until(() => !isRunning(old.pid));
        replicas.splice(replicas.indexOf(old), 1);
      }
    },
    async stop() {
      await Promise.all(replicas.map((replica) => replica.stop()));
    },
  };
}

function configuration(registries: readonly PlacedRegistry[], port: number, redis: string | undefined) {
  return {
    listen: { host: "127.0.0.1", port, reusePort: true },
    ...(redis !== undefined && { redis: { url: redis } }),
    upstreams: registries.map(({ alias, admin, ports, limit }) => ({
      name: alias,
      admin,
      urls: ports.map((each) => `http://127.0.0.1:${each}`),
      // Wallets have ten seconds.
      rateLimit: { requests: limit.requests, per: `${limit.per / 1000}s`, maxWait: "8s" },
    })),
  };
}

async function startRedis({ folder }: Scene) {
  const port = await findFreePort();
  const program = provideProgram(REDIS_SERVER);
  const log = join(folder, "redis.log");
  mkdirSync(join(folder, "redis"));
  const begin = async () => {
    const args = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--dir", join(folder, "redis")];
    const child = startProgram(program, args, log);
    await untilListening(child, port, log);
    return child;
  };
  let child = await begin();
  return {
    url: `redis://127.0.0.1:${port}`,
    pids: () => [child.pid!],
    kill: () => stop(child, "SIGKILL"),
    async start() {
      child = await begin();
    },
  };
}
