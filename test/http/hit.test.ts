import { afterEach, expect, test } from "vitest";
import { type Clock, systemClock } from "../../src/clock.ts";
import { SampleRegistry } from "../../src/sandbox/registry.ts";
import { errorOf, send } from "../support/send.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { type GatewayUnderTest, startGateway } from "../support/gateway.ts";

const ADMIN = `registry::1220${"ab".repeat(32)}`;
const stops: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const stop of stops.splice(0).toReversed()) await stop();
});

async function startBeforeRegistry(
  keys: Record<string, unknown> = {},
  clock: Clock = systemClock(),
): Promise<GatewayUnderTest> {
  const registry = new SampleRegistry({ admin: ADMIN, clock: systemClock() });
  await registry.start();
  stops.push(() => registry.stop());
  const gateway = await startGateway(
    { upstreams: [{ name: "one", admin: ADMIN, urls: [registry.url] }], ...keys },
    { clock },
  );
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

test("hits within a second differ in their request id alone, and in CORS where it depends on the origin", async () => {
  const origins = ["https://one.example", "https://two.example"];
  const gateway = await startBeforeRegistry({ cors: { origins } });
  const path = "/registry/metadata/v1/instruments";
  await send(gateway.url, { path });
  const facts = async (headers: Record<string, string>) => {
    const { status, headers: received, bytes } = await send(gateway.url, { path, headers });
    return [status, received["x-request-id"], received["access-control-allow-origin"], bytes.length];
  };
  const full = (await send(gateway.url, { path })).bytes.length;
  for (const [i, origin] of [...origins, ...origins].entries()) {
    const id = `request-${i}`;
    expect(await facts({ origin, "x-request-id": id })).toEqual([200, id, origin, full]);
    expect(await facts({ "x-request-id": id })).toEqual([200, id, undefined, full]);
  }
});

test("hits grow older from one to the next", async () => {
  const clock = new ManualClock();
  const gateway = await startBeforeRegistry({ cache: { ttl: { info: "10s" } } }, clock);
  const path = "/registry/metadata/v1/info";
  const ages: (string | undefined)[] = [];
  for (let i = 0; i < 4; i += 1) {
    ages.push((await send(gateway.url, { path })).headers.age);
    clock.advance(1_000);
  }
  expect(ages).toEqual(["0", "1", "2", "3"]);
});
