import { expect, test } from "vitest";
import { TestClock } from "../support/clock.ts";
import { startRegistry } from "../support/registry.ts";
import { until } from "../support/until.ts";
import { useUpstreams } from "../support/upstream.ts";

test("every attempt counts, the info, too, and what is beyond the limit is 429 with Retry-After", async () => {
  const registry = await startRegistry();
  const gateway = useUpstreams([registry.upstream({ rateLimit: { requests: "5/1m" } })]);
  const outcomes = await Promise.all(Array.from({ length: 8 }, () => gateway.call("transfer_factory")));
  const texts = outcomes.map(({ text }) => text).toSorted();
  expect(texts).toEqual([...Array(4).fill("200"), ...Array(4).fill("429 rate_limited")]);
  expect(registry.count() + registry.count("info")).toBe(5);
  expect(outcomes.every(({ error }) => error === undefined || error.retryAfter! > 0)).toBe(true);
  expect(gateway.count("refused rate_limited")).toBe(4);
});

test("upstreams of a group share its limit", async () => {
  const [one, two] = [await startRegistry("amulet"), await startRegistry("bonds")];
  const rateLimit = { requests: "6/1m", group: "host" };
  const gateway = useUpstreams([one.upstream({ rateLimit }), two.upstream({ rateLimit })]);
  await until(() => gateway.count("info success") === 2);
  for (let i = 0; i < 4; i += 1) await gateway.call("transfer_factory", { name: i % 2 === 0 ? "amulet" : "bonds" });
  expect((await gateway.call("transfer_factory")).text).toBe("429 rate_limited");
  expect((await gateway.call("transfer_factory", { name: "bonds" })).text).toBe("429 rate_limited");
});

test("a call whose time the limit took is 429 with Retry-After, and no 504", async () => {
  const clock = TestClock.running();
  const registry = await startRegistry();
  const gateway = useUpstreams([registry.upstream({ rateLimit: { requests: "100/1m", burst: "2/1s" } })], { clock });
  await until(() => gateway.count("info success") === 1);
  expect((await gateway.call("transfer_factory")).text).toBe("200");
  registry.on("*", "hang");
  const called = gateway.call("transfer_factory", { within: 2_000 });
  await new Promise((resolve) => setTimeout(resolve, 20));
  clock.advance("1300ms");
  await registry.reached(2);
  clock.advance("1s");
  const { text, error } = await called;
  expect(text).toBe("429 rate_limited");
  expect(error?.retryAfter).toBe(1);
});

test("as many calls run as there are places, as many wait, the rest is 503; who waits too long is 504", async () => {
  const clock = TestClock.running();
  const registry = await startRegistry();
  const gateway = useUpstreams([registry.upstream({ concurrency: 2 })], { clock });
  await gateway.call("transfer_factory");
  const release = registry.hold("*");
  const running = [gateway.call("transfer_factory"), gateway.call("transfer_factory")];
  await registry.reached(3);
  const waiting = [gateway.call("transfer_factory", { within: 1_000 }), gateway.call("transfer_factory")];
  expect((await gateway.call("transfer_factory")).text).toBe("503 queue_full");
  expect(gateway.upstream().status()).toMatchObject({ inFlight: 2, waiting: 2 });
  clock.advance("1s");
  expect((await waiting[0]!).text).toBe("504 queue_timeout");
  release();
  for (const call of [...running, waiting[1]!]) expect((await call).text).toBe("200");
});

test("an attempt that a limit of ours does not let through leaves the first one's answer as it was", async () => {
  const registry = await startRegistry("amulet", { nodes: 2 });
  const gateway = useUpstreams([registry.upstream({ rateLimit: { requests: "3/1m" } })]);
  await until(() => gateway.count("info success") === 2);
  registry.on("*", { status: 404, body: { error: "not found" } });
  expect((await gateway.call("transfer_accept")).text).toBe("404");
});
