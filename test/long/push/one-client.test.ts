import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { SampleRegistry, ScriptedAnswer } from "../../support/sample-registry.ts";
import { shareOf } from "../../support/thorough.ts";
import { acceptCall, listCall, openUpstream, startRegistry, streamedCall } from "../../support/upstream-registries.ts";

/** What a registry may answer to a request that a client chose so that it fails. */
const FAILURES: readonly (readonly [string, ScriptedAnswer])[] = [
  ["a redirect", { status: 302, headers: ["location", "/login"] }],
  ["502", { status: 502, body: "{}" }],
  ["503", { status: 503, body: '{"error":"not now"}' }],
  ["504", { status: 504, body: "{}" }],
  ["a reset", { raw: "" }],
  ["half an answer", { raw: 'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"a' }],
  ["something that is not JSON", { status: 200, body: "<html>hello</html>" }],
];

/** Whatever a client asks for under this id or token fails everywhere. */
const BAD = "bad";

const badId = (n: number | "same" = "same") =>
  acceptCall({ path: `/registry/transfer-instruction/v1/${BAD}${n}/choice-contexts/accept` });
const badPage = (n: number | "same" = "same") =>
  listCall({ path: `/registry/metadata/v1/instruments?pageToken=${BAD}${n}` });
const badPath = (n: number | "same" = "same") => streamedCall({ path: `/registry/draft/v9/${BAD}${n}` });

async function openWell(count: number, answer: ScriptedAnswer, keys: Record<string, unknown> = {}) {
  const registries = await Promise.all(Array.from({ length: count }, () => startRegistry()));
  for (const registry of registries) registry.script(({ url }) => (url.includes(BAD) ? answer : undefined));
  const opened = openUpstream(registries, keys);
  opened.upstreams.start();
  await expect.poll(() => opened.upstream.state).toBe("up");
  for (const { calls } of registries) calls.clear();
  const { upstream } = opened;
  const tryCall = (call: ReturnType<typeof badId>) => upstream.call(call).catch(() => undefined);
  const tryStream = async (call: ReturnType<typeof badPath>) => {
    try {
      await text((await upstream.stream(call)).body);
    } catch {
      // Whatever comes of it.
    }
  };
  return { registries, ...opened, tryCall, tryStream };
}

/** So many at a time, `rounds` times. */
async function repeat(rounds: number, make: (n: number) => Promise<unknown>): Promise<void> {
  for (let i = 0; i < rounds; i++) await Promise.all(Array.from({ length: 6 }, (_, k) => make(i * 6 + k)));
}

/** Whole seconds since `begun`: a node that is in doubt is asked for its info once in each, at most. */
function secondsSince(begun: number): number {
  return Math.floor((performance.now() - begun) / 1_000);
}

function infosOf(registries: readonly SampleRegistry[]): number {
  return registries.reduce((sum, { calls }) => sum + calls.count("info"), 0);
}

// Twenty such requests in ten seconds shut the whole registry for everybody, and six a second kept it shut.
describe.each(FAILURES.map(([what, answer], at) => ({ what, answer, at })))(
  "a client whose requests a well registry answers with $what",
  ({ answer, at }) => {
    test.each(shareOf([1, 3], at % 2, 2))("takes nothing from others, before %i node(s)", async (count) => {
      const { registries, upstream, observer, tryCall, tryStream } = await openWell(count, answer);
      const begun = performance.now();
      await repeat(5, () => tryCall(badId()));
      await repeat(5, () => tryCall(badPage()));
      await repeat(5, () => tryStream(badPath()));
      // Others are served as ever, and the registry was bothered with few questions.
      expect((await upstream.call(acceptCall())).status).toBe(200);
      expect(await text((await upstream.stream(streamedCall())).body)).toBeTruthy();
      expect(upstream.status()).toMatchObject({ state: "up", breaker: "closed", passThroughBreaker: "closed" });
      expect(observer.events.filter((event) => /ejected|breaker/.test(event))).toEqual([]);
      expect(infosOf(registries)).toBeLessThanOrEqual((3 + secondsSince(begun)) * count);
    });

    test("takes nothing from others with ever other ids, pages and paths", async () => {
      const { registries, upstream, observer, tryCall, tryStream } = await openWell(3, answer);
      const begun = performance.now();
      await repeat(6, (n) => tryCall(badId(n)));
      await repeat(6, (n) => tryCall(badPage(n)));
      await repeat(6, (n) => tryStream(badPath(n)));
      expect((await upstream.call(acceptCall())).status).toBe(200);
      expect((await upstream.stream(streamedCall())).status).toBe(200);
      expect(observer.events.filter((event) => /ejected|breaker/.test(event))).toEqual([]);
      expect(infosOf(registries)).toBeLessThanOrEqual(3 * (4 + secondsSince(begun)));
    });
  },
);

test("a client whose requests fail everywhere does not use up the retries of others", async () => {
  const { registries, upstream, observer, tryCall } = await openWell(3, { status: 503, body: "{}" });
  await repeat(20, () => tryCall(badId()));
  // The first ones, which came at once.
  expect(observer.count("retry-budget-exhausted")).toBeLessThanOrEqual(6);
  expect(upstream.status().retriesLeft).toBeGreaterThan(10);
  // Another's call that one node fails is answered by the next.
  await registries[0]!.faults.set({ kind: "status", status: 503 });
  for (let i = 0; i < 6; i++) expect((await upstream.call(acceptCall())).status).toBe(200);
});

test("a client whose requests take long everywhere has no node taken out", async () => {
  const slow: ScriptedAnswer = { status: 200, body: "{}", delay: 1_500 };
  const { registries, upstream, observer, tryCall } = await openWell(2, slow);
  for (let i = 0; i < 60; i++) await upstream.call(acceptCall());
  const slowOnes = Promise.all(Array.from({ length: 12 }, (_, n) => tryCall(badId(n))));
  // Others are answered meanwhile, by both nodes.
  const end = performance.now() + 1_400;
  while (performance.now() < end) {
    expect((await upstream.call(acceptCall())).status).toBe(200);
    await sleep(5);
  }
  await slowOnes;
  expect(observer.count("hedge-started") + observer.count("retry")).toBeGreaterThan(2);
  expect(observer.events.filter((event) => /ejected/.test(event))).toEqual([]);
  for (const { calls } of registries) expect(calls.total).toBeGreaterThan(10);
});

test("a node that fails what others answer is taken out, although it tells its info", async () => {
  const { registries, upstream } = await openWell(3, { status: 503, body: "{}" });
  registries[1]!.script(({ operation }) => (operation === "info" ? undefined : { status: 503, body: "{}" }));
  for (let i = 0; i < 60 && upstream.status().nodes[1]!.state === "up"; i++) {
    expect((await upstream.call(acceptCall())).status).toBe(200);
  }
  expect(upstream.status().nodes.map(({ state }) => state)).toEqual(["up", "ejected", "up"]);
});

describe("a registry that is down", () => {
  test.each<[string, (registry: SampleRegistry) => Promise<void>]>([
    ["refuses connections", (registry) => registry.kill()],
    ["answers 503", (registry) => registry.faults.set({ kind: "status", status: 503 })],
  ])("and %s is left alone soon, however well it was before", async (_what, fail) => {
    const { registries, upstream, tryCall } = await openWell(1, { raw: "" }, { retry: { attempts: 1 } });
    await repeat(50, () => upstream.call(acceptCall()));
    await fail(registries[0]!);
    let failed = 0;
    const isOpen = () => upstream.status().breaker !== "closed";
    const begun = performance.now();
    while (!isOpen() && performance.now() - begun < 20_000) {
      await tryCall(acceptCall());
      failed += 1;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(isOpen()).toBe(true);
    // Ten tell, and some more while the info is asked.
    expect(failed).toBeLessThan(250);
    await registries[0]!.faults.clear();
    await registries[0]!.revive();
    await expect.poll(() => upstream.status().breaker).toBe("closed");
    expect((await upstream.call(acceptCall())).status).toBe(200);
  });

  test("is asked for its info within rateLimit", async () => {
    const rateLimit = { requests: 30, per: "1m", maxWait: "0s" };
    const { registries, upstream, tryCall } = await openWell(1, { raw: "" }, { rateLimit });
    await registries[0]!.faults.set({ kind: "status", status: 503 });
    await repeat(20, () => tryCall(acceptCall()));
    expect(upstream.status().breaker).not.toBe("closed");
    const { total } = registries[0]!.calls;
    expect(total).toBeLessThanOrEqual(30);
  });
});
