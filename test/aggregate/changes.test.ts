import { createHash, randomBytes } from "node:crypto";
import { afterEach, describe, expect, test } from "vitest";
import { readPage, ListedPage } from "../../src/bodies/page.ts";
import type { CacheAnswer } from "../../src/cache/resource.ts";
import { Catalogue, type RegistryInstruments } from "../../src/aggregate/catalogue.ts";
import { changeText } from "../../src/aggregate/change.ts";
import { Changes } from "../../src/aggregate/changes.ts";
import { formatKnown, InstrumentMemory } from "../../src/aggregate/known-instruments.ts";
import { localCoordinator } from "../../src/sharing/alone.ts";
import { listingEpoch, type WholeListing } from "../../src/registry/whole-listing.ts";
import { digestOf } from "../../src/digest.ts";
import type { Upstream } from "../../src/upstream/upstream.ts";
import { type RedisServer, startRedis } from "../support/redis.ts";
import { ShiftedClock } from "../support/shifted-clock.ts";
import { type Replica, startReplica } from "../support/redis-replicas.ts";
import { until } from "../support/until.ts";

const clock = new ShiftedClock();
let readings = 0;
const stopping: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stopping.splice(0).toReversed()) await stop();
});

/** Follows changes of the registries that are configured; readings are given by hand. */
class Follower {
  readonly changes: Changes;
  readonly epochs = localCoordinator(clock).epochs;
  /** Of which registry changes could not be found out, and why. */
  readonly failed: string[] = [];
  configured: readonly string[] = ["amulet", "bonds"];
  /** Configured, and have not named their admins. */
  unlearned: readonly string[] = [];
  private readonly catalogue: Catalogue;

  constructor(replica?: Replica) {
    const upstreams = () => {
      const learned = this.configured.map((name) => ({ name, admin: `${name}::1220` }) as Upstream);
      const all = [...learned, ...this.unlearned.map((name) => ({ name, admin: undefined }) as Upstream)];
      return { all, byAdmin: (admin: string) => all.find((each) => each.admin === admin) };
    };
    const shared = replica && { log: replica.coordinator.changes, texts: replica.texts };
    const failed = (upstream: string, fault: unknown) => this.failed.push(`${upstream} ${(fault as Error).name}`);
    const observer = { changed: () => undefined, failed };
    const { epochs } = this;
    this.changes = new Changes({ clock, shared, upstreams, epochs, observer });
    this.catalogue = new Catalogue({ clock, epochs, upstreams });
  }

  /** A registry was read, later than any before. */
  async read(name: string, instruments: readonly object[], supportedApis: object = {}): Promise<void> {
    await this.begin(name)(instruments, supportedApis);
  }

  /** A reading begins; what comes of it is taken when it ends. */
  begin(name: string): (instruments: readonly object[], supportedApis?: object) => Promise<void> {
    const epoch = listingEpoch(this.epochs, `${name}::1220`);
    return async (instruments, supportedApis = {}) => {
      const listing = { ...listingOf(name, instruments, supportedApis), epoch };
      await this.changes.take(await this.catalogue.take(listing));
    };
  }

  /** All changes since the beginning that is known, as texts without their time. */
  get told(): string[] {
    const { changes } = this;
    let n = changes.last?.n ?? 0;
    while (n > 0 && changes.from({ n: n - 1, count: 0 }) !== undefined) n -= 1;
    const batches = changes.from({ n, count: 0 }) ?? [];
    return batches.flatMap((batch) => batch.changes.map((_, at) => changeText(batch, at + 1)));
  }

  get types(): string[] {
    return this.told.map((text) => {
      const { type, registry, instrument } = JSON.parse(text) as {
        type: string;
        registry: string;
        instrument?: { id: string };
      };
      return `${type} ${registry}${instrument === undefined ? "" : ` ${instrument.id}`}`;
    });
  }
}

function listingOf(name: string, instruments: readonly object[], supportedApis: object): WholeListing {
  const body = Buffer.from(JSON.stringify({ instruments }).replaceAll(`"${DEEP_HERE}"`, DEEP));
  const parts = readPage(body);
  if (typeof parts === "string") throw new Error(parts);
  // Redis's clock cannot be set forward: each reading is of two seconds later than the one before all the same.
  readings += 1;
  const now = clock.now() + 2_000 * readings;
  const info = { body: Buffer.from(JSON.stringify({ adminId: "", supportedApis })) } as CacheAnswer;
  return {
    admin: `${name}::1220`,
    info,
    pages: [new ListedPage(body, parts)],
    cacheControl: [],
    digest: body.toString(),
    cutShortBy: undefined,
    epoch: "",
    softEpoch: "",
    asOf: now,
    newestAsOf: now,
    infoAsOf: now,
    freshUntil: now + 60_000,
    usableUntil: now + 60_000,
  };
}

/** Can be read as JSON, and not be written again; and what stands for it in an instrument. */
const DEEP = `${"[".repeat(7_000)}${"]".repeat(7_000)}`;
const DEEP_HERE = "<deep>";

const instrument = (id: string, symbol = id) => ({ id, name: id, symbol, decimals: 10, supportedApis: {} });

describe("alone", () => {
  test("the first reading says that a registry came, the next ones what changed", async () => {
    const follower = new Follower();
    await follower.read("amulet", [instrument("A"), instrument("B")]);
    await follower.read("amulet", [instrument("B"), instrument("A")]);
    await follower.read("amulet", [instrument("B", "X"), instrument("C")]);
    expect(follower.types).toEqual([
      "registry_added amulet",
      "instrument_removed amulet A",
      "instrument_changed amulet B",
      "instrument_added amulet C",
    ]);
  });

  // A page of another registry, which the purge was about, made every instrument one that went.
  test("a reading that was purged while it was made tells nothing", async () => {
    const follower = new Follower();
    await follower.read("amulet", [instrument("A")]);
    const end = follower.begin("amulet");
    await follower.epochs.purge("amulet::1220", ["all"]);
    await end([instrument("ALIEN")]);
    expect(follower.types).toEqual(["registry_added amulet"]);
    await follower.read("amulet", [instrument("A"), instrument("B")]);
    expect(follower.types).toEqual(["registry_added amulet", "instrument_added amulet B"]);
  });

  // While any upstream had not named its admin, it was never told.
  test("a registry went where for a quarter of an hour none was it, though a silent one may be", async () => {
    const follower = new Follower();
    await follower.read("amulet", []);
    await follower.read("bonds", []);
    const told = ["registry_added amulet", "registry_added bonds"];
    const reload = (configured: readonly string[], unlearned: readonly string[]): void => {
      follower.configured = configured;
      follower.unlearned = unlearned;
      follower.changes.look();
    };
    // However long nothing was said of it before.
    clock.advance(3_600_000);
    reload(["amulet"], ["bonds"]);
    clock.advance(890_000);
    follower.changes.look();
    reload(["amulet", "bonds"], []);
    reload(["amulet"], ["bonds"]);
    clock.advance(890_000);
    follower.changes.look();
    expect(follower.types).toEqual(told);
    clock.advance(20_000);
    follower.changes.look();
    expect(follower.types).toEqual([...told, "registry_removed bonds"]);
    clock.advance(1_000);
    reload(["amulet", "bonds"], []);
    await follower.read("bonds", []);
    expect(follower.types).toEqual([...told, "registry_removed bonds", "registry_added bonds"]);
  });

  // One that is deep enough could not be written again: no change of any registry was told any more.
  test("structures where an instrument has none are left out, whatever their depth", async () => {
    const follower = new Follower();
    await follower.read("amulet", []);
    const supportedApis = { transfer: 1, draft: DEEP_HERE };
    await follower.read("amulet", [
      { id: "A", name: DEEP_HERE, symbol: DEEP_HERE, decimals: DEEP_HERE, supportedApis },
    ]);
    await follower.read("bonds", []);
    expect(follower.told.map((text) => JSON.parse(text) as object)).toEqual([
      expect.objectContaining({ type: "registry_added", registry: "amulet" }),
      expect.objectContaining({
        type: "instrument_added",
        instrument: {
          id: "A",
          name: null,
          symbol: null,
          decimals: null,
          supportedApis: { transfer: 1 },
          paused: false,
        },
      }),
      expect.objectContaining({ type: "registry_added", registry: "bonds" }),
    ]);
  });

  test("another order of supportedApis is no change, of an instrument or of an info", async () => {
    const follower = new Follower();
    const [one, other] = [
      { a: 1, b: 2 },
      { b: 2, a: 1 },
    ];
    await follower.read("amulet", [{ ...instrument("A"), supportedApis: one }], one);
    await follower.read("amulet", [{ ...instrument("A"), supportedApis: other }], other);
    expect(follower.types).toEqual(["registry_added amulet"]);
    await follower.read("amulet", [{ ...instrument("A"), supportedApis: { a: 1 } }], { a: 1 });
    expect(follower.types.slice(1)).toEqual(["registry_changed amulet", "instrument_changed amulet A"]);
  });

  test("a listing that changes too much at once is to be read again", async () => {
    const follower = new Follower();
    const many = Array.from({ length: 15_000 }, (_, at) => instrument(digestOf(String(at))));
    await follower.read("amulet", []);
    await follower.read("amulet", many);
    await follower.read("amulet", [instrument("A"), instrument("B")]);
    await follower.read("amulet", [instrument("A")]);
    expect(follower.types).toEqual([
      "registry_added amulet",
      "registry_relisted amulet",
      "registry_relisted amulet",
      "instrument_removed amulet B",
    ]);
  });

  // It was parsed on the event loop, whatever its size.
  test("of an instrument that is very large it is told that it came or went, and of the others everything", async () => {
    const follower = new Follower();
    const large = { ...instrument("L"), note: "n".repeat(70_000) };
    await follower.read("amulet", [instrument("A")]);
    await follower.read("amulet", [instrument("A", "X"), large]);
    await follower.read("amulet", [instrument("A"), { ...large, symbol: "Y" }]);
    await follower.read("amulet", [instrument("A"), instrument("L")]);
    await follower.read("amulet", [instrument("A"), { ...large, symbol: "Y" }]);
    await follower.read("amulet", [instrument("A"), { ...instrument("L"), paused: true }]);
    await follower.read("amulet", [instrument("A")]);
    const told = follower.told.slice(1).map((text) => {
      const { type, instrument: told } = JSON.parse(text) as { type: string; instrument: object };
      return [type, told];
    });
    const { id, ...fields } = instrument("L");
    expect(told).toEqual([
      ["instrument_changed", { id: "A", symbol: "X" }],
      ["instrument_added", { id }],
      ["instrument_changed", { id: "A", symbol: "A" }],
      ["instrument_changed", { id, ...fields }],
      // Nothing was known of it.
      ["instrument_unpaused", { id }],
      ["instrument_changed", { id, ...fields }],
      ["instrument_paused", { id }],
      ["instrument_removed", { id }],
    ]);
  });

  // It did so after each thousand of them, whatever their size.
  test("taking out what is followed gives way by how much is parsed", async () => {
    const texts = Array.from({ length: 500 }, (_, at) =>
      JSON.stringify({ ...instrument(`I-${at}`), note: "n".repeat(6_500) }),
    );
    let turns = 0;
    let isOver = false;
    const count = (): void => {
      turns += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    const ids = texts.map((_, at) => `I-${at}`);
    await new InstrumentMemory({ clock, shared: undefined }).read("amulet::1220", {
      ids,
      texts,
      size: 0,
    } as unknown as RegistryInstruments);
    isOver = true;
    expect(turns).toBeGreaterThanOrEqual(texts.join("").length / (80 * 1_024));
  });

  test("whether an instrument is paused is told once it is small enough to be looked at again", async () => {
    const follower = new Follower();
    const paused = (value: boolean, note = "") => [{ ...instrument("A"), paused: value, note }];
    await follower.read("amulet", paused(true));
    await follower.read("amulet", paused(true, "n".repeat(70_000)));
    await follower.read("amulet", paused(false));
    expect(follower.types).toContain("instrument_unpaused amulet A");
  });

  // What they cost to be searched was counted, too.
  test("instruments of 20 MB are followed", async () => {
    const follower = new Follower();
    const many = Array.from({ length: 48_000 }, (_, at) => instrument(`${at}`.padStart(120, "0"), "n".repeat(100)));
    await follower.read("amulet", many);
    await follower.read("amulet", many.slice(1));
    expect(follower.types).toContain(`instrument_removed amulet ${"0".repeat(120)}`);
  });

  test("ten thousand changes of one reading are told one by one, in rows of bounded length", async () => {
    const follower = new Follower();
    const list = (symbol: string) => Array.from({ length: 10_000 }, (_, at) => instrument(`I-${at}`, `${symbol}${at}`));
    await follower.read("amulet", list("A"));
    const { position } = follower.changes.end;
    await follower.read("amulet", list("B"));
    const batches = follower.changes.from(position)!.slice(1);
    expect(batches.length).toBeGreaterThan(5);
    const ids = batches.flatMap(({ changes }) => changes.map(({ instrument: each }) => each!.id));
    expect(ids).toEqual(list("").map(({ id }) => id));
  });

  test("what is kept is bounded: the first ids are not known any more, the last ones are", async () => {
    const follower = new Follower();
    await follower.read("amulet", []);
    const ids: string[] = [];
    // Nothing makes them shorter.
    const name = () => randomBytes(3_000).toString("base64");
    for (let at = 0; at < 250; at += 1) {
      await follower.read("amulet", [{ ...instrument(`I-${at}`), name: name() }]);
      ids.push(follower.changes.last!.id);
    }
    expect(follower.changes.find(ids[0]!)).toBeUndefined();
    expect(follower.changes.find(ids.at(-50)!)).toBeDefined();
    expect(follower.changes.from(follower.changes.find(ids.at(-50)!)!)).toHaveLength(50);
  });
});

interface Started extends Follower {
  readonly stop: () => Promise<unknown>;
  /** Has what instruments were known to replicas. */
  readonly keep: (digest: string, text: string) => Promise<void>;
}

describe("replicas at one Redis", () => {
  async function scene(): Promise<{
    redis: RedisServer;
    start: () => Promise<Started>;
  }> {
    const redis = await startRedis();
    stopping.push(() => redis.stop());
    const start = async () => {
      const replica = await startReplica({ url: redis.url });
      const follower = new Follower(replica);
      stopping.push(() => replica.close());
      await replica.coordinator.whenReady(5_000);
      const keep = (digest: string, text: string) => replica.texts.write(digest, text, 60_000);
      return Object.assign(follower, { stop: () => replica.close(), keep });
    };
    return { redis, start };
  }

  test("tell each change once and in the same order, whichever of them finds it", async () => {
    const { start } = await scene();
    const [a, b, c] = [await start(), await start(), await start()];
    const followers = [a, b, c];
    for (let at = 0; at < 20; at += 1) {
      const amulet = [instrument(`A-${at}`)];
      const bonds = [instrument("B", String(at))];
      // All three find the same, at the same time.
      await Promise.all(followers.flatMap((each) => [each.read("amulet", amulet), each.read("bonds", bonds)]));
    }
    await until(() => followers.every(({ told }) => told.length === a.told.length));
    expect(b.told).toEqual(a.told);
    expect(c.told).toEqual(a.told);
    expect(new Set(a.types).size).toBe(2 + 19 * 2 + 1);
    expect(a.types.filter((type) => type.startsWith("instrument_changed"))).toHaveLength(19);
    expect(a.types.filter((type) => type.startsWith("instrument_added"))).toHaveLength(19);
    expect(a.types.filter((type) => type.startsWith("registry_added"))).toHaveLength(2);
  });

  test("go on where the one before ended that is the only one, and tell what changed meanwhile", async () => {
    const { start } = await scene();
    const first = await start();
    await first.read("amulet", [instrument("A"), instrument("B")]);
    const { id } = first.changes.last!;
    await first.stop();
    const second = await start();
    await second.read("amulet", [instrument("B", "NEW"), instrument("C")]);
    const position = second.changes.find(id)!;
    expect(position).toBeDefined();
    expect(second.types.slice(1)).toEqual([
      "instrument_removed amulet A",
      "instrument_changed amulet B",
      "instrument_added amulet C",
    ]);
  });

  test("say that a listing is to be read again where nobody has what it was before", async () => {
    const { redis, start } = await scene();
    const first = await start();
    await first.read("amulet", [instrument("A")]);
    await first.stop();
    for (const key of await redis.client.keys("rg:t*")) await redis.client.del(key);
    const second = await start();
    await second.read("amulet", [instrument("B")]);
    expect(second.types).toEqual(["registry_added amulet", "registry_relisted amulet"]);
  });

  test("keep their ids over a Redis that comes back empty", async () => {
    const { redis, start } = await scene();
    const [a, b] = [await start(), await start()];
    await a.read("amulet", [instrument("A")]);
    await a.read("amulet", [instrument("B")]);
    await until(() => b.told.length === 3);
    const { id } = a.changes.last!;
    const { history } = b.changes;
    await redis.client.flushall();
    await a.read("amulet", [instrument("C")]);
    await until(() => b.told.length === 5);
    expect(b.told).toEqual(a.told);
    expect(a.changes.find(id)).toBeDefined();
    expect(b.changes.history).toBe(history);
    const c = await start();
    await c.changes.begin();
    expect(c.changes.find(id)).toBeDefined();
  });

  test("go on alone while Redis is away for long; where two did, one of them begins another history", async () => {
    const { redis, start } = await scene();
    const [a, b] = [await start(), await start()];
    await a.read("amulet", [instrument("A")]);
    await until(() => b.told.length === 1);
    const { id } = a.changes.last!;
    await redis.kill();
    const histories = [a.changes.history, b.changes.history];
    for (const [follower, name] of [
      [a, "FROM-A"],
      [b, "FROM-B"],
    ] as const) {
      await follower.read("amulet", [instrument(name)]);
      expect(follower.types).toEqual(["registry_added amulet"]);
      clock.advance(11_000);
      await follower.read("amulet", [instrument(name)]);
      // One of them never read what was before.
      const told =
        name === "FROM-A"
          ? ["instrument_removed amulet A", "instrument_added amulet FROM-A"]
          : ["registry_relisted amulet"];
      expect(follower.types.slice(1)).toEqual(told);
    }
    await redis.start();
    await until(() => a.told.join() === b.told.join());
    const changed = [a, b].filter(({ changes }, at) => changes.history !== histories[at]);
    expect(changed).toHaveLength(1);
    // Both know the ids from before.
    expect([a.changes.find(id), b.changes.find(id)]).toEqual([expect.anything(), expect.anything()]);
  });

  test("take a registry away once, when it is gone from the configuration of one, and not bring it back by an old one", async () => {
    const { start } = await scene();
    const [a, b] = [await start(), await start()];
    for (const each of [a, b]) for (const name of ["amulet", "bonds"]) await each.read(name, [instrument("A")]);
    await until(() => a.told.length === 2 && b.told.length === 2);
    a.configured = ["amulet"];
    await until(() => a.told.length === 3);
    // Its configuration is older.
    await b.read("bonds", [instrument("B")]);
    b.configured = ["amulet"];
    await b.read("amulet", [instrument("A")]);
    expect(a.types).toEqual(["registry_added amulet", "registry_added bonds", "registry_removed bonds"]);
    expect(b.told).toEqual(a.told);
    b.configured = ["amulet", "bonds"];
    await b.read("amulet", [instrument("A")]);
    await b.read("bonds", [instrument("B")]);
    await until(() => a.types.at(-1) === "registry_added bonds");
  });

  test("tell what changes at other registries where one cannot be compared with what is kept of it", async () => {
    const { redis, start } = await scene();
    const a = await start();
    await a.read("amulet", [instrument("A")]);
    await a.stop();
    // As a version of the gateway that knows no bounds of what is followed would have kept it.
    const fields = new Map([["A", `[${DEEP},null,null,null,false]`]]);
    const digest = createHash("sha256")
      .update(JSON.stringify([...fields][0]))
      .digest("base64url");
    const key = (await redis.client.keys("rg:2:changes*"))[0]!;
    const [name, row] = Object.entries(await redis.client.hgetall(key)).find(([field]) => field.startsWith("r"))!;
    const [, known] = /"amulet","([\w-]+)"/.exec(row)!;
    await redis.client.hset(key, name, row.replace(known!, digest));
    await redis.client.hset(key, "=version", String(Math.random()));
    const b = await start();
    await b.keep(digest, await formatKnown({ digest, fields, size: 0 }));
    await b.read("amulet", [instrument("A", "NEW")]);
    await b.read("bonds", []);
    expect(b.failed).toContain("amulet RangeError");
    expect(b.types).toEqual(["registry_added amulet", "registry_added bonds"]);
  });

  test("do not take what is foreign in Redis for changes, and write over it", async () => {
    const { redis, start } = await scene();
    const a = await start();
    await a.read("amulet", [instrument("A")]);
    const key = (await redis.client.keys("rg:2:changes*"))[0]!;
    for (const text of ["x", "9 - {", '9 - ["id","a","b",1e99,[]]', "9 - zAAAA"]) {
      await redis.client.hset(key, "c9", text, "c2", text, "rfoo", text);
      await redis.client.hset(key, "=version", String(Math.random()));
      await a.read("amulet", [instrument(`I${text.length}`)]);
      expect(a.types.at(-1)).toBe(`instrument_added amulet I${text.length}`);
    }
    const b = await start();
    await b.changes.begin();
    // What was overwritten in Redis is known to those alone that read it before.
    expect(b.told.at(-1)).toBe(a.told.at(-1));
    expect(a.told.slice(-b.told.length)).toEqual(b.told);
  });
});
