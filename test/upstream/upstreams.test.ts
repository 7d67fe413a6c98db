import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { TestClock } from "../support/clock.ts";
import { type Registry, startRegistry, STRANGER } from "../support/registry.ts";
import { until } from "../support/until.ts";
import { useUpstreams } from "../support/upstream.ts";

/** The upstream's keys without its admin, which has to be learned. */
function unpinned(registry: Registry, keys: object = {}): object {
  const { admin: _admin, ...others } = registry.upstream(keys);
  return others;
}

const wait = (gateway: { clock: { now(): number } }) => ({ deadline: gateway.clock.now() + 5_000 });

describe("which registry an upstream is", () => {
  test("a configured admin is known at once, another one is learned from the info", async () => {
    const [one, two] = [await startRegistry("amulet"), await startRegistry("bonds")];
    const gateway = useUpstreams([one, unpinned(two)]);
    expect(gateway.upstreams.byAdmin(one.admin)?.name).toBe("amulet");
    expect(gateway.upstreams.byAdmin(two.admin)).toBeUndefined();
    expect(gateway.upstreams.hasUnlearned).toBe(true);
    expect(await gateway.upstream("bonds").learnAdmin(wait(gateway))).toBe(two.admin);
    expect(gateway.upstreams.byAdmin(two.admin)?.name).toBe("bonds");
    expect(gateway.upstreams.hasUnlearned).toBe(false);
    expect(gateway.upstreams.sole).toBeUndefined();
  });

  test.each([
    { name: "is down", script: undefined, code: /upstream_unreachable|upstream_down/ },
    { name: "names nobody", script: { body: {} }, code: /upstream_invalid|upstream_down/ },
    { name: "answers 429", script: { status: 429, body: "x" }, code: /upstream_paused/ },
  ])("an admin cannot be learned of a registry that $name", async ({ script, code }) => {
    const registry = await startRegistry();
    if (script === undefined) await registry.close();
    else registry.on("info", script);
    const gateway = useUpstreams([unpinned(registry)]);
    const error = await gateway
      .upstream()
      .learnAdmin(wait(gateway))
      .catch((error: unknown) => error);
    expect((error as { code: string }).code).toMatch(code);
  });

  test("a registry whose first info met a 429 is learned when the pause is over", async () => {
    const clock = TestClock.running();
    const registry = await startRegistry();
    registry.on("info", { status: 429, fields: ["retry-after", "7"], body: "x" });
    const gateway = useUpstreams([unpinned(registry)], { clock });
    await until(() => gateway.count("info http_429") === 1);
    registry.on("info", undefined);
    clock.advance("7s");
    await until(() => !gateway.upstreams.hasUnlearned);
  });

  test("nodes that name different admins, with none configured, disable the upstream", async () => {
    const registry = await startRegistry("amulet", { nodes: 2 });
    registry.on("info", { body: { adminId: STRANGER } }, 1);
    const gateway = useUpstreams([unpinned(registry)]);
    await until(() => gateway.upstream().status().state === "disabled");
    const { text, error } = await gateway.call("transfer_factory");
    expect(text).toBe("503 upstream_disabled");
    expect(error?.message).toMatch(
      /its nodes name different admins, .+ and .+, and which is right cannot be known until `admin` says so/,
    );
    expect(gateway.upstream().status().cause).toMatch(/its nodes name different admins/);
    await expect(gateway.upstream().learnAdmin(wait(gateway))).rejects.toMatchObject({ code: "upstream_disabled" });
    expect(registry.count()).toBe(0);
    gateway.reload([registry.upstream()]);
    expect((await gateway.call("transfer_factory")).text).toBe("200");
  });

  test("two upstreams of one admin are both disabled until one is pinned", async () => {
    const registry = await startRegistry("amulet", { nodes: 2 });
    const [one, two] = registry.urls.map((url) => [url]);
    const gateway = useUpstreams([unpinned(registry, { urls: one }), unpinned(registry, { name: "twin", urls: two })]);
    await until(() => !gateway.upstreams.hasUnlearned);
    for (const name of ["amulet", "twin"])
      expect((await gateway.call("transfer_factory", { name })).text).toBe("503 upstream_disabled");
    expect(gateway.upstream().whyDisabled()?.message).toMatch(/it and the registry "twin" name the same admin/);
    gateway.reload([registry.upstream({ urls: one }), unpinned(registry, { name: "twin", urls: two })]);
    expect((await gateway.call("transfer_factory")).text).toBe("200");
    expect((await gateway.call("transfer_factory", { name: "twin" })).text).toBe("503 upstream_disabled");
    expect(gateway.upstreams.byAdmin(registry.admin)?.name).toBe("amulet");
  });
});

describe("a reload", () => {
  test.each([
    { name: "auth", keys: { auth: { bearer: "another-token" } } },
    { name: "mode", keys: { mode: "cache-only" } },
    { name: "timeout and validation", keys: { timeout: "3s", validation: "strict", proofEvery: "10m" } },
  ])("that changes $name keeps proofs, connections and limits", async ({ keys }) => {
    const registry = await startRegistry();
    const rateLimit = { requests: "5/1m" };
    const gateway = useUpstreams([registry.upstream({ rateLimit })]);
    for (let i = 0; i < 3; i += 1) await gateway.call("transfer_factory");
    gateway.reload([registry.upstream({ rateLimit, ...keys })]);
    gateway.reload([registry.upstream({ rateLimit, ...keys, mode: "normal" })]);
    expect((await gateway.call("transfer_accept")).text).toBe("200");
    expect((await gateway.call("transfer_accept")).text).toBe("429 rate_limited");
    expect([registry.count("info"), registry.nodes[0]!.accepted]).toEqual([1, 1]);
  });

  test("that adds a URL asks the new node alone, and one that takes a URL out closes its connections", async () => {
    const registry = await startRegistry("amulet", { nodes: 2 });
    const [first, second] = registry.urls;
    const gateway = useUpstreams([registry.upstream({ urls: [first] })]);
    await gateway.call("transfer_factory");
    gateway.reload([registry]);
    await until(() => gateway.count("info success") === 2);
    expect(registry.of("info").map(({ node }) => node)).toEqual([0, 1]);
    gateway.reload([registry.upstream({ urls: [second] })]);
    registry.calls.length = 0;
    for (let i = 0; i < 5; i += 1) expect((await gateway.call("transfer_factory")).text).toBe("200");
    expect(registry.of().every(({ node }) => node === 1)).toBe(true);
  });

  test.each([
    [
      "takes the URL of the wrong registry out",
      (wrong: string, right: string) => [{ urls: [wrong, right] }, { urls: [right] }],
    ],
    [
      "takes a wrong admin out",
      (_wrong: string, right: string) => [{ urls: [right], admin: STRANGER }, { urls: [right] }],
    ],
  ])("that %s has the admin learned anew", async (_what, configure) => {
    const [bad, registry] = [await startRegistry("bad"), await startRegistry()];
    const release = registry.hold("info");
    const [before, after] = configure(bad.urls[0]!, registry.urls[0]!).map((keys) => ({ name: "amulet", ...keys }));
    const gateway = useUpstreams([before!]);
    await until(() => registry.count("info") === 1 && gateway.upstream().admin !== undefined);
    registry.on("info", undefined);
    release();
    await until(() => gateway.upstream().status().nodes.at(-1)!.state === "wrong");
    gateway.reload([after!]);
    await until(() => gateway.upstream().status().state === "up");
    expect(gateway.upstream().admin).toBe(registry.admin);
  });

  test("leaves nothing of the upstreams before it in memory", async () => {
    const registry = await startRegistry();
    const gateway = useUpstreams([unpinned(registry)]);
    await gateway.call("transfer_factory");
    const first = [new WeakRef(gateway.upstreams), new WeakRef(gateway.upstream())];
    for (const timeout of ["3s", "4s"]) gateway.reload([unpinned(registry, { timeout })]);
    await gateway.call("transfer_factory");
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    await until(() => (collect(), first.every((each) => each.deref() === undefined)), 5_000);
  });

  test("that pins another admin forgets the proofs", async () => {
    const registry = await startRegistry();
    const gateway = useUpstreams([registry]);
    await gateway.call("transfer_factory");
    gateway.reload([registry.upstream({ admin: STRANGER })]);
    expect((await gateway.call("transfer_factory")).text).toBe("502 wrong_admin");
    expect(registry.count()).toBe(1);
  });
});

test("in cache-only mode nothing is asked, not even the info", async () => {
  const registry = await startRegistry();
  const gateway = useUpstreams([registry.upstream({ mode: "cache-only" })]);
  expect((await gateway.call("instruments")).text).toBe("503 cache_only");
  expect(await gateway.upstream().learnAdmin(wait(gateway))).toBe(registry.admin);
  await new Promise((resolve) => setTimeout(resolve, 30));
  expect(registry.nodes[0]!.accepted).toBe(0);
  expect(gateway.upstream().status()).toMatchObject({
    mode: "cache-only",
    cause: "cache-only: nothing is asked of it",
  });
});
