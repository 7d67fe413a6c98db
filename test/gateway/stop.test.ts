import { expect, test } from "vitest";
import { startGateway } from "../support/gateway.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { until } from "../support/until.ts";

const registry = useSampleRegistries();

// What runs in the background had 5 s of its own after that.
test("a stop ends soon after shutdown.timeout, though a registry hangs that is asked in the background", async () => {
  const clock = new ManualClock();
  const amulet = await registry();
  const running = await startGateway(
    {
      upstreams: [{ name: "amulet", admin: amulet.admin, urls: [amulet.url] }],
      cache: { ttl: { instruments: "30s" }, staleWhileRevalidate: "1m" },
      shutdown: { grace: "2s", timeout: "1s" },
    },
    { clock },
  );
  const list = async () => {
    const answer = await fetch(`${running.registrar("amulet")}/registry/metadata/v1/instruments`);
    await answer.arrayBuffer();
    return answer.headers.get("cache-status");
  };
  await list();
  clock.advance(31_000);
  await amulet.faults.set({ kind: "hang", operations: ["instruments"] });
  expect(await list()).toContain("detail=stale-while-revalidate");
  await until(() => amulet.calls.open === 1);

  const begun = clock.now();
  let isStopped = false;
  void running.gateway.stop({ grace: true }).then(() => (isStopped = true));
  await until(() => {
    clock.advance(100);
    return isStopped;
  });
  // Grace, timeout, and a moment for each part that is left then.
  expect(clock.now() - begun).toBeLessThan(5_000);
});
