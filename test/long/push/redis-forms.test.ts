import * as fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { crc32 } from "node:zlib";
import type { Entry } from "../../../src/sharing/entries.ts";
import { decodeEntry, encodeEntry } from "../../../src/sharing/redis/entry-codec.ts";
import { Keys } from "../../../src/sharing/redis/keys.ts";
import { parseMessage } from "../../../src/sharing/redis/messages.ts";
import { startGateway } from "../../support/gateway.ts";
import { clock } from "../../support/redis-replicas.ts";
import { closeAll, later, redisServer, replicaOn } from "../../support/redis-scene.ts";
import { type RedisServer } from "../../support/redis.ts";
import { runs } from "../../support/thorough.ts";
import { until } from "../../support/until.ts";
import { useSampleRegistries } from "../../support/sample-registries.ts";
import { infoKey, makeEntry } from "../../support/store-suite.ts";

const registry = useSampleRegistries();

/** Answers from Redis over HTTP. */
const RUNS = runs(40, 150);

afterEach(closeAll);

/** A header (see entry-codec.ts) and a body as bytes. */
function bytesOf(header: unknown, body: Buffer): Buffer {
  const json = Buffer.from(JSON.stringify(header).replaceAll('"Infinity"', "1e999"));
  const size = Buffer.alloc(4);
  size.writeUInt32BE(json.length, 0);
  return Buffer.concat([size, json, body]);
}

/** The same as Redis has it: a checksum and the instant before it. */
function valueOf(stamp: Buffer, bytes: Buffer): Buffer {
  const checked = Buffer.concat([stamp, bytes]);
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(crc32(checked), 0);
  return Buffer.concat([checksum, checked]);
}

function headerIn(bytes: Buffer): unknown[] {
  return JSON.parse(bytes.toString("utf8", 4, 4 + bytes.readUInt32BE(0))) as unknown[];
}

const odd = fc.oneof(
  fc.constantFrom<unknown>(null, true, "", "x", "Infinity", -1, 0, 0.5, 99, 199, 204, 304, 600, 999, 1e15, 2e15, 1e308),
  fc.constantFrom<unknown>(
    -1e308,
    [],
    {},
    "a\r\nb: c",
    "x".repeat(100_000),
    Array.from({ length: 5_000 }, () => "x-a"),
  ),
  fc.array(
    fc.constantFrom("date", "etag", "a name", "x\0y", "Content-Type", "content-length", "7", "text/html", '"e"'),
  ),
  fc.integer(),
  fc.double(),
  fc.string(),
);

/** A part of the header (of a list in it, too) that is another one. */
const mutation = fc.record({ at: fc.nat(17), within: fc.option(fc.nat(8)), value: odd });

function mutate(header: unknown[], changes: readonly { at: number; within: number | null; value: unknown }[]): void {
  for (const { at, within, value } of changes) {
    const part = header[at];
    // A copy: the next change may be within it, and the same value comes again.
    const other = structuredClone(value);
    if (within !== null && Array.isArray(part)) part[within] = other;
    else header[at] = other;
  }
}

const fieldName = fc.stringMatching(/^x-[a-z0-9_.-]{1,20}$/);
const fieldText = fc.stringMatching(/^[\t\x20-\x7e\x80-\xff]{0,40}$/);
const realEntry: fc.Arbitrary<Entry> = fc
  .record({
    fields: fc.array(fc.tuple(fieldName, fieldText), { maxLength: 78 }).map((fields) => fields.flat()),
    body: fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
    vary: fc.array(fieldName, { maxLength: 5 }),
    variant: fc.string(),
    lifetime: fc.nat(2 ** 31),
    windows: fc.tuple(fc.integer(), fc.nat(), fc.nat()),
  })
  .map(({ windows: [fresh, revalidate, usable], ...changes }) =>
    makeEntry("0.a/0.b,1.c", 1_000, {
      ...changes,
      freshUntil: fresh,
      revalidateUntil: fresh + revalidate,
      usableUntil: fresh + usable,
    }),
  );

describe("an entry from Redis", () => {
  test("is what was written, whatever a registry may send", () => {
    fc.assert(
      fc.property(realEntry, (entry) => {
        expect(decodeEntry(encodeEntry(infoKey, entry, 1_000), infoKey, 1_000)).toEqual(entry);
      }),
    );
  });

  test("is none where a part of it has another form, or goes beyond every bound", () => {
    fc.assert(
      fc.property(realEntry, fc.array(mutation, { minLength: 1, maxLength: 4 }), (entry, changes) => {
        const header = headerIn(encodeEntry(infoKey, entry, 1_000));
        mutate(header, changes);
        const found = decodeEntry(bytesOf(header, entry.body), infoKey, 1_000);
        if (found === undefined) return;
        expect(found.status).toBe(200);
        const { receivedAt, bornAt, madeAt, freshUntil, revalidateUntil, usableUntil, lifetime } = found;
        for (const time of [receivedAt, bornAt, madeAt, freshUntil, revalidateUntil, usableUntil, lifetime]) {
          expect(Math.abs(time)).toBeLessThanOrEqual(1.1e15);
        }
        expect(Math.max(bornAt, madeAt)).toBeLessThanOrEqual(receivedAt);
        expect(freshUntil).toBeLessThanOrEqual(Math.min(revalidateUntil, usableUntil));
        expect(found.fields.length).toBeLessThanOrEqual(170);
        for (const [i, text] of found.fields.entries()) {
          expect(text).toMatch(i % 2 === 0 ? /^[!#$%&'*+.^_`|~0-9a-z-]+$/ : /^[^\r\n\0]*$/);
        }
      }),
      { numRuns: runs(500, 2_000) },
    );
  });

  test("is none, or another one in good form, where bytes are missing or changed", () => {
    const bytes = encodeEntry(infoKey, makeEntry("0.a/0.b", 1_000), 1_000);
    fc.assert(
      fc.property(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), (at, change) => {
        const changed = Buffer.from(bytes);
        changed[at]! ^= change;
        expect(decodeEntry(changed, infoKey, 1_000)?.status ?? 200).toBe(200);
        expect(decodeEntry(bytes.subarray(0, at), infoKey, 1_000)?.status ?? 200).toBe(200);
      }),
    );
  });

  test("never makes an answer of ours a broken one, or 500", async () => {
    const [server, sample] = [await redisServer(), await registry()];
    const start = async (memory: object) =>
      later(
        await startGateway({
          redis: { url: server.url },
          cache: { ttl: { info: "1h" }, memory },
          upstreams: [{ name: "amulet", admin: sample.admin, urls: [sample.url] }],
        }),
      );
    const path = "/registry/metadata/v1/info";
    const genuine = await (await fetch((await start({})).url + path)).text();
    // Every request looks into Redis, and nothing takes the place of what is there.
    const gateway = await start({ maxObject: "1B" });
    const page = gateway.url + path;
    const entryKeys = () => server.client.keys("rg:{*}:6:*");
    await until(async () => (await entryKeys()).length === 1);
    const [key] = (await entryKeys()) as [string];
    const value = (await server.client.hgetBuffer(key, "v"))!;
    const [stamp, bytes] = [value.subarray(4, 17), value.subarray(17)];
    const body = bytes.subarray(4 + bytes.readUInt32BE(0));
    let served = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(mutation, { minLength: 1, maxLength: 3 }), async (changes) => {
        const header = headerIn(bytes);
        mutate(header, changes);
        await server.client.hset(key, "v", valueOf(stamp, bytesOf(header, body)));
        const answer = await fetch(page, { signal: AbortSignal.timeout(5_000) });
        expect(answer.status).toBe(200);
        expect(await answer.text()).toBe(genuine);
        served += 1;
      }),
      { numRuns: RUNS },
    );
    expect(served).toBe(RUNS);
    expect(await (await fetch(`${gateway.operations}/metrics`)).text()).toMatch(
      /registry_gateway_redis_rejected_values_total\{value="entry",reason="form"\} [1-9]/,
    );
  });
});

test("what is no message is none", () => {
  const real = [
    ["epoch", "tag", "all", "3.abcdefghijkl", 1_700_000_000_000],
    ["look", "tag"],
    ["chain", "tag", "25:x", "digest"],
    ["lease", "name", "stored"],
    ["borrowed", "key", "replica", [{ name: "calls", per: 60_600, count: 2 }]],
    ["news", "text"],
  ];
  for (const message of real) expect(parseMessage(JSON.stringify(message))).toBeDefined();
  fc.assert(
    fc.property(fc.constantFrom(...real), fc.nat(5), odd, (message, at, value) => {
      const parsed = parseMessage(JSON.stringify((message as unknown[]).with(Math.min(at, message.length - 1), value)));
      for (const part of Object.values(parsed ?? {})) {
        if (Array.isArray(part)) expect(parsed).toMatchObject({ windows: [{ name: "calls", per: 60_600, count: 2 }] });
        else expect(part).toSatisfy((each: unknown) => typeof each === "string" || Number.isFinite(each));
      }
    }),
  );
  const BORROWED = [
    "7",
    "[{}]",
    '[{"name":"calls","per":-1,"count":1}]',
    '[{"name":"calls","per":60,"count":1e999}]',
  ].map((windows) => `["borrowed","key","replica",${windows}]`);
  for (const text of [
    "",
    "{",
    "null",
    "[]",
    "[1]",
    '["epoch","t","s","junk",1]',
    '["epoch","t","s","1.a",1e999]',
    ...BORROWED,
  ]) {
    expect(parseMessage(text)).toBeUndefined();
  }
});

describe("a value that is not the gateway's is taken for absent, and counted", () => {
  const keys = new Keys("rg:");
  const limit = { requests: 4, per: 60_000 };

  /** Each kind of value, spoilt in one way. */
  const spoilt: [string, (server: RedisServer) => Promise<unknown>][] = [
    ["text", async ({ client }) => setAll((key) => client.set(key, "junk"))],
    ["a list", async ({ client }) => setAll((key) => client.rpush(key, "junk"))],
    ["a hash", async ({ client }) => setAll((key) => client.hset(key, { junk: "junk", "": "[1,2]" }))],
    ["a sorted set", async ({ client }) => setAll((key) => client.zadd(key, "inf", "junk", "-inf", "other"))],
    ["no number", async ({ client }) => setAll((key) => client.set(key, "nan inf -1 1e308 nan"))],
    ["very long", async ({ client }) => setAll((key) => client.set(key, "1 ".repeat(60_000)))],
  ];

  async function setAll(set: (key: string) => Promise<unknown>): Promise<void> {
    for (const key of [keys.limit("upstream", "limit"), keys.slots("client"), keys.fact("fact")]) {
      await set(key);
    }
    for (const key of [keys.replicas, keys.actions]) await set(key);
  }

  test.for(spoilt)("%s", async ([, spoil]) => {
    const server = await redisServer();
    await spoil(server);
    const replica = await replicaOn({ url: server.url });
    const { coordinator, events } = replica;
    for (const fact of await coordinator.facts.recall("fact")) expect(fact.length).toBeLessThan(1_025);
    await until(() => clock.now() - events.upSince > 1_700);
    const claim = { kind: "upstream", id: "limit", windows: [{ name: "calls", ...limit }] } as const;
    // Redis counts each call once. Where it took too long for one, on a busy machine, that is counted and not granted.
    const granted: number[] = [];
    await until(async () => {
      const answer = await coordinator.limits.take(claim);
      if (answer.granted) granted.push(answer.used[0]!);
      return !answer.granted && answer.used[0] === limit.requests;
    });
    expect(granted).toEqual(granted.toSorted((one, other) => one - other));
    expect([1, 2, 3, 4]).toEqual(expect.arrayContaining(granted));
    expect(new Set(granted).size).toBe(granted.length);
    expect(granted.length).toBeGreaterThan(0);
    expect(await coordinator.limits.hold({ id: "client", running: 0, wanted: 3, max: 2 })).toBe(2);
    const action = { upstream: "amulet", mode: "cache-only", by: "token", from: "loopback" } as const;
    expect(await coordinator.actions.act({ action, lasts: undefined })).toBe("fleet");
    expect(coordinator.actions.all()).toHaveLength(1);
    expect(coordinator.status()).toMatchObject({ state: "up", replicas: 1 });
    expect(events.states.at(-1)).toBe("up");
  });
});
