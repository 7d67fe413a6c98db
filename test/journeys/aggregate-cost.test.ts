import { afterEach, expect, test, vi } from "vitest";
import { startRedis } from "../support/redis.ts";
import { instrumentsOf, useAggregates, walkListing } from "../aggregate/registries.ts";

const { startRegistries, startBefore } = useAggregates();

const LISTING = "/registry/metadata/v1/instruments";

/** 10 registries of 1,000 instruments each, paged in both ways: 10 upstream pages each. */
async function startTen() {
  const options = Array.from({ length: 10 }, (_, at) => {
    const name = `r${at}`;
    const pageStyle = at % 2 === 0 ? ("keyset" as const) : ("index" as const);
    return [name, { instruments: instrumentsOf(name.toUpperCase(), 1_000), pageStyle }] as const;
  });
  return startRegistries(Object.fromEntries(options));
}

/** Waits until a replica reads and writes Redis; until then it serves by itself. */
async function untilShared({ operations }: { readonly operations: string }): Promise<void> {
  await vi.waitFor(
    async () => {
      const { redis } = (await (await fetch(`${operations}/status`)).json()) as { redis: { state: string } };
      expect(redis.state).toBe("up");
    },
    { timeout: 10_000 },
  );
}

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(closing.splice(0).map((close) => close()));
});

test("walking 10,000 instruments of 10 registries at any page size costs one call for each upstream page", async () => {
  const registries = await startTen();
  const gateway = await startBefore(registries, { cache: { ttl: { instruments: "10m" } } });
  for (const pageSize of [1_000, 25, 333, 100]) {
    const seen = await walkListing(gateway.url + LISTING, pageSize);
    expect(seen).toHaveLength(10_000);
    expect(seen[0]).toMatchObject({ admin: "r0::1220", id: "R0-00000" });
    expect(seen[9_999]).toMatchObject({ admin: "r9::1220", id: "R9-00999" });
    expect(gateway.called("instruments"), `at page size ${pageSize}`).toBe(100);
  }
}, 60_000);

test("replicas that share a Redis pay for each upstream page once", async () => {
  const redis = await startRedis();
  closing.push(() => redis.stop());
  const registries = await startTen();
  const keys = { redis: { url: redis.url }, cache: { ttl: { instruments: "10m" } } };
  const replicas = await Promise.all([1, 2, 3].map(() => startBefore(registries, keys)));
  await Promise.all(replicas.map(untilShared));
  const walks = replicas.map((replica, at) => walkListing(replica.url + LISTING, [1_000, 333, 100][at]!));
  for (const seen of await Promise.all(walks)) expect(seen).toHaveLength(10_000);
  expect(replicas[0]!.called("instruments")).toBe(100);
}, 60_000);

test("a walk begun at one replica goes on at another", async () => {
  const registries = await startTen();
  const [one, other] = await Promise.all([startBefore(registries), startBefore(registries)]);
  const ids = new Set<string>();
  let token = "";
  for (let page = 0; page === 0 || token !== ""; page++) {
    const replica = page % 2 === 0 ? one : other;
    const url = `${replica.url}${LISTING}?pageSize=470${token === "" ? "" : `&pageToken=${token}`}`;
    const body = (await (await fetch(url)).json()) as { instruments: { id: string }[]; nextPageToken?: string };
    for (const { id } of body.instruments) ids.add(id);
    token = body.nextPageToken ?? "";
  }
  expect(ids.size).toBe(10_000);
}, 60_000);
