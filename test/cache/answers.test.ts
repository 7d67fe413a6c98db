import { describe, expect, test } from "vitest";
import type { CachePolicy } from "../../src/cache/resource.ts";
import { CacheFixture, field, type Scripted } from "../support/cache-fixture.ts";
import { MINUTE, SECOND } from "../support/cache-policy.ts";

const TTL: Partial<CachePolicy> = { ttl: 30 * SECOND };

/** Asks twice, `pause` apart, and says whether the second answer came from the store. */
async function isReused(answer: Scripted, changes: Partial<CachePolicy> = {}, pause = 3 * SECOND): Promise<boolean> {
  const fixture = new CacheFixture({ policy: changes, script: () => answer });
  await fixture.get();
  await fixture.advance(pause);
  const { outcome } = await fixture.get();
  expect(outcome === "hit").toBe(fixture.upstream.requests.length === 1);
  return outcome === "hit";
}

describe("a second request is answered from the store", () => {
  const at = (seconds: number): string => new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toUTCString();
  test.for<[string, Scripted, Partial<CachePolicy>, boolean]>([
    ["nothing said, nothing configured", {}, {}, false],
    ["nothing said, a TTL configured", {}, TTL, true],
    ["a validator alone", { fields: ["etag", '"a"'] }, {}, false],
    ["Last-Modified alone: no heuristics", { fields: ["last-modified", at(-100_000)] }, {}, false],
    ["max-age", { fields: ["cache-control", "max-age=3600"] }, {}, true],
    ["max-age gone by", { fields: ["cache-control", "max-age=3"] }, {}, false],
    ["malformed max-age, TTL configured", { fields: ["cache-control", "max-age=x"] }, TTL, false],
    ["max-age=0, TTL configured", { fields: ["cache-control", "max-age=0"] }, TTL, false],
    ["Expires ahead", { fields: ["expires", at(100)] }, {}, true],
    ["Expires malformed, TTL configured", { fields: ["expires", "0"] }, TTL, false],
    ["no-store", { fields: ["cache-control", "max-age=9, no-store"] }, TTL, false],
    ["private", { fields: ["cache-control", "private, max-age=9"] }, TTL, false],
    ["no-cache", { fields: ["cache-control", "max-age=9, no-cache"] }, TTL, false],
    ["must-revalidate while fresh", { fields: ["cache-control", "max-age=9, must-revalidate"] }, {}, true],
    [
      "CDN-Cache-Control over no-store",
      { fields: ["cache-control", "no-store", "cdn-cache-control", "max-age=9"] },
      {},
      true,
    ],
    [
      "CDN-Cache-Control: no-store",
      { fields: ["cache-control", "max-age=9", "cdn-cache-control", "no-store"] },
      TTL,
      false,
    ],
    [
      "CDN-Cache-Control: private",
      { fields: ["cache-control", "max-age=9", "cdn-cache-control", "private"] },
      TTL,
      false,
    ],
    [
      "CDN-Cache-Control: no-cache",
      { fields: ["cache-control", "max-age=9", "cdn-cache-control", "no-cache"] },
      TTL,
      false,
    ],
    [
      "our own field over all",
      { fields: ["cdn-cache-control", "no-store", "registry-gateway-cache-control", "max-age=9"] },
      {},
      true,
    ],
    [
      "our own field forbids",
      { fields: ["cache-control", "max-age=9", "registry-gateway-cache-control", "no-store"] },
      TTL,
      false,
    ],
    ["Vary: *", { fields: ["cache-control", "max-age=9", "vary", "*"] }, TTL, false],
    ["Vary of what is not forwarded", { fields: ["cache-control", "max-age=9", "vary", "Cookie, Origin"] }, {}, true],
    ["Set-Cookie does not matter", { fields: ["cache-control", "max-age=9", "set-cookie", "a=b"] }, {}, true],
    ["the caller forbids", { fields: ["cache-control", "max-age=9"], unstorable: "schema" }, TTL, false],
    ["404 without a TTL for it", { status: 404 }, TTL, false],
    ["404 with a TTL for it", { status: 404 }, { notFoundTtl: 5 * SECOND }, true],
    ["404 with that TTL over", { status: 404 }, { notFoundTtl: 2 * SECOND }, false],
    ["500 with freshness", { status: 500, fields: ["cache-control", "max-age=9"] }, TTL, false],
    [
      "500 with freshness, errors honoured",
      { status: 500, fields: ["cache-control", "max-age=9"] },
      { errors: "honor" },
      true,
    ],
    [
      "301 with freshness, errors honoured",
      { status: 301, fields: ["cache-control", "max-age=9"] },
      { errors: "honor" },
      true,
    ],
    ["410 without freshness, errors honoured", { status: 410 }, { ...TTL, errors: "honor" }, false],
    [
      "upstream not honoured",
      { fields: ["cache-control", "no-store, private, max-age=0"] },
      { ...TTL, honorUpstream: false },
      true,
    ],
    ["maxTtl", { fields: ["cache-control", "max-age=3600"] }, { maxTtl: 2 * SECOND }, false],
    ["Age beyond max-age", { fields: ["cache-control", "max-age=3600", "age", "7200"] }, {}, false],
    ["malformed Age", { fields: ["cache-control", "max-age=3600", "age", "x"] }, {}, true],
  ])("%s", async ([, answer, changes, reused]) => {
    expect(await isReused(answer, changes)).toBe(reused);
  });
});

describe("an answer from the store", () => {
  const CACHED = ["cache-control", "max-age=100", "content-type", "application/json", "x-test", "1"];

  test("has the stored fields, Age, and the Date of the stored response", async () => {
    const fixture = new CacheFixture({ script: () => ({ fields: CACHED }) });
    const date = fixture.upstream.date();
    await fixture.get();
    await fixture.advance(2_500);
    const answer = await fixture.get();
    expect(answer).toMatchObject({ status: 200, outcome: "hit", tier: "memory", age: 2 });
    expect(answer.body?.toString()).toBe("body 1");
    expect(field(answer, "age")).toBe("2");
    expect(field(answer, "date")).toBe(date);
    expect(field(answer, "x-test")).toBe("1");
    expect(field(answer, "cache-status")).toBe("registry-gateway;hit;ttl=97");
  });

  test("adds to the Age it came with", async () => {
    const fixture = new CacheFixture({ script: () => ({ fields: [...CACHED, "age", "30"] }) });
    expect(field(await fixture.get(), "age")).toBe("30");
    await fixture.advance(3 * SECOND);
    expect(field(await fixture.get(), "age")).toBe("33");
  });

  test("is dated by receipt when the upstream's Date is missing or malformed", async () => {
    for (const answer of [{ undated: true }, { fields: ["date", "foo"] }]) {
      const fixture = new CacheFixture({ policy: TTL, script: () => ({ delay: SECOND, ...answer }) });
      const asking = fixture.get();
      await fixture.advance(SECOND);
      expect(field(await asking, "date")).toBe(fixture.upstream.date());
    }
  });

  test("is the very same object within a second, and another one in the next", async () => {
    const fixture = new CacheFixture({ script: () => ({ fields: CACHED }) });
    await fixture.get();
    await fixture.advance(100);
    const first = await fixture.get();
    await fixture.advance(400);
    expect(await fixture.get()).toBe(first);
    await fixture.advance(600);
    const next = await fixture.get();
    expect(next).not.toBe(first);
    expect([first.age, next.age]).toEqual([0, 1]);
  });

  test("has the upstream's ETag, or one of its own that does not change with time", async () => {
    const own = new CacheFixture({ policy: TTL, script: () => ({ body: "same" }) });
    const tag = field(await own.get(), "etag");
    expect(tag).toMatch(/^"[\w-]+"$/);
    await own.advance(MINUTE);
    expect(field(await own.get(), "etag")).toBe(tag);
    expect(own.upstream.requests.map((request) => request.conditional)).toEqual([[], []]);

    const theirs = new CacheFixture({ policy: TTL, script: () => ({ fields: ["etag", 'W/"a"'] }) });
    expect(field(await theirs.get(), "etag")).toBe('W/"a"');
  });

  test("appends to what earlier caches said in Cache-Status", async () => {
    const fixture = new CacheFixture({ script: () => ({ fields: [...CACHED, "cache-status", "CDN; hit"] }) });
    expect(field(await fixture.get(), "cache-status")).toBe("CDN;hit, registry-gateway;fwd=uri-miss;ttl=100;stored");
    expect(field(await fixture.get(), "cache-status")).toBe("CDN;hit, registry-gateway;hit;ttl=100");
  });

  test("does not show the field meant for the gateway alone, on hit or miss", async () => {
    const fixture = new CacheFixture({ script: () => ({ fields: ["registry-gateway-cache-control", "max-age=9"] }) });
    for (const answer of [await fixture.get(), await fixture.get()]) {
      expect(field(answer, "registry-gateway-cache-control")).toBeUndefined();
      expect(field(answer, "cache-control")).toBe("no-cache");
    }
  });

  test.for([
    [0, "no-cache", "no-cache", "no-cache"],
    [10, "max-age=10", "max-age=15", "no-cache"],
    [60, "max-age=30", "max-age=30", "no-cache"],
  ] as const)("tells clients what they may keep: clientTtl of %d s", async ([clientTtl, fresh, later, stale]) => {
    const fixture = new CacheFixture({
      policy: { ...TTL, clientTtl: clientTtl * SECOND, staleWhileRevalidate: MINUTE },
      script: (_request, n) => (n === 1 ? {} : { delay: MINUTE }),
    });
    expect(field(await fixture.get(), "cache-control")).toBe(fresh);
    await fixture.advance(5 * SECOND);
    expect(field(await fixture.get(), "cache-control")).toBe(later);
    await fixture.advance(30 * SECOND);
    expect(field(await fixture.get(), "cache-control")).toBe(stale);
  });
});

test("clients may keep nothing of what is not stored", async () => {
  for (const status of [503, 429, 401]) {
    const fixture = new CacheFixture({ policy: { ...TTL, clientTtl: MINUTE }, script: () => ({ status }) });
    const answer = await fixture.get();
    expect([answer.status, field(answer, "cache-control")]).toEqual([status, "no-cache"]);
  }
});

describe("fields for one client alone", () => {
  test.for(["no-cache", "private"])('%s="…" goes to the one that asked, and is not stored', async (directive) => {
    const fields = [
      "cache-control",
      `${directive}="a, b"`,
      "cache-control",
      "max-age=100",
      "a",
      "1",
      "b",
      "2",
      "c",
      "3",
    ];
    const fixture = new CacheFixture({ script: () => ({ fields, delay: SECOND }) });
    const asking = [fixture.get(), fixture.get()];
    await fixture.advance(SECOND);
    const [own, joined] = await Promise.all(asking);
    const seen = (answer: typeof own) => ["a", "b", "c"].map((name) => field(answer!, name));
    expect(seen(own)).toEqual(["1", "2", "3"]);
    expect(seen(joined)).toEqual([undefined, undefined, "3"]);
    expect(seen(await fixture.get())).toEqual([undefined, undefined, "3"]);
    expect(fixture.upstream.requests).toHaveLength(1);
  });
});

describe("conditions of clients", () => {
  const CACHED = ["cache-control", "max-age=100", "etag", '"a"', "content-type", "application/json", "x-test", "1"];

  test("are answered 304 out of the store, with the fields that guide caches", async () => {
    const fixture = new CacheFixture({ script: () => ({ fields: CACHED }) });
    await fixture.get();
    const answer = await fixture.get({ headers: { "if-none-match": '"z", W/"a"' } });
    expect(answer).toMatchObject({ status: 304, body: undefined, outcome: "hit" });
    expect(answer.fields.filter((_, i) => i % 2 === 0)).toEqual([
      "cache-control",
      "etag",
      "date",
      "age",
      "cache-status",
    ]);
    expect((await fixture.get({ headers: { "if-none-match": '"z"' } })).status).toBe(200);
  });

  test("are never sent upstream, and are compared with what comes", async () => {
    const fixture = new CacheFixture({ script: () => ({ fields: CACHED }) });
    const answer = await fixture.get({ headers: { "if-none-match": '"a"' } });
    expect(answer).toMatchObject({ status: 304, outcome: "miss" });
    expect(field(answer, "cache-status")).toBe("registry-gateway;fwd=uri-miss;fwd-status=200;ttl=100;stored");
    expect(fixture.upstream.requests[0]?.conditional).toEqual([]);
  });

  test("count for a 200 only", async () => {
    const fixture = new CacheFixture({
      policy: { notFoundTtl: 5 * SECOND },
      script: () => ({ status: 404, fields: ["etag", '"a"'] }),
    });
    await fixture.get();
    expect(await fixture.get({ headers: { "if-none-match": '"a"' } })).toMatchObject({ status: 404, outcome: "hit" });
  });
});

describe("revalidation", () => {
  test("renews the entry by a 304 and takes over its fields", async () => {
    const fixture = new CacheFixture({
      script: (_request, n) =>
        n === 1
          ? { fields: ["cache-control", "max-age=1", "etag", '"a"', "x-test", "1", "x-kept", "1"] }
          : { status: 304, fields: ["cache-control", "max-age=50", "etag", '"a"', "x-test", "2"], body: "" },
    });
    await fixture.get();
    await fixture.advance(3 * SECOND);
    const renewed = await fixture.get();
    expect(fixture.upstream.requests[1]?.conditional).toEqual(["if-none-match", '"a"']);
    expect(renewed).toMatchObject({ status: 200, outcome: "revalidated", tier: "upstream", age: 0 });
    expect(field(renewed, "cache-status")).toBe("registry-gateway;fwd=stale;fwd-status=304;ttl=50");
    for (const answer of [renewed, await fixture.get()]) {
      expect(answer.body?.toString()).toBe("body 1");
      expect([field(answer, "x-test"), field(answer, "x-kept")]).toEqual(["2", "1"]);
    }
  });

  test("keeps our own targeted field, which the 304 leaves out", async () => {
    const fixture = new CacheFixture({
      script: (_request, n) =>
        n === 1 ? { fields: ["registry-gateway-cache-control", "max-age=5", "etag", '"a"'] } : { status: 304 },
    });
    await fixture.get();
    await fixture.advance(6 * SECOND);
    await fixture.get();
    await fixture.advance(4 * SECOND);
    expect((await fixture.get()).outcome).toBe("hit");
  });

  test("answers the client's own condition 304 after the upstream's 304", async () => {
    const fixture = new CacheFixture({
      script: (_request, n) => ({ status: n === 1 ? 200 : 304, fields: ["cache-control", "max-age=1", "etag", '"a"'] }),
    });
    await fixture.get();
    await fixture.advance(3 * SECOND);
    const answer = await fixture.get({ headers: { "if-none-match": '"a"' } });
    expect(answer).toMatchObject({ status: 304, outcome: "revalidated" });
    expect(field(answer, "cache-status")).toBe("registry-gateway;fwd=stale;ttl=1");
  });

  test("by a 200 replaces the entry", async () => {
    const fixture = new CacheFixture({
      script: (_request, n) => ({ fields: ["cache-control", "max-age=2", "etag", `"${n}"`] }),
    });
    await fixture.get();
    await fixture.advance(3 * SECOND);
    expect(await fixture.get()).toMatchObject({ outcome: "miss" });
    expect(field(await fixture.get(), "etag")).toBe('"2"');
  });

  test("a 304 for something else is no confirmation: the whole answer is asked for", async () => {
    const fixture = new CacheFixture({
      script: (_request, n) =>
        n === 2
          ? { status: 304, fields: ["etag", '"other"'] }
          : { fields: ["cache-control", "max-age=1", "etag", `"${n}"`] },
    });
    await fixture.get();
    await fixture.advance(3 * SECOND);
    expect(field(await fixture.get(), "etag")).toBe('"3"');
    expect(fixture.upstream.requests.map(({ conditional }) => conditional)).toEqual([[], ["if-none-match", '"1"'], []]);
  });

  test("a 304 that nothing asked for is a 502", async () => {
    const fixture = new CacheFixture({ script: () => ({ status: 304 }) });
    await expect(fixture.get()).rejects.toMatchObject({ status: 502 });
  });

  test("of no-cache happens on every request", async () => {
    const fixture = new CacheFixture({
      policy: { ...TTL, staleIfError: MINUTE, staleWhileRevalidate: MINUTE },
      script: (_request, n) => ({
        status: n === 1 ? 200 : n === 4 ? 503 : 304,
        fields: ["cache-control", "no-cache, max-age=100", "etag", '"a"'],
      }),
    });
    await fixture.get();
    expect((await fixture.get()).outcome).toBe("revalidated");
    expect((await fixture.get()).outcome).toBe("revalidated");
    expect((await fixture.get()).status).toBe(503);
  });
});

describe("variants", () => {
  const varying = (vary: string) => (request: { headers: NodeJS.Dict<string | string[]> }) => ({
    fields: ["cache-control", "max-age=100", "vary", vary],
    body: `foo ${String(request.headers["foo"])}`,
  });
  const bodyOf = async (fixture: CacheFixture, headers: Record<string, string>) =>
    (await fixture.get({ headers })).body?.toString();

  test("are kept apart by what Vary names, and an absent field matches an absent one", async () => {
    const fixture = new CacheFixture({ policy: { forwardRequestHeaders: "*" }, script: varying("Foo") });
    for (const headers of [{ foo: "1" }, { foo: "2" }, {}]) await fixture.get({ headers });
    expect(fixture.upstream.requests).toHaveLength(3);
    expect(await bodyOf(fixture, { foo: "1", other: "x" })).toBe("foo 1");
    expect(await bodyOf(fixture, { foo: " 2" })).toBe("foo 2");
    expect(await bodyOf(fixture, {})).toBe("foo undefined");
    expect(fixture.upstream.requests).toHaveLength(3);
  });

  test("say vary-miss when only another one is stored", async () => {
    const fixture = new CacheFixture({ policy: { forwardRequestHeaders: "*" }, script: varying("Foo") });
    await fixture.get({ headers: { foo: "1" } });
    const answer = await fixture.get({ headers: { foo: "2" } });
    expect(field(answer, "cache-status")).toBe("registry-gateway;fwd=vary-miss;ttl=100;stored");
  });

  test("by listed fields are kept apart even without Vary", async () => {
    const fixture = new CacheFixture({ policy: { ...TTL, forwardRequestHeaders: ["Foo"] }, script: () => ({}) });
    await fixture.get({ headers: { foo: "1" } });
    await fixture.get({ headers: { foo: "2" } });
    await fixture.get({ headers: { foo: "1", bar: "3" } });
    expect(fixture.upstream.requests).toHaveLength(2);
  });

  test("with another Vary replace the older ones that match: the most recent wins", async () => {
    const fixture = new CacheFixture({
      policy: { forwardRequestHeaders: "*" },
      script: (_request, n) => ({
        fields: ["cache-control", n === 1 ? "max-age=1" : "max-age=9", "vary", n === 1 ? "Foo" : "Bar"],
      }),
    });
    await fixture.get({ headers: { foo: "1" } });
    await fixture.advance(2 * SECOND);
    await fixture.get({ headers: { foo: "1" } });
    expect((await fixture.get({ headers: { foo: "2" } })).body?.toString()).toBe("body 2");
  });

  test("are bounded per resource, the oldest goes", async () => {
    const fixture = new CacheFixture({ policy: { forwardRequestHeaders: "*" }, script: varying("Foo") });
    for (let i = 0; i < 20; i += 1) {
      await fixture.get({ headers: { foo: String(i) } });
      fixture.clock.advance(1);
    }
    expect(fixture.memory.get(fixture.resource.key)).toHaveLength(16);
    expect((await fixture.get({ headers: { foo: "19" } })).outcome).toBe("hit");
    expect((await fixture.get({ headers: { foo: "0" } })).outcome).toBe("miss");
  });
});

describe("requests with Authorization", () => {
  const AUTH = { headers: { authorization: "Bearer a" } };

  test("make no difference while it stops at the gateway", async () => {
    const fixture = new CacheFixture({ policy: TTL });
    await fixture.get(AUTH);
    expect((await fixture.get()).outcome).toBe("hit");
  });

  test.for([
    ["max-age=100", false],
    ["max-age=100, public", true],
    ["max-age=100, must-revalidate", true],
    ["s-maxage=100", true],
  ] as const)("that reach the upstream: %s is stored: %s", async ([cacheControl, stored]) => {
    const fixture = new CacheFixture({
      policy: { sharedAuthorization: true },
      script: () => ({ fields: ["cache-control", cacheControl] }),
    });
    const first = await fixture.get(AUTH);
    expect(field(first, "cache-status")?.includes("stored")).toBe(stored);
    expect((await fixture.get()).outcome).toBe(stored ? "hit" : "miss");
  });
});

test("where nobody lets anything be stored, the reason is told", async () => {
  const reasons: string[] = [];
  const fixture = new CacheFixture({
    script: () => ({ fields: ["cache-control", reasons.length === 0 ? "no-store" : "private"] }),
  });
  for (let i = 0; i < 2; i += 1) reasons.push(field(await fixture.get(), "cache-status") ?? "");
  expect(reasons).toEqual([
    "registry-gateway;fwd=uri-miss;detail=no-store",
    "registry-gateway;fwd=uri-miss;detail=private",
  ]);
  expect(fixture.observer.events.filter((event) => event.startsWith("skipped"))).toEqual([
    "skipped no-store",
    "skipped private",
  ]);
});
