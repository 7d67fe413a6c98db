import { afterEach, expect, test } from "vitest";
import { useGateways } from "../../support/gateways.ts";
import { type RedisServer, startRedis } from "../../support/redis.ts";
import { DSO } from "../../support/sample.ts";
import { useSampleRegistries } from "../../support/sample-registries.ts";

const startRegistry = useSampleRegistries();
const startGateway = useGateways();

const running: RedisServer[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.stop()));
});

const WALLETS = 40;

test.each([
  ["one process", 1],
  ["two replicas with Redis", 2],
])("a herd of wallets at %s with an empty cache costs a registry one reading of its list", async (_, replicas) => {
  const registry = await startRegistry({ instruments: 250, latency: 20 });
  const upstreams = [{ name: "amulet", admin: DSO, urls: [registry.url] }];
  let redis = {};
  if (replicas > 1) {
    const server = await startRedis();
    running.push(server);
    redis = { redis: { url: server.url } };
  }
  const gateways = await Promise.all(Array.from({ length: replicas }, () => startGateway({ ...redis, upstreams })));
  // As the SDK reads: info, then page after page.
  const walk = async (start: number) => {
    let token: string | undefined;
    let pages = 0;
    do {
      // Each request may reach another replica, as through a balancer.
      const gateway = gateways[(start + pages) % gateways.length]!;
      const query = token === undefined ? "" : `?pageToken=${encodeURIComponent(token)}`;
      const answer = await fetch(`${gateway.registrar(DSO)}/registry/metadata/v1/instruments${query}`);
      expect(answer.status).toBe(200);
      token = ((await answer.json()) as { nextPageToken?: string | null }).nextPageToken ?? undefined;
      pages += 1;
    } while (token !== undefined);
    return pages;
  };
  const walks = await Promise.all(Array.from({ length: WALLETS }, (_, i) => walk(i)));
  expect(walks).toEqual(walks.map(() => 10));
  expect(registry.calls.count("instruments")).toBe(10);
});
