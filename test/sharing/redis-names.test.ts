import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import type { RedisConfig } from "../../src/config/schema.ts";
import { createClient, createSubscriber } from "../../src/sharing/redis/client.ts";
import { leadHere } from "../support/lookups.ts";
import { startCluster } from "../support/redis-cluster.ts";
import { startRedis, tlsFolder } from "../support/redis.ts";

const NAME = "redis.example";
const named = (url: string): string => url.replace("127.0.0.1", NAME);

function closing<T extends { stop(): Promise<void> }>(server: T): T {
  onTestFinished(() => server.stop());
  return server;
}

const FORMS: [form: string, start: () => Promise<Omit<RedisConfig, "keyPrefix">>][] = [
  ["a server", async () => ({ url: named(closing(await startRedis()).url) })],
  [
    "a server with TLS",
    async () => {
      const { url } = closing(await startRedis({ tls: true }));
      return { url: named(url), tls: { caFile: join(tlsFolder, "ca.pem"), servername: "localhost" } };
    },
  ],
  ["a cluster", async () => ({ cluster: { nodes: closing(await startCluster()).urls.map(named) } })],
];

test.each(FORMS)("%s is connected to where its name led last while its name server is silent", async (_form, start) => {
  const names = leadHere(NAME);
  const config = { keyPrefix: "rg:", ...(await start()) };
  /** Whether new connections, for commands and for messages, are there. */
  const connect = async () => {
    const client = createClient(config, systemClock());
    const subscriber = createSubscriber(config, systemClock(), () => undefined);
    const all = [client, subscriber];
    for (const each of all) each.on("error", () => undefined);
    try {
      await Promise.all(all.map((each) => each.connect()));
      return await client.get("rg:nothing");
    } finally {
      for (const each of all) each.disconnect();
    }
  };
  expect(await connect()).toBeNull();
  names.fallSilent();
  expect(await connect()).toBeNull();
});
