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

test("an attempt that a limit of ours does not let through leaves the first one's answer as it was", async () => {
  const registry = await startRegistry("amulet", { nodes: 2 });
  const gateway = useUpstreams([registry.upstream({ rateLimit: { requests: "3/1m" } })]);
  await until(() => gateway.count("info success") === 2);
  registry.on("*", { status: 404, body: { error: "not found" } });
  expect((await gateway.call("transfer_accept")).text).toBe("404");
});
