import { expect, test } from "vitest";
import { TestClock } from "../support/clock.ts";
import { startRegistry } from "../support/registry.ts";
import { until } from "../support/until.ts";
import { useUpstreams } from "../support/upstream.ts";

test("a call whose time the limit took is 429 with Retry-After, and no 504", async () => {
  const clock = TestClock.standing();
  const registry = await startRegistry();
  const gateway = useUpstreams([registry.upstream({ rateLimit: { requests: "100/1m", burst: "2/1s" } })], { clock });
  await until(() => gateway.count("info success") === 1);
  expect((await gateway.call("transfer_factory")).text).toBe("200");
  registry.on("*", "hang");
  const called = gateway.call("transfer_factory", { within: 2_000 });
  await until(() => {
    clock.advance(20);
    return registry.count() === 2;
  });
  clock.advance("1s");
  const { text, error } = await called;
  expect(text).toBe("429 rate_limited");
  expect(error?.retryAfter).toBe(1);
});

test("an attempt whose node is paused before it is asked leaves the first one's answer as it was", async () => {
  const clock = TestClock.running();
  const registry = await startRegistry("amulet", { nodes: 2 });
  const keys = { hedgeAfter: "0s", rateLimit: { requests: "2/600ms" } };
  const gateway = useUpstreams([registry.upstream(keys)], { clock });
  await until(() => gateway.count("info success") === 2);
  clock.advance("2s");
  const late = Promise.withResolvers<object>();
  registry.on("transfer_factory", { status: 503, body: { error: "busy" } }, 0);
  registry.on("transfer_factory", () => late.promise, 1);
  const callTo = (at: number) =>
    gateway.call("transfer_factory", { condition: { node: registry.urls[at]!, fields: [] } });
  const other = callTo(1);
  await registry.reached(1);
  const called = callTo(0);
  await until(() => gateway.upstream().status().limit!.waiting === 1);
  late.resolve({ status: 429, fields: ["Retry-After", "60"], body: { error: "slow down" } });
  await until(() => gateway.upstream().status().nodes[1]!.pausedUntil !== undefined);
  expect((await called).text).toBe("503");
  await other;
});

test("a call that is late is hedged also where it waited for the limit before", async () => {
  const clock = TestClock.standing();
  const registry = await startRegistry("amulet", { nodes: 2 });
  const gateway = useUpstreams([registry.upstream({ rateLimit: { requests: "2/1500ms" } })], { clock });
  await until(() => gateway.count("info success") === 2);
  registry.on("transfer_factory", "hang", 0);
  const called = gateway.call("transfer_factory", { condition: { node: registry.urls[0]!, fields: [] } });
  await until(() => (clock.advance(100), registry.count() === 2));
  expect((await called).text).toBe("200");
  expect(gateway.count("hedge")).toBe(1);
});

test("an attempt that a limit of ours does not let through leaves the first one's answer as it was", async () => {
  const registry = await startRegistry("amulet", { nodes: 2 });
  const gateway = useUpstreams([registry.upstream({ rateLimit: { requests: "3/1m" } })]);
  await until(() => gateway.count("info success") === 2);
  registry.on("*", { status: 404, body: { error: "not found" } });
  expect((await gateway.call("transfer_accept")).text).toBe("404");
});
