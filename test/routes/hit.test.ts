import { afterEach, expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { SampleRegistry } from "../../src/sandbox/registry.ts";
import { errorOf, send } from "../journeys/send.ts";
import { type GatewayUnderTest, startGateway } from "../support/gateway.ts";

const ADMIN = `registry::1220${"ab".repeat(32)}`;
const stops: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const stop of stops.splice(0).toReversed()) await stop();
});

async function startBeforeRegistry(): Promise<GatewayUnderTest> {
  const registry = new SampleRegistry({ admin: ADMIN, clock: systemClock() });
  await registry.start();
  stops.push(() => registry.stop());
  const gateway = await startGateway({ upstreams: [{ name: "one", admin: ADMIN, urls: [registry.url] }] });
  stops.push(() => gateway.stop());
  return gateway;
}

// Hits were once remembered under the path that the routes use among themselves.
test("a remembered hit answers under its own URL and no other", async () => {
  const gateway = await startBeforeRegistry();
  const path = "/registry/metadata/v1/instruments";
  const first = await send(gateway.url, { path });
  expect(first.headers["cache-status"]).toContain("fwd=uri-miss");
  for (let i = 0; i < 3; i += 1) {
    const again = await send(gateway.url, { path });
    expect(again.headers["cache-status"]).toContain("hit");
    expect(again.bytes).toEqual(first.bytes);
  }
  for (const other of ["/metadata", "/choice-context", "/preflight", "/refused"]) {
    const answer = await send(gateway.url, { path: other });
    expect(answer.status).toBe(404);
    expect(errorOf(answer)).toContain("no such path");
  }
});
