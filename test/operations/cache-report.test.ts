import { describe, expect, onTestFinished, test } from "vitest";
import { MemoryStore } from "../../src/cache/stores/memory-store.ts";
import type { CacheContents, CacheGroup } from "../../src/operations/answers.ts";
import { reportCache } from "../../src/operations/cache-report.ts";
import { metadataKey, readKeyName } from "../../src/registry/metadata-key.ts";
import { startGateway } from "../support/gateway.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { ownError } from "../support/own-error.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { DSO } from "../support/sample.ts";

const startRegistry = useSampleRegistries();

async function cacheOf(operations: string, query = ""): Promise<CacheContents> {
  const answer = await fetch(`${operations}/cache${query}`);
  expect([query, answer.status]).toEqual([query, 200]);
  return (await answer.json()) as CacheContents;
}

function groupOf({ groups }: CacheContents, kind: CacheGroup["kind"]): CacheGroup | undefined {
  return groups.find((group) => group.kind === kind);
}

async function ask(url: string): Promise<number> {
  const answer = await fetch(url);
  await answer.arrayBuffer();
  return answer.status;
}

async function purge(operations: string, body: object): Promise<void> {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${operations}/purge`, { method: "POST", headers, body: JSON.stringify(body) });
  expect(answer.status).toBe(200);
}

describe("what is in memory", () => {
  test("is told by registry and kind, and what a purge would take of it", async () => {
    const clock = new ManualClock();
    const registry = await startRegistry();
    const upstreams = [{ name: "amulet", admin: DSO, urls: [registry.url], cache: { ttl: { instrument: "1m" } } }];
    const gateway = await startGateway({ cache: { staleIfError: "10m" }, upstreams }, { clock });
    onTestFinished(() => gateway.stop());
    const metadata = `${gateway.url}/registry/metadata/v1`;
    expect(await cacheOf(gateway.operations)).toEqual({
      groups: [],
      purged: { entries: 0, bytes: 0 },
      selected: null,
      behind: null,
    });
    for (const path of ["/info", "/instruments?pageSize=5", "/instruments/Amulet"]) {
      expect(await ask(metadata + path)).toBe(200);
    }
    expect(await ask(`${metadata}/instruments/none`)).toBe(404);
    clock.advance(40_000);
    const report = await cacheOf(gateway.operations);
    const counts = Object.fromEntries(report.groups.map(({ kind, entries }) => [kind, entries]));
    expect(counts).toEqual({ info: 1, instruments: 1, instrument: expect.any(Number), notFound: 1 });
    expect(new Set(report.groups.map(({ upstream }) => upstream))).toEqual(new Set(["amulet"]));
    expect(groupOf(report, "instruments")).toMatchObject({ stale: 1, oldest: { usableForMs: expect.any(Number) } });
    expect(groupOf(report, "info")).toMatchObject({ stale: 0 });
    const { oldest } = groupOf(report, "info")!;
    expect(oldest!.ageMs).toBe(40_000);
    expect(oldest!.lifetimeMs).toBeGreaterThan(530_000);
    expect(oldest!.usableForMs).toBe(oldest!.lifetimeMs - 40_000 + 600_000);

    const takes = async (query: string) => (await cacheOf(gateway.operations, query)).selected!.entries;
    const all = report.groups.reduce((sum, { entries }) => sum + entries, 0);
    expect(await takes("?all=true")).toBe(all);
    expect(await takes("?upstream=amulet")).toBe(all);
    expect(await takes("?upstream=amulet&endpoint=info")).toBe(1);
    expect(await takes("?upstream=amulet&endpoint=instruments")).toBe(all - 1);
    // One instrument, and the page that may hold it.
    expect(await takes("?upstream=amulet&endpoint=instrument&instrument=Amulet")).toBe(2);
    expect(await takes("?upstream=amulet&endpoint=instrument&instrument=other")).toBe(1);

    // What was told is what then goes.
    await purge(gateway.operations, { upstream: "amulet", endpoint: "instrument", instrument: "Amulet" });
    const after = await cacheOf(gateway.operations, "?all=true");
    expect([after.purged.entries, after.selected!.entries]).toEqual([2, all - 2]);
    expect(groupOf(after, "instruments")).toBeUndefined();
    await purge(gateway.operations, { upstream: "amulet", endpoint: "info", soft: true });
    expect(groupOf(await cacheOf(gateway.operations), "info")).toMatchObject({ entries: 1, stale: 1 });
    await purge(gateway.operations, {});
    const empty = await cacheOf(gateway.operations);
    expect([empty.groups, empty.purged.entries]).toEqual([[], all]);
  });

  test.each([
    ["?upstream=nobody", 404],
    ["?upstream=amulet&upstream=amulet", 400],
    ["?endpoint=info", 400],
    ["?instrument=x", 400],
    ["?upstream=amulet&endpoint=all", 400],
    ["?upstream=amulet&instrument=x", 400],
    ["?upstream=amulet&soft=true", 400],
    ["?all=false", 400],
    ["?all=true&upstream=amulet", 400],
    ["?__proto__=x", 400],
    ["?x=1", 400],
  ])("is not told to %s", async (query, status) => {
    const gateway = await startGateway({ upstreams: [{ name: "amulet", admin: DSO, urls: ["http://127.0.0.1:1"] }] });
    onTestFinished(() => gateway.stop());
    const answer = await fetch(`${gateway.operations}/cache${query}`);
    expect([answer.status, await answer.json()]).toEqual([status, ownError()]);
  });

  test("is looked at in slices, while requests go on and entries come and go", async () => {
    const clock = new ManualClock();
    const memory = new MemoryStore({ maxBytes: 64 * 1024 * 1024, maxObject: 1024 });
    const entryOf = (i: number) => ({
      key: metadataKey(DSO, { operation: "instrument", id: `token-${i}` }),
      entry: {
        status: 200,
        fields: ["content-type", "application/json"],
        body: Buffer.from("{}"),
        madeEtag: false,
        epoch: "e",
        softEpoch: "",
        vary: [],
        variant: "",
        receivedAt: clock.now(),
        bornAt: clock.now(),
        madeAt: clock.now(),
        freshUntil: clock.now() + 1_000,
        revalidateUntil: clock.now() + 1_000,
        usableUntil: clock.now() + 1_000,
        staleProhibited: false,
        lifetime: 1_000,
        origins: { lifetime: "", staleWhileRevalidate: "", staleIfError: "" },
      },
    });
    const store = (i: number) => {
      const { key, entry } = entryOf(i);
      memory.set(key, entry);
    };
    for (let i = 0; i < 20_000; i++) store(i);
    expect(memory.entries).toBe(20_000);
    const gateway = await startGateway({ upstreams: [{ name: "amulet", admin: DSO, urls: ["http://127.0.0.1:1"] }] });
    onTestFinished(() => gateway.stop());
    let turns = 0;
    let isOver = false;
    const turn = (): void => {
      turns += 1;
      // Used again and again, taken away, and put in anew.
      memory.variants(entryOf(0).key);
      const { key, entry } = entryOf(10_000 + turns);
      memory.delete(key, entry);
      store(30_000 + turns);
      if (!isOver) setImmediate(turn);
    };
    setImmediate(turn);
    const epochs = { epochOf: () => "e", softPurgedAt: () => undefined };
    const parts = { memory, epochs, upstreams: gateway.gateway.upstreams(), clock, behind: null } as const;
    const report = await reportCache(parts, {});
    isOver = true;
    expect(turns).toBeGreaterThan(50);
    const { entries, bytes } = report.groups[0]!;
    expect(report.groups).toHaveLength(1);
    expect(entries).toBeGreaterThan(19_800);
    expect(entries).toBeLessThanOrEqual(20_000);
    expect(bytes / entries).toBeCloseTo(memory.bytes / memory.entries, -1);
  });
});

test.each([
  { operation: "info" },
  { operation: "instrument", id: "Amulet" },
  { operation: "instrument", id: "a b\nc é ~ 12 instruments" },
  { operation: "instrument", id: "" },
  { operation: "instruments" },
  { operation: "instruments", pageSize: 5 },
  { operation: "instruments", defaultPageSize: 1_000 },
  { operation: "instruments", pageSize: 5, pageToken: "" },
  { operation: "instruments", pageSize: 5, pageToken: "a%20b+c" },
  { operation: "instruments", defaultPageSize: 1_000, pageToken: "t".repeat(300) },
] as const)("a key can be read from its name: %j", (address) => {
  const key = metadataKey(DSO, address);
  expect(readKeyName(key.name)).toEqual({ operation: address.operation, key });
});
