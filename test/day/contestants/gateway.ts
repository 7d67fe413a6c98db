import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { BUILT, type GatewayServer, startGateway, startRedisServer } from "../../support/servers.ts";
import { findFreePort } from "../../support/ports.ts";
import { until } from "../../support/until.ts";
import type { Contestant, RunningContestant, Scene } from "../play.ts";

/** This gateway, one process. */
export const gateway: Contestant = { name: "gateway", start: (scene) => startReplicas(scene, 1) };

/** This gateway, two replicas that share a port and a Redis. */
export const gatewayWithRedis: Contestant = {
  name: "two, Redis",
  async start(scene) {
    let redis = await startRedisServer(scene.folder);
    const replicas = await startReplicas(scene, 2, redis.url);
    return {
      ...replicas,
      pids: () => [redis.pid, ...replicas.pids()],
      redis: {
        kill: () => redis.stop(),
        async start() {
          redis = await startRedisServer(scene.folder, redis.port);
        },
      },
      async stop() {
        await replicas.stop();
        await redis.stop();
      },
    };
  },
};

async function startReplicas(scene: Scene, count: number, redis?: string): Promise<RunningContestant> {
  const port = await findFreePort();
  const config = configuration(scene, port, redis);
  const replicas: GatewayServer[] = [];
  const start = async (): Promise<void> => {
    replicas.push(await startGateway({ config, folder: mkdtempSync(join(scene.folder, "replica-")), program: BUILT }));
  };
  for (let i = 0; i < count; i += 1) await start();
  return {
    bases: ({ admin }) => [`http://127.0.0.1:${port}/api/token-standard/v0/registrars/${encodeURIComponent(admin)}`],
    pids: () => replicas.map(({ pid }) => pid),
    async purge({ alias }) {
      const headers = { "content-type": "application/json" };
      const purge = { method: "POST", headers, body: JSON.stringify({ upstream: alias }) };
      // Replicas without Redis know nothing of each other: one that still drains is asked as well.
      const asked = redis === undefined ? replicas : replicas.slice(-1);
      const urls = asked.map(({ operationsPort }) => `http://127.0.0.1:${operationsPort}/purge`);
      await Promise.all(urls.map((url) => until(async () => (await fetch(url, purge)).ok)));
    },
    /** One after the other: a new one is ready before an old one drains. */
    async restart() {
      for (const old of replicas.slice()) {
        await start();
        await old.drain();
        replicas.splice(replicas.indexOf(old), 1);
      }
    },
    async stop() {
      await Promise.all(replicas.map((replica) => replica.stop()));
    },
  };
}

function configuration({ registries }: Scene, port: number, redis: string | undefined): object {
  return {
    listen: { host: "127.0.0.1", port, reusePort: true },
    ...(redis !== undefined && { redis: { url: redis } }),
    upstreams: registries.map(({ alias, admin, ports, limit }) => ({
      name: alias,
      admin,
      urls: ports.map((each) => `http://127.0.0.1:${each}`),
      // Wallets and judge know pages of 25 alone.
      pageSize: "off",
      rateLimit: { requests: `${limit.requests}/${limit.per / 1_000}s` },
    })),
  };
}
