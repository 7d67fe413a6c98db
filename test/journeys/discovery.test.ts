import { existsSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import {
  decide,
  discoveryOf,
  listOf,
  partyOf,
  registryOf,
  untilReadAgain,
  untilState,
  usePublishers,
} from "../support/discovery.ts";
import { parseExposition } from "../support/exposition.ts";
import { testConfig } from "../support/gateway.ts";
import { useGateways } from "../support/gateways.ts";
import { measureLoopTime } from "../support/loop-time.ts";
import { startSlowProxy } from "../support/redis-proxy.ts";
import { type RedisServer, startRedis } from "../support/redis.ts";
import { until } from "../support/until.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";
import { thisReplica } from "../../src/version.ts";

const startRegistry = useSampleRegistries();
const startPublisher = usePublishers();
const startGateway = useGateways();
const folder = useTemporaryFolder();

const ONE = partyOf("one");
const TWO = partyOf("two");

const running: Pick<RedisServer, "stop">[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.stop()));
});

function discoveryBy(url: string, keys: Record<string, unknown> = {}) {
  return {
    every: "1s",
    sources: [{ url, network: "MainNet" }],
    pinFile: join(folder(), "pins.json"),
    allowPrivate: true,
    ...keys,
  };
}

const info = (base: string) => fetch(`${base}/registry/metadata/v1/info`);

async function adminAt(base: string): Promise<unknown> {
  const response = await info(base);
  return response.status === 200 ? ((await response.json()) as { adminId: string }).adminId : response.status;
}

test("a gateway without a written registry serves those that it finds, each by its admin and its alias", async () => {
  const [one, two] = await Promise.all([startRegistry({ admin: ONE }), startRegistry({ admin: TWO })]);
  const list = await startPublisher(listOf({ [ONE]: one.url, [TWO]: two.url }));
  const gateway = await startGateway({ discovery: discoveryBy(list.url) });
  await until(async () => (await adminAt(gateway.registrar("two"))) === TWO);
  await until(async () => (await adminAt(gateway.registrar(ONE))) === ONE);
  expect(await adminAt(gateway.registrar(partyOf("three")))).toBe(404);
  expect((await discoveryOf(gateway)).sources).toEqual([
    { name: "127.0.0.1", lastRun: expect.any(String), lastError: null, found: 2 },
  ]);
  const ready = (await (await fetch(`${gateway.operations}/readyz`)).json()) as { ready: boolean; upstreams: object[] };
  expect([ready.ready, ready.upstreams.length]).toEqual([true, 2]);
});

test("an admin that may yet be found is 503 until the sources were read", async () => {
  const registry = await startRegistry({ admin: ONE });
  const list = await startPublisher("");
  list.publish(() => undefined);
  const gateway = await startGateway({ discovery: discoveryBy(list.url) });
  const early = await info(gateway.registrar(ONE));
  expect([early.status, early.headers.get("retry-after")]).toEqual([503, "5"]);
  await gateway.stop();
  list.publish(listOf({ [ONE]: registry.url }));
  const next = await startGateway({ discovery: discoveryBy(list.url) });
  await until(async () => (await adminAt(next.registrar(ONE))) === ONE);
  expect(await adminAt(next.registrar(TWO))).toBe(404);
});

test("a registry that moves goes on being asked where it was, until an operator approves, and the cache is kept", async () => {
  const [registry, moved] = await Promise.all([startRegistry({ admin: ONE }), startRegistry({ admin: ONE })]);
  const list = await startPublisher(listOf({ [ONE]: registry.url }));
  const gateway = await startGateway({ discovery: discoveryBy(list.url) });
  await until(async () => (await adminAt(gateway.registrar(ONE))) === ONE);
  list.publish(listOf({ [ONE]: moved.url }));
  await untilState(gateway, ONE, "waiting");
  expect(await registryOf(gateway, ONE)).toEqual({
    admin: ONE,
    name: "one",
    urls: [registry.url],
    state: "waiting",
    proposed: { urls: [moved.url], since: expect.any(String), source: "127.0.0.1" },
    source: "127.0.0.1",
    since: expect.any(String),
  });

  await fetch(`${gateway.registrar(ONE)}/registry/metadata/v1/instruments`);
  expect(moved.calls.count("instruments")).toBe(0);
  expect(await decide(gateway, ONE, true)).toEqual({
    status: 200,
    body: {
      registry: expect.objectContaining({ urls: [moved.url], state: "pinned" }),
      scope: "replica",
      replicas: { took: [expect.objectContaining({ name: thisReplica.name })], missing: [], of: 1 },
    },
  });
  const hit = await info(gateway.registrar(ONE));
  expect(hit.headers.get("cache-status")).toContain("hit");
  await fetch(`${gateway.registrar(ONE)}/registry/metadata/v1/instruments?pageSize=7`);
  expect(moved.calls.count("instruments")).toBe(1);
  const { actions } = (await (await fetch(`${gateway.operations}/audit`)).json()) as { actions: object[] };
  expect(actions[0]).toMatchObject({
    did: "discovery",
    what: { admin: ONE, upstream: "one", approve: true },
    scope: "replica",
  });
  const line = gateway.lines.find(({ msg }) => msg === "operator action");
  expect(line).toMatchObject({ did: "discovery", upstream: "one", approve: true });
  expect(JSON.stringify(line)).not.toContain(ONE);
});

test("a call that runs while a registry is found, and its own is taken away, ends as it would have", async () => {
  const [one, two] = await Promise.all([startRegistry({ admin: ONE }), startRegistry({ admin: TWO })]);
  const list = await startPublisher(listOf({ [ONE]: one.url }));
  const gateway = await startGateway({ discovery: discoveryBy(list.url) });
  const post = () =>
    fetch(`${gateway.registrar(ONE)}/registry/transfer-instruction/v1/00aa/choice-contexts/accept`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: "{}",
    });
  await until(async () => (await post()).status === 200);
  const [arrived, held] = [Promise.withResolvers<void>(), Promise.withResolvers<undefined>()];
  one.script(({ operation }) => {
    if (operation !== "transfer_accept") return undefined;
    arrived.resolve();
    return held.promise;
  });
  const running = post();
  await arrived.promise;
  list.publish(listOf({ [ONE]: one.url, [TWO]: two.url }));
  await until(async () => (await adminAt(gateway.registrar(TWO))) === TWO);
  list.publish(listOf({ [TWO]: two.url }));
  await untilState(gateway, ONE, "gone");
  expect(await decide(gateway, ONE, true)).toMatchObject({ status: 200, body: { registry: null, scope: "replica" } });
  await until(async () => (await post()).status === 404);
  held.resolve(undefined);
  expect((await running).status).toBe(200);
  expect(await adminAt(gateway.registrar(TWO))).toBe(TWO);
});

test("decisions that make no sense, or that may not be taken here, are refused", async () => {
  const registry = await startRegistry({ admin: ONE });
  const list = await startPublisher(listOf({ [ONE]: registry.url }));
  const gateway = await startGateway({ discovery: discoveryBy(list.url) });
  await untilState(gateway, ONE, "pinned");
  expect((await decide(gateway, TWO, true)).status).toBe(404);
  expect(await decide(gateway, ONE, true)).toMatchObject({
    status: 409,
    body: { error: expect.stringContaining("nothing about the registry") },
  });
  for (const body of [
    '{"admin":"a"}',
    '{"admin":7,"approve":true}',
    `{"admin":"a","approve":true,"x":1}`,
    `{"admin":"a","approve":true,"urls":"b"}`,
    "[]",
  ]) {
    const response = await fetch(`${gateway.operations}/discovery`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    expect([response.status, body]).toEqual([400, body]);
  }
  const readonly = await startGateway({
    operations: { host: "127.0.0.1", port: 0, readonly: true },
    discovery: discoveryBy(list.url, { pinFile: join(folder(), "other.json") }),
  });
  expect((await decide(readonly, ONE, true)).status).toBe(403);
  const none = await startGateway({ upstreams: [{ name: "one", urls: [registry.url] }] });
  expect(await discoveryOf(none)).toEqual({ sources: [], registries: [], pinFileError: null });
  expect((await decide(none, ONE, true)).status).toBe(404);
});

test("a written upstream wins over one that is found, whether it names its admin or has it learned", async () => {
  const [mine, found] = await Promise.all([startRegistry({ admin: ONE }), startRegistry({ admin: ONE })]);
  const list = await startPublisher(listOf({ [ONE]: found.url }));
  const named = await startGateway({
    upstreams: [{ name: "one", admin: ONE, urls: [mine.url] }],
    discovery: discoveryBy(list.url),
  });
  await untilReadAgain(list);
  expect((await discoveryOf(named)).registries).toEqual([]);
  await named.stop();
  const learned = await startGateway({
    upstreams: [{ name: "one", urls: [mine.url] }],
    discovery: discoveryBy(list.url),
  });
  await untilState(learned, ONE, "pinned");
  await untilReadAgain(list);

  for (let size = 1; size < 6; size += 1) {
    expect((await fetch(`${learned.registrar(ONE)}/registry/metadata/v1/instruments?pageSize=${size}`)).status).toBe(
      200,
    );
  }
  expect(found.calls.count("instruments")).toBe(0);
  const { upstreams } = (await (await fetch(`${learned.operations}/status`)).json()) as {
    upstreams: { name: string; state: string; lastError: string | null }[];
  };
  expect(upstreams).toEqual([
    expect.objectContaining({ name: "one", state: "up" }),
    expect.objectContaining({
      name: "one-2",
      state: "disabled",
      lastError: expect.stringContaining('upstream "one" of the configuration'),
    }),
  ]);
  // Both are one registry, which the plain base URL stands for.
  expect(await adminAt(learned.url)).toBe(ONE);
});

test("a URL that waits for approval waits on after a reload, though no pin could be written", async () => {
  const [first, second] = await Promise.all([startRegistry({ admin: ONE }), startRegistry({ admin: ONE })]);
  const list = await startPublisher(listOf({ [ONE]: first.url }));
  symlinkSync(join(folder(), "nowhere"), join(folder(), "volume"));
  const keys = (ttl: string) => ({
    cache: { ttl: { info: ttl } },
    discovery: discoveryBy(list.url, { pinFile: join(folder(), "volume", "pins.json") }),
  });
  const gateway = await startGateway(keys("1m"));
  await untilState(gateway, ONE, "pinned");
  list.publish(listOf({ [ONE]: second.url }));
  await untilState(gateway, ONE, "waiting");
  await gateway.gateway.reload({ ...testConfig(keys("2m")), operations: gateway.gateway.config.operations });
  await untilReadAgain(list);
  await untilState(gateway, ONE, "waiting");
  expect(await registryOf(gateway, ONE)).toMatchObject({ urls: [first.url] });
  await fetch(`${gateway.registrar(ONE)}/registry/metadata/v1/instruments?pageSize=7`);
  expect([first.calls.count("instruments"), second.calls.count("instruments")]).toEqual([1, 0]);
});

test("another pin file says by itself what was found first, and is left as it is", async () => {
  const [main, other] = await Promise.all([startRegistry({ admin: ONE }), startRegistry({ admin: ONE })]);
  const list = await startPublisher(listOf({ [ONE]: main.url }));
  const files = ["main.json", "test.json"].map((name) => join(folder(), name));
  const keys = (pinFile: string) => ({ discovery: discoveryBy(list.url, { pinFile, approve: "none" }) });
  const gateway = await startGateway(keys(files[0]!));
  await untilState(gateway, ONE, "waiting");
  expect((await decide(gateway, ONE, true)).status).toBe(200);
  const text = readFileSync(files[0]!, "utf8").replaceAll(main.url, other.url);
  writeFileSync(files[1]!, text);
  await gateway.gateway.reload({ ...testConfig(keys(files[1]!)), operations: gateway.gateway.config.operations });
  await untilReadAgain(list);
  expect(await registryOf(gateway, ONE)).toMatchObject({ urls: [other.url] });
  expect(readFileSync(files[1]!, "utf8")).toBe(text);
});

test("a pin file that is not there yet takes what was pinned, and forgets nothing that waits", async () => {
  const [first, second] = await Promise.all([startRegistry({ admin: ONE }), startRegistry({ admin: ONE })]);
  const list = await startPublisher(listOf({ [ONE]: first.url }));
  symlinkSync(join(folder(), "nowhere"), join(folder(), "volume"));
  const keys = (pinFile: string) => ({ discovery: discoveryBy(list.url, { pinFile: join(folder(), pinFile) }) });
  const gateway = await startGateway(keys("volume/pins.json"));
  await untilState(gateway, ONE, "pinned");
  list.publish(listOf({ [ONE]: second.url }));
  await untilState(gateway, ONE, "waiting");
  await gateway.gateway.reload({ ...testConfig(keys("new.json")), operations: gateway.gateway.config.operations });
  await untilReadAgain(list);
  expect(await registryOf(gateway, ONE)).toMatchObject({ state: "waiting", urls: [first.url] });
  expect(readFileSync(join(folder(), "new.json"), "utf8")).toContain(first.url);
});

// The first of several that was proved got what was meant for the others, and answered with a context of its own.
test("the first registry that is found gets no request that names none, until the others are found", async () => {
  const [one, two] = await Promise.all([startRegistry({ admin: ONE }), startRegistry({ admin: TWO })]);
  const { promise: released, resolve: release } = Promise.withResolvers<undefined>();
  two.script(() => released);
  const list = await startPublisher(listOf({ [ONE]: one.url, [TWO]: two.url }));
  const gateway = await startGateway({ discovery: discoveryBy(list.url) });
  const cancel = async () => {
    const path = "/registry/allocations/v1/00aabbcc/choice-contexts/cancel";
    const answer = await fetch(`${gateway.url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: "{}",
    });
    return { status: answer.status, ...((await answer.json()) as { code?: string }) };
  };
  await untilState(gateway, ONE, "pinned");
  expect(await adminAt(gateway.registrar(ONE))).toBe(ONE);
  expect(await adminAt(gateway.url)).toBe(503);
  expect(await cancel()).toMatchObject({ status: 503, code: "admin_not_known_yet" });
  release(undefined);
  await untilState(gateway, TWO, "pinned");
  await until(async () => (await adminAt(gateway.url)) === 400);
});

// There was no such path.
test("the catalogue has what was found, while others may yet be", async () => {
  const [one, two] = await Promise.all([startRegistry({ admin: ONE }), startRegistry({ admin: TWO })]);
  const { promise: released, resolve: release } = Promise.withResolvers<undefined>();
  two.script(() => released);
  const list = await startPublisher(listOf({ [ONE]: one.url, [TWO]: two.url }));
  const gateway = await startGateway({ discovery: discoveryBy(list.url) });
  const search = async (admin: string) => {
    const answer = await fetch(`${gateway.url}/catalog/v1/instruments?admin=${encodeURIComponent(admin)}`);
    const { instruments, code } = (await answer.json()) as { instruments?: object[]; code?: string };
    return [answer.status, code ?? instruments!.length > 0];
  };
  await untilState(gateway, ONE, "pinned");
  expect(await search(ONE)).toEqual([200, true]);
  expect(await search(TWO)).toEqual([503, "admin_not_known_yet"]);
  const home = await fetch(gateway.url, { headers: { accept: "application/json" } });
  expect(await home.json()).toMatchObject({ catalog: { instruments: "/catalog/v1/instruments" } });
  release(undefined);
  await until(async () => (await search(TWO))[0] === 200);
  expect(await search(partyOf("three"))).toEqual([404, "admin_unknown"]);
});

test("a URL that was answered by a found registry is answered by the written one that has its admin later", async () => {
  const [mine, found] = await Promise.all([startRegistry({ admin: ONE }), startRegistry({ admin: ONE })]);
  mine.script(() => ({ status: 503, body: "" }));
  const list = await startPublisher(listOf({ [ONE]: found.url }));
  const gateway = await startGateway({
    cache: { ttl: { info: "1ms" }, staleWhileRevalidate: "0s", staleIfError: "0s" },
    upstreams: [{ name: "mine", urls: [mine.url] }],
    discovery: discoveryBy(list.url),
  });
  await untilState(gateway, ONE, "pinned");
  await until(async () => (await adminAt(gateway.registrar(ONE))) === ONE);
  mine.script(() => undefined);
  const stateOf = async (name: string) => {
    const { upstreams } = (await (await fetch(`${gateway.operations}/status`)).json()) as {
      upstreams: { name: string; state: string }[];
    };
    return upstreams.find((each) => each.name === name)?.state;
  };
  await until(async () => (await stateOf("mine")) === "up" && (await stateOf("one")) === "disabled");
  expect(await adminAt(gateway.registrar(ONE))).toBe(ONE);
});

test("a reload and what is found at the same time lose nothing of each other", async () => {
  const registries = await Promise.all(["a", "b", "c", "d"].map((name) => startRegistry({ admin: partyOf(name) })));
  const written = await startRegistry({ admin: ONE });
  const listed: Record<string, string> = {};
  const list = await startPublisher(listOf(listed));
  const keys = (timeout: string) => ({
    upstreams: [{ name: "written", admin: ONE, urls: [written.url], timeout }],
    discovery: discoveryBy(list.url),
  });
  const gateway = await startGateway(keys("10s"));
  for (const [turn, { admin, url }] of registries.entries()) {
    listed[admin] = url;
    list.publish(listOf(listed));
    const { config } = gateway.gateway;
    await gateway.gateway.reload({
      ...testConfig(keys(`${20 + turn}s`)),
      listen: config.listen,
      operations: config.operations,
    });
    await untilState(gateway, admin, "pinned");
    expect(gateway.gateway.config.upstreams[0]!.timeout).toBe((20 + turn) * 1000);
  }
  expect(gateway.gateway.upstreams().all.map(({ name }) => name)).toEqual(["written", "a", "b", "c", "d"]);
  const { config } = gateway.gateway;
  const without = testConfig({ upstreams: keys("10s").upstreams });
  await gateway.gateway.reload({ ...without, listen: config.listen, operations: config.operations });
  expect(gateway.gateway.upstreams().all.map(({ name }) => name)).toEqual(["written"]);
});

test("a reload without discovery leaves no gauge standing that says what is wrong with it", async () => {
  const list = await startPublisher(listOf({ [ONE]: (await startRegistry({ admin: ONE })).url }));
  const keys = { upstreams: [{ name: "two", urls: [(await startRegistry({ admin: TWO })).url] }] };
  writeFileSync(join(folder(), "pins.json"), "{");
  const gateway = await startGateway({ ...keys, discovery: discoveryBy(list.url) });
  const gauges = async () =>
    parseExposition(await (await fetch(`${gateway.operations}/metrics`)).text())
      .filter(({ name, value }) => /_discovery_(registries|source|pin_file|every)/.test(name) && value > 0)
      .map(({ name, labels }) => `${name.slice("registry_gateway_discovery_".length)} ${labels["state"] ?? ""}`.trim());
  await expect
    .poll(gauges, { timeout: 20_000 })
    .toEqual(["registries waiting", "source_last_success_timestamp_seconds", "every_seconds", "pin_file_unusable"]);
  const { listen, operations } = gateway.gateway.config;
  await gateway.gateway.reload({ ...testConfig(keys), listen, operations });
  await expect.poll(gauges, { timeout: 20_000 }).toEqual([]);
  expect(gateway.lines.map(({ msg }) => msg)).not.toContain("pin file can be used again");
});

test("replicas at one Redis share their pins, and a decision has effect on all of them within 2 s", async () => {
  const redis = await startRedis();
  running.push(redis);
  const [registry, moved] = await Promise.all([startRegistry({ admin: ONE }), startRegistry({ admin: ONE })]);
  const list = await startPublisher(listOf({ [ONE]: registry.url }));
  const keys = (name: string) => ({
    redis: { url: redis.url },
    discovery: discoveryBy(list.url, { pinFile: join(folder(), name) }),
  });
  const first = await startGateway(keys("first.json"));
  await untilState(first, ONE, "pinned");
  list.publish(listOf({ [ONE]: moved.url }));
  // It was never at the first URL itself, and takes the word of the other one.
  const second = await startGateway(keys("second.json"));
  await untilState(second, ONE, "waiting");
  expect((await registryOf(second, ONE))!.urls).toEqual([registry.url]);
  await untilState(first, ONE, "waiting");
  const decision = await decide(second, ONE, true);
  const took = measureLoopTime();
  expect(decision).toMatchObject({ status: 200, body: { scope: "fleet" } });
  await untilState(first, ONE, "pinned");
  expect(took()).toBeLessThan(10_000);
  await until(() => first.gateway.upstreams().byName("one")!.config.urls[0] === moved.url);
  await until(() => readFileSync(join(folder(), "first.json"), "utf8").includes(moved.url));
  // A Redis that comes back empty is filled again.
  await redis.client.flushall();
  await until(async () => (await redis.client.hlen("rg:2:pins")) === 2);
});

test("without its pin file a start pins nothing new until Redis, which may have it pinned otherwise, was read", async () => {
  const redis = await startRedis();
  running.push(redis);
  const [registry, altered] = await Promise.all([startRegistry({ admin: ONE }), startRegistry({ admin: ONE })]);
  const list = await startPublisher(listOf({ [ONE]: registry.url }));
  const proxy = await startSlowProxy(redis.port);
  running.push(proxy);
  const keys = (name: string, port = redis.port) => ({
    redis: { url: `redis://127.0.0.1:${port}` },
    discovery: discoveryBy(list.url, { pinFile: join(folder(), name) }),
  });
  await untilState(await startGateway(keys("first.json")), ONE, "pinned");
  await until(async () => (await redis.client.hlen("rg:2:pins")) === 2);
  proxy.blackhole = true;
  list.publish(listOf({ [ONE]: altered.url }));
  const second = await startGateway(keys("lost.json", proxy.port));
  await untilState(second, ONE, "waiting");
  expect((await registryOf(second, ONE))!.urls).toEqual([]);
  proxy.blackhole = false;
  proxy.cut();
  await until(async () => (await registryOf(second, ONE))!.urls.join() === registry.url);
  expect(altered.calls.count("transfer_accept")).toBe(0);
  await until(() => existsSync(join(folder(), "lost.json")));
  expect(readFileSync(join(folder(), "lost.json"), "utf8")).toContain(registry.url);
});

test("with Redis away a decision is taken here, told as such, and shared when it is back", async () => {
  const redis = await startRedis();
  running.push(redis);
  const [registry, moved] = await Promise.all([startRegistry({ admin: ONE }), startRegistry({ admin: ONE })]);
  const list = await startPublisher(listOf({ [ONE]: registry.url }));
  const keys = (name: string) => ({
    redis: { url: redis.url },
    discovery: discoveryBy(list.url, { pinFile: join(folder(), name) }),
  });
  const [first, second] = [await startGateway(keys("first.json")), await startGateway(keys("second.json"))];
  await untilState(second, ONE, "pinned");
  list.publish(listOf({ [ONE]: moved.url }));
  await Promise.all([first, second].map((gateway) => untilState(gateway, ONE, "waiting")));
  await redis.kill();
  expect((await decide(first, ONE, true)).status).toBe(503);
  expect((await registryOf(first, ONE))!.urls).toEqual([moved.url]);
  await redis.start();
  await untilState(second, ONE, "pinned");
  expect((await registryOf(second, ONE))!.urls).toEqual([moved.url]);
  // The audit says so, too.
  const audit = async () => (await fetch(`${first.operations}/audit`)).json() as Promise<{ actions: object[] }>;
  await until(async () => (await audit()).actions.some((action) => "scope" in action && action.scope === "fleet"));
});
