import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { CacheAnswer, CachePolicy } from "../../src/cache/resource.ts";
import { CacheFixture, field, type Script, type Scripted } from "../support/cache-fixture.ts";
import { MINUTE, SECOND } from "../support/cache-policy.ts";

const TTL: Partial<CachePolicy> = { ttl: 30 * SECOND };

/** Asks `count` times at once, then lets `wait` pass. */
async function askAtOnce(
  fixture: CacheFixture,
  count: number,
  wait = SECOND,
): Promise<PromiseSettledResult<CacheAnswer>[]> {
  const asking = Promise.allSettled(Array.from({ length: count }, () => fixture.get()));
  await fixture.advance(wait);
  return asking;
}

describe("requests for the same thing at the same time", () => {
  test("cause one fetch, and all get its answer", async () => {
    const fixture = new CacheFixture({ policy: TTL, script: () => ({ delay: SECOND }) });
    const answers = await askAtOnce(fixture, 100);
    expect(fixture.upstream.requests).toHaveLength(1);
    const statuses = answers.map((answer) => answer.status === "fulfilled" && field(answer.value, "cache-status"));
    expect(statuses.filter((status) => status === "registry-gateway;fwd=uri-miss;ttl=30;stored")).toHaveLength(1);
    expect(
      statuses.filter((status) => status === "registry-gateway;fwd=uri-miss;ttl=30;stored;collapsed"),
    ).toHaveLength(99);
    expect(fixture.observer.events.filter((event) => event === "collapsed")).toHaveLength(99);
  });

  test("fail together", async () => {
    const fixture = new CacheFixture({ policy: TTL, script: () => ({ delay: SECOND, fails: 502 }) });
    const answers = await askAtOnce(fixture, 10);
    expect(fixture.upstream.requests).toHaveLength(1);
    for (const answer of answers) expect(answer).toMatchObject({ status: "rejected", reason: { status: 502 } });
  });

  test("are all served stale when the fetch fails", async () => {
    const fixture = new CacheFixture({
      policy: { ...TTL, staleIfError: MINUTE },
      script: (_request, n) => (n === 1 ? {} : { delay: SECOND, fails: 502 }),
    });
    await fixture.get();
    await fixture.advance(40 * SECOND);
    const answers = await askAtOnce(fixture, 10);
    expect(fixture.upstream.requests).toHaveLength(2);
    for (const answer of answers) expect(answer).toMatchObject({ value: { outcome: "stale" } });
  });

  test.for<[string, Script]>([
    ["a body that breaks the schema", () => ({ unstorable: "schema", delay: SECOND })],
    ["a 404 that is not stored", () => ({ status: 404, delay: SECOND })],
    ["a 500", () => ({ status: 500, delay: SECOND })],
    ["a 503 that says no-store", () => ({ status: 503, fields: ["cache-control", "no-store"], delay: SECOND })],
  ])("share an answer that is merely not stored: %s", async ([, script]) => {
    const fixture = new CacheFixture({ policy: TTL, script });
    const answers = await askAtOnce(fixture, 10);
    expect(fixture.upstream.requests).toHaveLength(1);
    for (const answer of answers) expect(answer).toMatchObject({ value: { outcome: "miss" } });
    await askAtOnce(fixture, 1);
    expect(fixture.upstream.requests).toHaveLength(2);
  });

  test.for([
    ["no-store", ["cache-control", "no-store"]],
    ["private", ["cache-control", "private, max-age=100"]],
    ["Vary: *", ["vary", "*"]],
    ["no-cache", ["cache-control", "no-cache"]],
  ] as const)("never share an answer that is for one client: %s", async ([, fields]) => {
    const fixture = new CacheFixture({ policy: TTL, script: () => ({ fields, delay: SECOND }) });
    const asking = Promise.allSettled(Array.from({ length: 10 }, () => fixture.get()));
    await fixture.advance(SECOND);
    // The nine that waited go on their own, all at once.
    expect(fixture.upstream.requests).toHaveLength(10);
    await fixture.advance(SECOND);
    const bodies = (await asking).map((answer) => answer.status === "fulfilled" && answer.value.body?.toString());
    expect(new Set(bodies).size).toBe(10);
    // Nor does anybody wait for anybody a moment later.
    const later = askAtOnce(fixture, 5);
    expect(fixture.upstream.requests).toHaveLength(15);
    await later;
  });

  test("wait for each other again once the answer is for all", async () => {
    const fixture = new CacheFixture({
      policy: TTL,
      script: (_request, n) => ({ fields: n === 1 ? ["cache-control", "private"] : [], delay: SECOND }),
    });
    await askAtOnce(fixture, 1);
    await askAtOnce(fixture, 1);
    await fixture.advance(MINUTE);
    await askAtOnce(fixture, 10);
    expect(fixture.upstream.requests).toHaveLength(3);
  });

  test("get the variant they asked for", async () => {
    const fixture = new CacheFixture({
      policy: { ...TTL, forwardRequestHeaders: "*" },
      script: ({ headers }) => ({ fields: ["vary", "Foo"], body: `foo ${String(headers["foo"])}`, delay: SECOND }),
    });
    const asked = ["1", "2", "1", "2", "3"];
    const asking = Promise.all(asked.map((foo) => fixture.get({ headers: { foo } })));
    for (let i = 0; i < 4; i += 1) await fixture.advance(SECOND);
    expect((await asking).map((answer) => answer.body?.toString())).toEqual(asked.map((foo) => `foo ${foo}`));
    expect(fixture.upstream.requests).toHaveLength(3);
  });

  test.for<[string, Scripted]>([
    ["a 403", { status: 403 }],
    ["a 401", { status: 401 }],
    ["a 200 that breaks the schema", { unstorable: "schema" }],
    ["a 200 without a lifetime", { fields: ["cache-control", "max-age=0"] }],
  ])("with all their fields forwarded share only what is stored: %s is one client's", async ([, answer]) => {
    const fixture = new CacheFixture({
      policy: { ...TTL, forwardRequestHeaders: "*" },
      script: ({ headers }) => ({ delay: SECOND, body: headers.cookie!, ...(headers.cookie === "bad" && answer) }),
    });
    const asking = Promise.all(["bad", "good"].map((cookie) => fixture.get({ headers: { cookie } })));
    await fixture.advance(SECOND);
    await fixture.advance(SECOND);
    expect((await asking).map(({ status, body }) => [status, body?.toString()])).toEqual([
      [answer.status ?? 200, "bad"],
      [200, "good"],
    ]);
  });

  test("with all their fields forwarded share a failure of the registry", async () => {
    const script: Script = () => ({ status: 503, delay: SECOND });
    const fixture = new CacheFixture({ policy: { ...TTL, forwardRequestHeaders: "*" }, script });
    await askAtOnce(fixture, 10);
    expect(fixture.upstream.requests).toHaveLength(1);
  });

  test("with Authorization share only what is stored, and not with those without", async () => {
    const run = async (cacheControl: string): Promise<number> => {
      const fixture = new CacheFixture({
        policy: { sharedAuthorization: true },
        script: () => ({ fields: ["cache-control", cacheControl], delay: SECOND }),
      });
      const asked = [{}, { authorization: "a" }, { authorization: "b" }, {}, { authorization: "a" }];
      const asking = Promise.all(asked.map((headers) => fixture.get({ headers })));
      await fixture.advance(SECOND);
      await fixture.advance(SECOND);
      await asking;
      return fixture.upstream.requests.length;
    };
    expect(await run("max-age=100, public")).toBe(2);
    // One for both without, and one each for the three with Authorization, unless the first was stored for all.
    expect(await run("no-store")).toBe(5);
  });
});

describe("somebody who waits", () => {
  test("waits no longer than their own deadline; the others go on", async () => {
    const fixture = new CacheFixture({ policy: TTL, script: () => ({ delay: 5 * SECOND }) });
    const patient = fixture.get();
    const hasty = fixture.get({ timeout: SECOND }).catch((error: unknown) => error);
    await fixture.advance(SECOND);
    expect(await hasty).toMatchObject({ status: 504, proxyError: "http_response_timeout" });
    await fixture.advance(4 * SECOND);
    expect((await patient).status).toBe(200);
    expect(fixture.upstream.aborted).toHaveLength(0);
  });

  test("may go away; the fetch ends when nobody is left", async () => {
    const fixture = new CacheFixture({ policy: TTL, script: () => ({ delay: 5 * SECOND }) });
    const clients = [new AbortController(), new AbortController()];
    const asking = Promise.allSettled(clients.map(({ signal }) => fixture.get({ signal })));
    await fixture.settle();
    clients[0]!.abort();
    await fixture.settle();
    expect(fixture.upstream.aborted).toHaveLength(0);
    clients[1]!.abort();
    await fixture.settle();
    expect(fixture.upstream.aborted).toHaveLength(1);
    for (const answer of await asking) expect(answer).toMatchObject({ status: "rejected", reason: { status: 499 } });
    // Nobody joins what is ending.
    const next = fixture.get();
    await fixture.advance(5 * SECOND);
    expect((await next).status).toBe(200);
    expect(fixture.upstream.requests).toHaveLength(2);
  });

  test("who is already gone starts nothing that lasts", async () => {
    const fixture = new CacheFixture({ policy: TTL, script: () => ({ delay: 5 * SECOND }) });
    await expect(fixture.get({ signal: AbortSignal.abort() })).rejects.toMatchObject({ status: 499 });
    expect(fixture.upstream.aborted).toHaveLength(1);
  });

  test("does not end a refresh by leaving it", async () => {
    const fixture = new CacheFixture({
      policy: { ...TTL, staleWhileRevalidate: 5 * SECOND },
      script: (_request, n) => (n === 1 ? {} : { delay: 5 * SECOND }),
    });
    await fixture.get();
    await fixture.advance(34 * SECOND);
    await fixture.get();
    await fixture.advance(2 * SECOND);
    await expect(Promise.all([fixture.get({ timeout: SECOND }), fixture.advance(SECOND)])).rejects.toMatchObject({
      status: 504,
    });
    await fixture.advance(2 * SECOND);
    expect((await fixture.get()).outcome).toBe("hit");
    expect(fixture.upstream.requests).toHaveLength(2);
  });
});

test("drain waits for what runs in the background, and not for ever", async () => {
  const fixture = new CacheFixture({
    policy: { ...TTL, staleWhileRevalidate: MINUTE },
    script: (_request, n) => (n === 1 ? {} : { delay: 8 * SECOND }),
  });
  await fixture.get();
  await fixture.advance(31 * SECOND);
  await fixture.get();
  let drained = false;
  const draining = fixture.cache.drain().then(() => (drained = true));
  await fixture.advance(4 * SECOND);
  expect(drained).toBe(false);
  await fixture.advance(SECOND);
  await draining;
  await fixture.settle();
  expect(fixture.upstream.aborted).toHaveLength(1);
});

test("at no time are there two fetches for one key, and everybody gets an answer of their time", async () => {
  const event = fc.oneof(
    fc.record({ ask: fc.integer({ min: 0, max: 2 }), leave: fc.boolean() }),
    fc.record({ advance: fc.integer({ min: 0, max: 3_000 }) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(event, { maxLength: 40 }), fc.boolean(), async (events, stores) => {
      const running = new Map<string, number>();
      const fixture = new CacheFixture({ policy: stores ? { ttl: 2 * SECOND, staleWhileRevalidate: SECOND } : {} });
      const resources = ["a", "b", "c"].map((id) =>
        fixture.resourceOf(id, {
          fetch: async (request) => {
            running.set(id, (running.get(id) ?? 0) + 1);
            expect(running.get(id)).toBe(1);
            try {
              return await fixture.upstream.fetch(request);
            } finally {
              running.set(id, running.get(id)! - 1);
            }
          },
        }),
      );
      fixture.upstream.script = () => ({ delay: SECOND });
      const asked: Promise<unknown>[] = [];
      for (const step of events) {
        if ("advance" in step) {
          await fixture.advance(step.advance, 500);
          continue;
        }
        const controller = new AbortController();
        const answer = fixture.get({ resource: resources[step.ask]!, signal: controller.signal });
        asked.push(
          answer.then(
            ({ status }) => expect(status).toBe(200),
            (error) => expect(error).toMatchObject({ status: 499 }),
          ),
        );
        if (step.leave) controller.abort();
      }
      await fixture.advance(5 * SECOND, 500);
      await Promise.all(asked);
    }),
    { numRuns: 60 },
  );
});
