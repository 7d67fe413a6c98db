import { describe, expect, test } from "vitest";
import { AdminClaims, Upstreams } from "../../src/upstream/upstreams.ts";
import {
  acceptCall,
  ADMIN,
  inTime,
  openUpstreams,
  OTHER_ADMIN,
  startRegistry,
  upstreamConfigs,
} from "../support/upstream-registries.ts";

test("only enabled upstreams are there, by alias and by configured admin", () => {
  const { upstreams } = openUpstreams(
    upstreamConfigs(
      { name: "one", urls: ["http://127.0.0.1:1"], admin: ADMIN },
      { name: "unused", urls: ["http://127.0.0.1:1"], admin: OTHER_ADMIN, enabled: false },
      { name: "two", urls: ["http://127.0.0.1:1"] },
    ),
  );
  expect(upstreams.all.map(({ name }) => name)).toEqual(["one", "two"]);
  expect(upstreams.byAdmin(ADMIN)).toBe(upstreams.byName("one"));
  expect(upstreams.byAdmin(OTHER_ADMIN)).toBeUndefined();
  expect(upstreams.byName("unused")).toBeUndefined();
  expect(upstreams.unlearned).toBe(true);
});

test("upstreams start while everything is down, and say so", async () => {
  const { upstreams } = openUpstreams(upstreamConfigs({ name: "one", urls: ["http://127.0.0.1:1"] }));
  upstreams.start();
  await expect.poll(() => upstreams.status()[0]?.lastError).toMatch(/refused the connection/);
  expect(upstreams.status()).toMatchObject([{ name: "one", admin: undefined, state: "unproved", breaker: "closed" }]);
});

describe("a reload", () => {
  test("lets an alias stand for its new admin in no request that began before", () => {
    const config = (admin: string) => upstreamConfigs({ name: "prod", admin, urls: ["http://127.0.0.1:1"] });
    const { upstreams, environment } = openUpstreams(config(ADMIN));
    const next = new Upstreams(config(OTHER_ADMIN), environment, upstreams);
    expect(next.byAdmin(OTHER_ADMIN)).toBe(next.byName("prod"));
    expect(next.byAdmin(ADMIN)).toBeUndefined();
    expect(upstreams.byAdmin(OTHER_ADMIN)).toBeUndefined();
    expect(upstreams.byAdmin(ADMIN)).toBe(upstreams.byName("prod"));
  });

  async function openTwo() {
    const [first, second] = [await startRegistry(), await startRegistry({ admin: OTHER_ADMIN })];
    const keys = { one: { name: "one", urls: [first.url] }, two: { name: "two", urls: [second.url] } };
    const opened = openUpstreams(upstreamConfigs(keys.one, keys.two));
    await Promise.all(opened.upstreams.all.map((upstream) => upstream.learnAdmin(inTime(5_000))));
    return { first, second, keys, ...opened };
  }

  test("keeps what did not change as it is", async () => {
    const { keys, upstreams, environment } = await openTwo();
    const next = new Upstreams(upstreamConfigs(keys.two, keys.one), environment, upstreams);
    expect(next.byName("one")).toBe(upstreams.byName("one"));
    expect(next.byAdmin(OTHER_ADMIN)).toBe(upstreams.byName("two"));
    await upstreams.closeExcept(next);
    expect((await next.byName("one")!.call(acceptCall())).status).toBe(200);
    await next.close();
  });

  test("lets calls of a removed upstream end and closes it then", async () => {
    const { first, keys, upstreams, environment } = await openTwo();
    const old = upstreams.byName("one")!;
    first.slow(100);
    const running = old.call(acceptCall());
    const next = new Upstreams(upstreamConfigs(keys.two), environment, upstreams);
    const closed = upstreams.closeExcept(next);
    expect((await running).status).toBe(200);
    await closed;
    await expect.poll(() => first.connections.open).toBe(0);
    await expect(old.call(acceptCall())).rejects.toMatchObject({ status: 503 });
    expect(next.byAdmin(ADMIN)).toBeUndefined();
    await next.close();
  });

  test("does not ask nodes again for what they proved, when only other keys changed", async () => {
    const { first, keys, upstreams, environment } = await openTwo();
    const configs = upstreamConfigs({ ...keys.one, timeout: "3s" }, keys.two);
    const next = new Upstreams(configs, environment, upstreams);
    const changed = next.byName("one")!;
    expect(changed).not.toBe(upstreams.byName("one"));
    expect(changed.admin).toBe(ADMIN);
    expect(next.byAdmin(ADMIN)).toBe(changed);
    await changed.call(acceptCall());
    expect(first.calls.count("info")).toBe(1);
    await upstreams.closeExcept(next);
    await next.close();
  });

  test("proves a node that came anew, and an admin that changed", async () => {
    const { first, second, keys, upstreams, environment } = await openTwo();
    const configs = upstreamConfigs({ ...keys.one, urls: [second.url] });
    const next = new Upstreams(configs, environment, upstreams);
    expect(next.byName("one")!.admin).toBeUndefined();
    expect(await next.byName("one")!.learnAdmin(inTime(5_000))).toBe(OTHER_ADMIN);
    expect(first.calls.count("info")).toBe(1);
    await upstreams.closeExcept(next);
    await next.close();
  });

  test("frees an admin for the upstream that came second", async () => {
    const [first, second] = [await startRegistry(), await startRegistry()];
    const [one, two] = [
      { name: "one", urls: [first.url] },
      { name: "two", urls: [second.url] },
    ];
    const { upstreams, environment } = openUpstreams(upstreamConfigs(one, two));
    await upstreams.byName("one")!.learnAdmin(inTime(5_000));
    await upstreams
      .byName("two")!
      .learnAdmin(inTime(5_000))
      .catch(() => undefined);
    expect(upstreams.byName("two")!.state).toBe("disabled");
    const next = new Upstreams(upstreamConfigs(two), environment, upstreams);
    expect(next.byName("two")!.state).toBe("up");
    expect(next.byAdmin(ADMIN)?.name).toBe("two");
    await upstreams.closeExcept(next);
    await next.close();
  });

  test("lets an alias move to another registry without mixing the two up", async () => {
    const { first, second, upstreams, environment } = await openTwo();
    const swapped = upstreamConfigs({ name: "one", urls: [second.url] }, { name: "two", urls: [first.url] });
    const next = new Upstreams(swapped, environment, upstreams);
    await Promise.all(next.all.map((upstream) => upstream.learnAdmin(inTime(5_000))));
    expect(next.byAdmin(ADMIN)?.name).toBe("two");
    expect(next.byAdmin(OTHER_ADMIN)?.name).toBe("one");
    await upstreams.closeExcept(next);
    await next.close();
  });
});

test("an upstream that was removed claims nothing any more", () => {
  const claims = new AdminClaims();
  const contested: string[] = [];
  const onContest = (admin: string) => contested.push(admin);
  claims.reset({ names: ["one"], kept: new Set(), configured: [], found: [], onContest });
  expect(claims.claim("a", "one")).toBeUndefined();
  expect(claims.claim("a", "gone")).toMatch(/"one" and "gone"/);
  expect(contested).toEqual([]);
  expect(claims.claim("b", "gone")).toBeUndefined();
  expect(claims.holder("b")).toBeUndefined();
});
