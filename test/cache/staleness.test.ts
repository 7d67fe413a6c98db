import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { CachePolicy } from "../../src/cache/resource.ts";
import { CacheFixture, field, type Script, type Scripted } from "../support/cache-fixture.ts";
import { MINUTE, SECOND } from "../support/cache-policy.ts";

/** Answers once, then does as `later` says. */
const once =
  (fields: readonly string[], later: Script): Script =>
  (request, n) =>
    n === 1 ? { fields } : later(request, n);

const DOWN: Script = () => ({ fails: 502 });

describe("stale-while-revalidate", () => {
  const POLICY: Partial<CachePolicy> = { ttl: 10 * SECOND, staleWhileRevalidate: 30 * SECOND };

  test("serves the stale answer at once, and renews it once in the background", async () => {
    const fixture = new CacheFixture({ policy: POLICY, script: (_r, n) => (n === 1 ? {} : { delay: SECOND }) });
    await fixture.get();
    await fixture.advance(15 * SECOND);
    for (let i = 0; i < 3; i += 1) {
      const stale = await fixture.get();
      expect(stale).toMatchObject({ outcome: "stale", tier: "memory", age: 15 });
      expect(field(stale, "cache-status")).toBe("registry-gateway;hit;ttl=-5;detail=stale-while-revalidate");
    }
    expect(fixture.upstream.requests.map((request) => request.purpose)).toEqual(["miss", "refresh"]);
    await fixture.advance(SECOND);
    expect((await fixture.get()).body?.toString()).toBe("body 2");
    expect(fixture.observer.events).toContain("refreshed stored");
  });

  test("is over once the upstream says something that may not be stored", async () => {
    const script = once([], () => ({ fields: ["cache-control", "no-store"] }));
    const fixture = new CacheFixture({ policy: POLICY, script });
    await fixture.get();
    await fixture.advance(15 * SECOND);
    expect((await fixture.get()).outcome).toBe("stale");
    await fixture.settle();
    expect(await fixture.get()).toMatchObject({ outcome: "miss", body: Buffer.from("body 3") });
  });

  test("is over after its window: then somebody has to wait", async () => {
    const fixture = new CacheFixture({ policy: POLICY });
    await fixture.get();
    await fixture.advance(40 * SECOND);
    expect((await fixture.get()).outcome).toBe("miss");
  });

  test("of the upstream counts before that of the configuration, also on an answer stale on arrival", async () => {
    const fields = ["cache-control", "max-age=0, stale-while-revalidate=3600", "etag", '"abc"'];
    const fixture = new CacheFixture({
      policy: POLICY,
      script: once(fields, () => ({ fields: ["cache-control", "max-age=3600"] })),
    });
    await fixture.get();
    const stale = await fixture.get();
    expect([field(stale, "etag"), stale.body?.toString()]).toEqual(['"abc"', "body 1"]);
    await fixture.settle();
    expect(await fixture.get()).toMatchObject({ outcome: "hit", body: Buffer.from("body 2") });
  });

  test("of the upstream is no longer than that of the configuration", async () => {
    const fields = ["cache-control", "max-age=5, stale-while-revalidate=31536000"];
    const fixture = new CacheFixture({ policy: POLICY, script: () => ({ fields }) });
    await fixture.get();
    await fixture.advance(34 * SECOND);
    expect((await fixture.get()).outcome).toBe("stale");
    await fixture.settle();
    await fixture.advance(35 * SECOND);
    expect((await fixture.get()).outcome).toBe("miss");
  });

  test("does not apply to an answer that is stale on arrival, where only the configuration allows it", async () => {
    const fixture = new CacheFixture({
      policy: POLICY,
      script: () => ({ fields: ["cache-control", "max-age=0", "etag", '"a"'] }),
    });
    await fixture.get();
    expect((await fixture.get()).outcome).toBe("miss");
  });

  test("a failing refresh is not tried again on every request", async () => {
    const fixture = new CacheFixture({ policy: POLICY, script: once([], DOWN) });
    await fixture.get();
    await fixture.advance(12 * SECOND);
    for (let i = 0; i < 10; i += 1) {
      expect((await fixture.get()).outcome).toBe("stale");
      await fixture.advance(10);
    }
    expect(fixture.upstream.requests).toHaveLength(2);
    await fixture.advance(300);
    await fixture.get();
    expect(fixture.upstream.requests).toHaveLength(3);
    expect(fixture.observer.events).toContain("refreshed failed");
  });

  test("a refresh that hangs ends at the resource's own deadline", async () => {
    const fixture = new CacheFixture({ policy: POLICY, script: once([], () => ({ delay: 1000 * MINUTE })) });
    await fixture.get();
    await fixture.advance(12 * SECOND);
    await fixture.get();
    await fixture.advance(10 * SECOND);
    expect(fixture.upstream.aborted).toHaveLength(1);
    expect(fixture.observer.events).toContain("refreshed failed");
  });
});

describe("refresh-ahead", () => {
  const POLICY: Partial<CachePolicy> = { ttl: 100 * SECOND };

  test("renews an entry that is asked for often in the last tenth of its life", async () => {
    const fixture = new CacheFixture({ policy: POLICY });
    await fixture.get();
    for (let i = 0; i < 5; i += 1) await fixture.get();
    await fixture.advance(89 * SECOND);
    await fixture.get();
    expect(fixture.upstream.requests).toHaveLength(1);
    await fixture.advance(2 * SECOND);
    expect((await fixture.get()).outcome).toBe("hit");
    await fixture.settle();
    expect(fixture.upstream.requests.map((request) => request.purpose)).toEqual(["miss", "refresh"]);
    expect(await fixture.get()).toMatchObject({ outcome: "hit", age: 0 });
  });

  test("leaves alone what hardly anybody asks for, and what lives for moments", async () => {
    const cold = new CacheFixture({ policy: POLICY });
    await cold.get();
    await cold.advance(95 * SECOND);
    await cold.get();
    expect(cold.upstream.requests).toHaveLength(1);
    const brief = new CacheFixture({ policy: { ttl: 2 * SECOND } });
    for (let i = 0; i < 9; i += 1) await brief.get();
    await brief.advance(1_900);
    await brief.get();
    expect(brief.upstream.requests).toHaveLength(1);
  });
});

describe("stale-if-error", () => {
  const POLICY: Partial<CachePolicy> = { ttl: 10 * SECOND, staleIfError: MINUTE };

  test.for<[string, Script, string]>([
    ["a fetch that fails", DOWN, "fwd=stale;ttl=-5"],
    ["an answer 503", () => ({ status: 503 }), "fwd=stale;fwd-status=503;ttl=-5"],
    ["an answer 500", () => ({ status: 500 }), "fwd=stale;fwd-status=500;ttl=-5"],
    ["an answer 429", () => ({ status: 429 }), "fwd=stale;fwd-status=429;ttl=-5"],
  ])("serves the stale answer instead of %s", async ([, later, status]) => {
    const fixture = new CacheFixture({ policy: POLICY, script: once([], later) });
    await fixture.get();
    await fixture.advance(15 * SECOND);
    const stale = await fixture.get();
    expect(stale).toMatchObject({ status: 200, outcome: "stale", age: 15 });
    expect(field(stale, "cache-status")).toBe(`registry-gateway;${status};detail=stale-if-error`);
    expect(fixture.observer.events).toContain("stale stale-if-error");
  });

  test.for<[string, Script, unknown]>([
    ["the failure itself", DOWN, 502],
    ["the upstream's 503", () => ({ status: 503 }), 503],
  ])("is over after its window: %s", async ([, later, status]) => {
    const fixture = new CacheFixture({ policy: POLICY, script: once([], later) });
    await fixture.get();
    await fixture.advance(70 * SECOND);
    const outcome = await fixture.get().catch((error: unknown) => error);
    expect(outcome).toMatchObject({ status });
  });

  test.for(["must-revalidate", "proxy-revalidate", "no-cache", "s-maxage=2"])(
    "is forbidden by %s, whatever windows are given",
    async (directive) => {
      const fields = [
        "cache-control",
        `max-age=2, stale-if-error=60, stale-while-revalidate=60, ${directive}`,
        "etag",
        '"a"',
      ];
      const fixture = new CacheFixture({
        policy: { ...POLICY, staleWhileRevalidate: MINUTE },
        script: once(fields, DOWN),
      });
      await fixture.get();
      await fixture.advance(3 * SECOND);
      await expect(fixture.get()).rejects.toMatchObject({ status: 502 });
    },
  );

  test("of the upstream counts before that of the configuration", async () => {
    const fields = ["cache-control", "max-age=2, stale-if-error=1"];
    const fixture = new CacheFixture({ policy: POLICY, script: once(fields, DOWN) });
    await fixture.get();
    await fixture.advance(2_500);
    expect((await fixture.get()).outcome).toBe("stale");
    await fixture.advance(500);
    await expect(fixture.get()).rejects.toMatchObject({ status: 502 });
  });

  test("also covers an answer that was stale on arrival", async () => {
    const fixture = new CacheFixture({ policy: POLICY, script: once(["cache-control", "max-age=0"], DOWN) });
    await fixture.get();
    await fixture.advance(30 * SECOND);
    expect((await fixture.get()).outcome).toBe("stale");
  });

  test("does not hide an answer that is no failure", async () => {
    const fixture = new CacheFixture({ policy: POLICY, script: once([], () => ({ status: 403 })) });
    await fixture.get();
    await fixture.advance(15 * SECOND);
    expect(await fixture.get()).toMatchObject({ status: 403, outcome: "miss" });
  });

  test("a 5xx with freshness does not displace what may still be used", async () => {
    const script = once([], (_r, n) =>
      n === 2 ? { status: 503, fields: ["cache-control", "max-age=99"] } : { fails: 502 },
    );
    const fixture = new CacheFixture({ policy: { ...POLICY, errors: "honor" }, script });
    await fixture.get();
    await fixture.advance(15 * SECOND);
    expect((await fixture.get()).status).toBe(200);
    expect((await fixture.get()).status).toBe(200);
    expect(fixture.observer.events).toContain("skipped failure");
  });

  test("what the upstream called gone does not come back", async () => {
    const script = once([], (_r, n) => (n === 2 ? { status: 404 } : { fails: 502 }));
    const fixture = new CacheFixture({ policy: { ...POLICY, notFoundTtl: 2 * SECOND }, script });
    await fixture.get();
    await fixture.advance(15 * SECOND);
    expect((await fixture.get()).status).toBe(404);
    await fixture.advance(3 * SECOND);
    await expect(fixture.get()).rejects.toMatchObject({ status: 502 });
  });

  const FADING = ["cache-control", "max-age=10", "etag", '"one"'];

  test.for<[string, Scripted]>([
    ["no-store", { fields: ["cache-control", "no-store"] }],
    ["private", { fields: ["cache-control", "private, max-age=60"] }],
    ["Vary: *", { fields: ["vary", "*"] }],
    ["no-cache, without a validator", { fields: ["cache-control", "no-cache"] }],
    ["must-revalidate, stale on arrival", { fields: ["cache-control", "max-age=0, must-revalidate"] }],
    ["no-store on a 304", { status: 304, fields: ["cache-control", "no-store"] }],
    ["no-store on a 404", { status: 404, fields: ["cache-control", "no-store"] }],
    ["403", { status: 403 }],
    ["400 and no-store", { status: 400, fields: ["cache-control", "no-store"] }],
  ])("what the upstream overtook by an answer with %s does not come back", async ([, later]) => {
    const script = once(FADING, (_r, n) => (n === 2 ? later : { fails: 502 }));
    const fixture = new CacheFixture({ policy: POLICY, script });
    await fixture.get();
    await fixture.advance(15 * SECOND);
    expect((await fixture.get()).outcome).not.toBe("stale");
    await expect(fixture.get()).rejects.toMatchObject({ status: 502 });
  });

  test("what is fresh stays where a client has it renewed by an answer that may not be stored", async () => {
    const script = once(FADING, () => ({ fields: ["cache-control", "no-store"] }));
    const fixture = new CacheFixture({ policy: { ...POLICY, honorClient: true, clientFloor: 0 }, script });
    await fixture.get();
    await fixture.get({ headers: { "cache-control": "no-cache" } });
    expect(await fixture.get()).toMatchObject({ outcome: "hit", body: Buffer.from("body 1") });
    // It was overtaken all the same: nothing stale of it stands in for a failure.
    fixture.upstream.script = DOWN;
    await fixture.advance(15 * SECOND);
    await expect(fixture.get()).rejects.toMatchObject({ status: 502 });
  });

  const HONOR: Partial<CachePolicy> = { ...POLICY, ttl: MINUTE, honorClient: true, clientFloor: 0 };
  const INSIST = { headers: { "cache-control": "no-cache" } };

  test.for<[string, Scripted]>([
    ["403", { status: 403 }],
    ["no-store", { fields: ["cache-control", "no-store"] }],
  ])("an answer with %s that comes late overtakes nothing that came since it was asked for", async ([, late]) => {
    const script: Script = (_r, n) => (n === 2 ? { ...late, delay: 2 * SECOND } : {});
    const fixture = new CacheFixture({ policy: HONOR, script });
    await fixture.get();
    await fixture.advance(30 * SECOND);
    const slow = fixture.get(INSIST);
    await fixture.advance(SECOND);
    // As a page that has it would be.
    const { key } = fixture.resource;
    const [stored] = fixture.memory.variants(key)!;
    const now = fixture.clock.now();
    const later = { ...stored!.entry, body: Buffer.from("later"), receivedAt: now, madeAt: now };
    fixture.memory.put(key, later);
    await fixture.advance(SECOND);
    await slow;
    expect(await fixture.get()).toMatchObject({ outcome: "hit", body: Buffer.from("later") });
  });

  test("an answer that comes after a purge does not take away what was fetched since", async () => {
    const script: Script = (_r, n) => (n === 2 ? { status: 403, delay: 2 * SECOND } : {});
    const fixture = new CacheFixture({ policy: HONOR, script });
    await fixture.get();
    const slow = fixture.get(INSIST);
    await fixture.coordinator.epochs.purge("party::1220", ["all"]);
    await fixture.get();
    await fixture.advance(2 * SECOND);
    await slow;
    expect((await fixture.get()).outcome).toBe("hit");
  });

  test.for<[string, Partial<CachePolicy>, string]>([
    ["credentials are forwarded", { sharedAuthorization: true }, "authorization"],
    ["all fields are forwarded", { forwardRequestHeaders: "*" }, "x-api-key"],
  ])("where %s, the refusal of one client does not end what others may be served", async ([, changes, name]) => {
    const good = { headers: { [name]: "good" } };
    const fields = ["cache-control", "public, max-age=10"];
    const script: Script = ({ headers }, n) =>
      n > 2 ? { fails: 502 } : headers[name] === "good" ? { fields } : { status: 401 };
    const fixture = new CacheFixture({ policy: { ...POLICY, staleWhileRevalidate: 10 * SECOND, ...changes }, script });
    await fixture.get(good);
    await fixture.advance(15 * SECOND);
    expect((await fixture.get()).outcome).toBe("stale");
    await fixture.settle();
    await fixture.advance(6 * SECOND);
    expect((await fixture.get(good)).outcome).toBe("stale");
  });

  test.for(["no-cache, no-store, must-revalidate", "private"])(
    "what is for one client (%s) does not end what is served to those without credentials",
    async (cacheControl) => {
      const script: Script = ({ headers }, n) =>
        n > 2
          ? { fails: 502 }
          : { fields: ["cache-control", headers.authorization === undefined ? "public, max-age=10" : cacheControl] };
      const fixture = new CacheFixture({ policy: { ...POLICY, sharedAuthorization: true }, script });
      await fixture.get();
      await fixture.advance(15 * SECOND);
      expect((await fixture.get({ headers: { authorization: "Bearer a" } })).outcome).not.toBe("stale");
      expect((await fixture.get()).outcome).toBe("stale");
    },
  );

  test("what is gone does not come back where the 404 is of another variant, and has been evicted", async () => {
    const there = { fields: ["cache-control", "max-age=10", "vary", "accept-language"] };
    const script: Script = (_r, n) => (n === 1 ? there : n === 2 ? { status: 404 } : { fails: 502 });
    const policy = { ...POLICY, forwardRequestHeaders: "*" as const, notFoundTtl: 2 * SECOND };
    const fixture = new CacheFixture({ policy, script });
    const german = { headers: { "accept-language": "de" } };
    await fixture.get(german);
    await fixture.advance(15 * SECOND);
    expect((await fixture.get(german)).status).toBe(404);
    const { key } = fixture.resource;
    for (const { entry } of fixture.memory.variants(key)!) if (entry.status === 404) fixture.memory.delete(key, entry);
    await fixture.advance(3 * SECOND);
    await expect(fixture.get(german)).rejects.toMatchObject({ status: 502 });
  });

  test("another variant stays where one was overtaken", async () => {
    const policy = { ...POLICY, forwardRequestHeaders: ["x-t"] };
    const script: Script = ({ headers }, n) =>
      n > 1 && headers["x-t"] === "a" ? { fields: ["cache-control", "no-store"] } : {};
    const fixture = new CacheFixture({ policy, script });
    await fixture.get({ headers: { "x-t": "a" } });
    await fixture.advance(9 * SECOND);
    await fixture.get({ headers: { "x-t": "b" } });
    await fixture.advance(5 * SECOND);
    expect((await fixture.get({ headers: { "x-t": "a" } })).outcome).toBe("miss");
    expect((await fixture.get({ headers: { "x-t": "b" } })).outcome).toBe("hit");
  });

  test("what is hot and cannot be stored any more is not asked for all the time", async () => {
    const fresh = { fields: ["cache-control", "max-age=600"] };
    const fixture = new CacheFixture({
      policy: { ...POLICY, maxTtl: 60 * MINUTE },
      script: (_r, n) => (n === 1 ? fresh : { fields: ["cache-control", "no-store"] }),
    });
    await fixture.get();
    for (let i = 0; i < 5; i += 1) await fixture.get();
    await fixture.advance(545 * SECOND);
    for (let i = 0; i < 50; i += 1) {
      expect((await fixture.get()).outcome).toBe("hit");
      await fixture.advance(100);
    }
    expect(fixture.upstream.requests.length).toBeLessThanOrEqual(3);
  });

  test("a recovered upstream is noticed by the next request after a quick failure", async () => {
    const fixture = new CacheFixture({ policy: POLICY, script: once([], (_r, n) => (n === 2 ? { fails: 502 } : {})) });
    await fixture.get();
    await fixture.advance(15 * SECOND);
    expect((await fixture.get()).outcome).toBe("stale");
    expect((await fixture.get()).outcome).toBe("miss");
  });

  test("after a slow failure nobody waits again: the stale answer is given while the upstream is tried", async () => {
    const fixture = new CacheFixture({
      policy: POLICY,
      script: once([], (_r, n) => (n === 4 ? {} : { delay: 1000 * MINUTE })),
    });
    await fixture.get();
    await fixture.advance(15 * SECOND);
    const first = fixture.get();
    await fixture.advance(10 * SECOND);
    expect(await first).toMatchObject({ outcome: "stale" });
    // At once, the failure being a moment ago, without another call; later with one in the background.
    const again = await fixture.get();
    expect(field(again, "cache-status")).toBe("registry-gateway;hit;ttl=-15;detail=stale-if-error");
    expect(fixture.upstream.requests).toHaveLength(2);
    await fixture.advance(5 * SECOND);
    expect((await fixture.get()).outcome).toBe("stale");
    await fixture.advance(15 * SECOND, SECOND);
    expect((await fixture.get()).outcome).toBe("stale");
    await fixture.settle();
    expect((await fixture.get()).outcome).toBe("hit");
    expect(fixture.upstream.requests).toHaveLength(4);
  });

  test("a client that leaves says nothing about the upstream", async () => {
    const script = once([], (_r, n) => (n === 2 ? { delay: 5 * SECOND } : {}));
    const fixture = new CacheFixture({ policy: POLICY, script });
    await fixture.get();
    await fixture.advance(15 * SECOND);
    const client = new AbortController();
    const left = fixture.get({ signal: client.signal }).catch((error: unknown) => error);
    await fixture.advance(2 * SECOND);
    client.abort();
    expect(await left).toMatchObject({ status: 499 });
    expect((await fixture.get()).outcome).toBe("miss");
  });

  test("does not make an old error stand in for a new one, however slow, nor have clients wait less for it", async () => {
    const error: Scripted = { status: 503, fields: ["cache-control", "max-age=2, stale-if-error=60"] };
    const fixture = new CacheFixture({
      policy: { errors: "honor", staleIfError: MINUTE },
      script: (_r, n) => (n === 1 ? error : { fails: 502, delay: 2 * SECOND }),
    });
    await fixture.get();
    await fixture.advance(3 * SECOND);
    for (let i = 0; i < 2; i += 1) {
      const refused = expect(fixture.get()).rejects.toMatchObject({ status: 502 });
      await fixture.advance(2 * SECOND);
      await refused;
    }
    expect(fixture.upstream.requests.map(({ maxWait }) => maxWait)).toEqual([Infinity, Infinity, Infinity]);
  });

  test("an error that is over does not keep the next one from being stored", async () => {
    const fields = ["cache-control", "max-age=5, stale-if-error=60"];
    const fixture = new CacheFixture({
      policy: { ...POLICY, errors: "honor" },
      script: () => ({ status: 503, fields }),
    });
    await fixture.get();
    await fixture.advance(12 * SECOND);
    expect((await fixture.get()).outcome).toBe("miss");
    await fixture.advance(SECOND);
    expect((await fixture.get()).outcome).toBe("hit");
    expect(fixture.upstream.requests).toHaveLength(2);
  });

  test("a client whose own deadline passes gets the stale answer, not a 504", async () => {
    const fixture = new CacheFixture({ policy: POLICY, script: once([], () => ({ delay: 5 * SECOND })) });
    await fixture.get();
    await fixture.advance(15 * SECOND);
    const asking = fixture.get({ timeout: SECOND });
    await fixture.advance(SECOND);
    expect((await asking).outcome).toBe("stale");
  });
});

describe("configured lifetimes", () => {
  test("are shortened by up to a tenth at random, explicit ones are not", async () => {
    const lives = async (fields: readonly string[]): Promise<number> => {
      const fixture = new CacheFixture({
        policy: { ttl: 100 * SECOND },
        random: () => 0.999,
        script: () => ({ fields }),
      });
      await fixture.get();
      const [entry] = fixture.memory.get(fixture.resource.key)!;
      return Math.round((entry!.freshUntil - entry!.receivedAt) / SECOND);
    };
    expect(await lives([])).toBe(90);
    expect(await lives(["cache-control", "max-age=100"])).toBe(100);
  });
});

test("nothing is ever served beyond the promised windows, whatever the clocks do", async () => {
  const seconds = (max: number) => fc.integer({ min: 0, max });
  const step = fc.record({
    advance: seconds(40),
    wall: fc.integer({ min: -100_000, max: 100_000 }),
    fails: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        maxAge: fc.option(seconds(30), { nil: undefined }),
        age: seconds(20),
        swr: fc.option(seconds(30), { nil: undefined }),
        sie: fc.option(seconds(60), { nil: undefined }),
        mustRevalidate: fc.boolean(),
        ttl: seconds(30),
        staleWhileRevalidate: seconds(30),
        staleIfError: seconds(60),
        random: fc.double({ min: 0, max: 0.999, noNaN: true }),
        steps: fc.array(step, { minLength: 1, maxLength: 12 }),
      }),
      async (given) => {
        const directives = [
          given.maxAge === undefined ? [] : [`max-age=${given.maxAge}`],
          given.swr === undefined ? [] : [`stale-while-revalidate=${given.swr}`],
          given.sie === undefined ? [] : [`stale-if-error=${given.sie}`],
          given.mustRevalidate ? ["must-revalidate"] : [],
        ].flat();
        const fields = directives.length === 0 ? [] : ["cache-control", directives.join(", ")];
        let fails = false;
        const received = new Map<string, number>();
        const fixture = new CacheFixture({
          policy: {
            ttl: given.ttl * SECOND,
            staleWhileRevalidate: given.staleWhileRevalidate * SECOND,
            staleIfError: given.staleIfError * SECOND,
          },
          random: () => given.random,
          script: (_request, n) => {
            if (fails) return { fails: 502 };
            received.set(`body ${n}`, fixture.clock.now());
            return { fields: [...fields, "age", String(given.age)], undated: true };
          },
        });
        for (const { advance, wall, fails: failing } of given.steps) {
          fails = failing;
          const answer = await fixture.get().catch(() => undefined);
          if (answer !== undefined && answer.tier !== "upstream") {
            const since = fixture.clock.now() - received.get(answer.body!.toString())!;
            const explicit = given.maxAge !== undefined;
            // Fresh, by the upstream's word less the age it came with, or by ours; then the longest window there is.
            const fresh = explicit ? (given.maxAge! - given.age) * SECOND : given.ttl * SECOND;
            const swr = given.swr ?? (fresh > 0 ? given.staleWhileRevalidate : 0);
            const sie = given.sie ?? given.staleIfError;
            const allowed = given.mustRevalidate
              ? 0
              : Math.max(swr, failing || answer.outcome === "stale" ? sie : 0) * SECOND;
            expect(since).toBeLessThan(fresh + allowed + 1);
            expect(answer.age).toBe(Math.floor(since / SECOND) + given.age);
          }
          fixture.clock.stepWall(wall * SECOND);
          await fixture.advance(advance * SECOND);
        }
      },
    ),
    { numRuns: 100 },
  );
});
