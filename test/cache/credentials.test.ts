import { describe, expect, test } from "vitest";
import type { CachePolicy } from "../../src/cache/resource.ts";
import { localCoordinator } from "../../src/sharing/alone.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { CacheFixture, RemoteStore, type Script } from "../support/cache-fixture.ts";
import { MINUTE, SECOND } from "../support/cache-policy.ts";

const FORWARDING: Partial<CachePolicy> = {
  ttl: MINUTE,
  staleWhileRevalidate: MINUTE,
  staleIfError: 10 * MINUTE,
  sharedAuthorization: true,
};

const ALICE = { headers: { authorization: "Bearer alice" } };
const BOB = { headers: { authorization: "Bearer bob" } };
const ANONYMOUS = { headers: {} };

/** A registry that personalises, and says what `cacheControl` says. */
function personal(cacheControl?: string): Script {
  return ({ headers }) => ({
    body: `for ${headers.authorization ?? "all"}`,
    fields: cacheControl === undefined ? [] : ["cache-control", cacheControl],
    delay: SECOND,
  });
}

type Asked = typeof ALICE | typeof ANONYMOUS;

async function ask(fixture: CacheFixture, asked: Asked): Promise<string | undefined> {
  const answer = fixture.get(asked);
  await fixture.advance(2 * SECOND, SECOND);
  return (await answer).body?.toString();
}

describe("an answer fetched without credentials", () => {
  test.for([undefined, "max-age=60", "max-age=60, proxy-revalidate"])(
    "is not given to requests with credentials, nor theirs to others: %s",
    async (cacheControl) => {
      const fixture = new CacheFixture({ policy: FORWARDING, script: personal(cacheControl) });
      for (let round = 0; round < 2; round += 1) {
        expect(await ask(fixture, ANONYMOUS)).toBe("for all");
        expect(await ask(fixture, ALICE)).toBe("for Bearer alice");
        expect(await ask(fixture, BOB)).toBe("for Bearer bob");
      }
      // Anonymous requests share theirs all the same.
      expect(fixture.upstream.requests).toHaveLength(5);
    },
  );

  test.for(["public, max-age=60", "s-maxage=60", "must-revalidate, max-age=60"])(
    "is for all where the upstream says %s",
    async (cacheControl) => {
      for (const [first, then] of [
        [ANONYMOUS, ALICE],
        [ALICE, ANONYMOUS],
        [ALICE, BOB],
      ] as const) {
        const fixture = new CacheFixture({ policy: FORWARDING, script: personal(cacheControl) });
        expect(await ask(fixture, then === BOB ? ALICE : first)).toBe(await ask(fixture, then));
        expect(fixture.upstream.requests).toHaveLength(1);
      }
    },
  );

  test("is apart where the upstream's directives count for nothing", async () => {
    const policy = { ...FORWARDING, honorUpstream: false };
    const fixture = new CacheFixture({ policy, script: personal("public, max-age=60") });
    expect(await ask(fixture, ANONYMOUS)).toBe("for all");
    expect(await ask(fixture, ALICE)).toBe("for Bearer alice");
    expect(await ask(fixture, ANONYMOUS)).toBe("for all");
  });

  test("is for all where credentials stop at the gateway", async () => {
    const fixture = new CacheFixture({ policy: { ...FORWARDING, sharedAuthorization: false } });
    await fixture.get(ANONYMOUS);
    expect((await fixture.get(ALICE)).outcome).toBe("hit");
  });

  test("is not waited for together with an answer to credentials", async () => {
    const fixture = new CacheFixture({ policy: FORWARDING, script: personal() });
    const asking = [ANONYMOUS, ALICE, BOB, ANONYMOUS].map((asked) => fixture.get(asked));
    await fixture.advance(3 * SECOND, SECOND);
    const bodies = (await Promise.all(asking)).map(({ body }) => body?.toString());
    expect(bodies).toEqual(["for all", "for Bearer alice", "for Bearer bob", "for all"]);
  });

  test("does not stand in for one to credentials, stale or in a failure", async () => {
    const fixture = new CacheFixture({ policy: FORWARDING, script: personal() });
    await ask(fixture, ANONYMOUS);
    await fixture.advance(70 * SECOND);
    expect(await ask(fixture, ALICE)).toBe("for Bearer alice");
    fixture.upstream.script = () => ({ fails: 502 });
    await expect(fixture.get(ALICE)).rejects.toMatchObject({ status: 502 });
    await fixture.advance(2 * MINUTE);
    await expect(fixture.get(ALICE)).rejects.toMatchObject({ status: 502 });
    expect((await fixture.get(ANONYMOUS)).outcome).toBe("stale");
  });

  test("is not given to another process's requests with credentials", async () => {
    const clock = new ManualClock();
    const options = {
      policy: FORWARDING,
      clock,
      shared: new RemoteStore(),
      coordinator: localCoordinator(clock),
      script: personal(),
    };
    const [one, other] = [new CacheFixture(options), new CacheFixture(options)];
    expect(await ask(one, ANONYMOUS)).toBe("for all");
    expect(await ask(other, ALICE)).toBe("for Bearer alice");
    expect(await ask(other, ANONYMOUS)).toBe("for all");
    expect(other.upstream.requests).toHaveLength(1);
    const together = [one.get(ALICE), other.get(BOB), other.get(ANONYMOUS)];
    await one.advance(3 * SECOND, SECOND);
    const bodies = (await Promise.all(together)).map(({ body }) => body?.toString());
    expect(bodies).toEqual(["for Bearer alice", "for Bearer bob", "for all"]);
  });

  test.for([
    ["a page without a word fills nothing for requests with credentials", undefined, ANONYMOUS, ALICE, false],
    ["a page for credentials fills nothing", undefined, ALICE, ANONYMOUS, false],
    ["a page for all fills for all", "public, max-age=60", ALICE, ANONYMOUS, true],
    ["and for those with credentials", "public, max-age=60", ANONYMOUS, BOB, true],
  ] as const)("%s", async ([, cacheControl, asked, then, isFilled]) => {
    const fixture = new CacheFixture({ policy: FORWARDING, script: personal(cacheControl) });
    const instrument = fixture.resourceOf("instrument");
    const page = fixture.resourceOf("page", {
      stored: (_entry, fetched) => fixture.cache.fill(instrument, { entryOf: fetched, body: fetched.body }),
    });
    const answer = fixture.get({ ...asked, resource: page });
    await fixture.advance(SECOND);
    await answer;
    expect(fixture.cache.hit(instrument, { method: "GET", ...then }) !== undefined).toBe(isFilled);
  });

  test("lets anonymous requests wait together whatever requests with credentials get", async () => {
    const fixture = new CacheFixture({ policy: FORWARDING, script: personal() });
    await ask(fixture, ALICE);
    const asking = [1, 2, 3].map(() => fixture.get(ANONYMOUS));
    await fixture.advance(SECOND);
    await Promise.all(asking);
    expect(fixture.upstream.requests).toHaveLength(2);
  });
});

test("an answer for all that varies by Authorization is for the same credentials again, and shows them to nobody", async () => {
  for (const forwardRequestHeaders of [[], ["x-a"], "*"] as const) {
    const fixture = new CacheFixture({
      policy: { ...FORWARDING, forwardRequestHeaders },
      script: ({ headers }) => ({
        body: `for ${headers.authorization ?? "all"}`,
        fields: ["cache-control", "public, max-age=60", "vary", "Authorization"],
      }),
    });
    for (const [asked, body] of [
      [ALICE, "for Bearer alice"],
      [BOB, "for Bearer bob"],
      [ANONYMOUS, "for all"],
      [ALICE, "for Bearer alice"],
    ] as const) {
      expect((await fixture.get(asked)).body?.toString()).toBe(body);
    }
    expect(fixture.upstream.requests).toHaveLength(3);
    expect(JSON.stringify(fixture.memory.get(fixture.resource.key))).not.toContain("alice");
  }
});
