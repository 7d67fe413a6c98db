import { expect, test } from "vitest";
import { abortStorm, remainsOf } from "../../support/abort-storm.ts";
import { send } from "../../support/send.ts";
import { useThreeRegistries } from "../../support/three-registries.ts";

const running = useThreeRegistries({ upstreamKeys: { hedge: { enabled: false } } });

const AT_A_TIME = 25;

test("200 aborted requests leave nothing running, and the gateway works as before", async () => {
  await abortStorm(running(), 50, AT_A_TIME);
  const idle = { openCalls: 0, running: 0, queued: 0, inFlight: 0 };
  await expect.poll(() => remainsOf(running())).toMatchObject(idle);
  const before = remainsOf(running());

  running().clearCalls();
  await abortStorm(running(), 200, AT_A_TIME);
  await expect.poll(() => remainsOf(running())).toMatchObject(idle);
  // Many got as far as the registry, and were ended there too.
  expect(running().registries.amulet.calls.aborted).toBeGreaterThanOrEqual(20);
  // Connections to the registry are kept for the next call: both their ends are in this process.
  await expect.poll(() => remainsOf(running()).sockets).toBeLessThan(before.sockets + 2 * AT_A_TIME);

  const base = "/api/token-standard/v0/registrars/amulet/registry";
  expect((await send(running().url, { path: `${base}/metadata/v1/info` })).status).toBe(200);
  expect((await send(running().url, { path: `${base}/drafts/v1/x`, body: "{}" })).status).toBe(200);
  const statuses = new Set(running().lines.map(({ status }) => status));
  expect([...statuses].filter((status) => Number(status) >= 500)).toEqual([]);
});
