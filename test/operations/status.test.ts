import { expect, onTestFinished, test } from "vitest";
import type { StatusAnswer } from "../../src/operations/answers.ts";
import { startGateway } from "../support/gateway.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { DSO } from "../support/sample.ts";

const startRegistry = useSampleRegistries();

test("the console finds in /status what it shows of a registry and its nodes", async () => {
  const clock = new ManualClock();
  const [one, other] = [await startRegistry(), await startRegistry()];
  const gateway = await startGateway(
    {
      cache: { ttl: { instruments: "0s" } },
      upstreams: [
        {
          name: "amulet",
          admin: DSO,
          urls: [one.url, { url: other.url, weight: 0 }],
          rateLimit: { requests: 100, per: "1m" },
          hedge: { enabled: false },
        },
      ],
    },
    { clock },
  );
  onTestFinished(() => gateway.stop());
  const statusOf = async () => (await (await fetch(`${gateway.operations}/status`)).json()) as StatusAnswer;
  const upstreamOf = async () => (await statusOf()).upstreams[0]!;
  await expect.poll(async () => (await upstreamOf()).state).toBe("up");
  const before = await upstreamOf();
  expect(before).toMatchObject({ mode: "normal", breaker: "closed", budget: { requests: 100, perMs: 60_000 } });
  const now = new Date(clock.wallNow()).toISOString();
  expect(before.nodes).toMatchObject([
    { state: "up", lastError: null, inFlight: 0, calls: 0, provedAt: now, certificateExpiresAt: null, weight: 1 },
    { state: "up", calls: 0, weight: 0, cordoned: false },
  ]);
  for (let i = 0; i < 3; i++) {
    await (await fetch(`${gateway.url}/registry/metadata/v1/instruments?pageSize=${i + 1}`)).arrayBuffer();
  }
  const after = await upstreamOf();
  expect(after.nodes.map(({ calls }) => calls)).toEqual([3, 0]);
  expect(after.budgetLeft).toBeLessThan(100);

  const cordon = { upstream: "amulet", node: 0, state: "cordoned", for: "30m", reason: "<script>alert(1)</script>" };
  const headers = { "content-type": "application/json" };
  await fetch(`${gateway.operations}/nodes`, { method: "POST", headers, body: JSON.stringify(cordon) });
  const { inForce, upstreams } = await statusOf();
  expect(upstreams[0]!.nodes[0]).toMatchObject({ cordoned: true });
  const until = new Date(clock.wallNow() + 1_800_000).toISOString();
  expect(inForce).toMatchObject([{ upstream: "amulet", node: 0, state: "cordoned", reason: cordon.reason, until }]);
});
