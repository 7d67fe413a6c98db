import { once } from "node:events";
import { connect } from "node:net";
import { afterEach, expect, test } from "vitest";
import { type Clock, systemClock } from "../../src/clock.ts";
import { HitMemo, type HitTarget } from "../../src/requests/hit.ts";
import { SampleRegistry } from "../support/sample-registry.ts";
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

test("remembers no more URLs than memory has room for answers, the last ones asked for", () => {
  const target = { admin: ADMIN, upstream: { admin: ADMIN } } as unknown as HitTarget;
  const url = (n: number) => `/registry/metadata/v1/instruments/${n}`;
  const known = (memory: number) => {
    const memo = new HitMemo(memory);
    for (let n = 0; n < 50_000; n += 1) memo.remember(url(n), target);
    return Array.from({ length: 50_000 }, (_, n) => n).filter((n) => memo.find(url(n)) !== undefined);
  };
  const few = known(3_000_000);
  expect(few).toHaveLength(1_000);
  expect(few[0]).toBe(49_000);
  // However much memory there is.
  expect(known(2 ** 40).length).toBeLessThan(21_000);
  expect(known(1)).toEqual([49_999]);
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

test("hits that come together with others are answered each under its own id, as many as there were", async () => {
  const gateway = await startBeforeRegistry();
  const page = "/registry/metadata/v1/instruments";
  const first = await send(gateway.url, { path: page });
  const paths = [page, "/registry/metadata/v1/info", "/nothing", `${page}/Unknown`];
  const expected = await Promise.all(paths.map((path) => send(gateway.url, { path })));
  // Round by round: in all but the first, hits wait for the end of their turn.
  for (let round = 0; round < 3; round += 1) {
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_each, i) =>
        send(gateway.url, { path: paths[i % 4]!, headers: { "x-request-id": `r${round}-${i}` } }),
      ),
    );
    for (const [i, answer] of answers.entries()) {
      expect(answer.status).toBe(expected[i % 4]!.status);
      expect(answer.headers["x-request-id"]).toBe(`r${round}-${i}`);
      const bytes = answer.bytes
        .toString()
        .replace(`"r${round}-${i}"`, JSON.stringify(expected[i % 4]!.headers["x-request-id"]));
      expect(bytes).toBe(expected[i % 4]!.bytes.toString());
    }
  }
  expect((await send(gateway.url, { path: page })).bytes).toEqual(first.bytes);
});

test("clients that leave at once take nothing from those whose hits come in the same turn", async () => {
  const gateway = await startBeforeRegistry();
  const path = "/registry/metadata/v1/instruments";
  const { bytes } = await send(gateway.url, { path });
  const { hostname, port } = new URL(gateway.url);
  for (let round = 0; round < 4; round += 1) {
    const leaving = Array.from({ length: 20 }, () => {
      const socket = connect(Number(port), hostname);
      socket.on("error", () => undefined);
      socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`, () => socket.resetAndDestroy());
      return socket;
    });
    const answers = await Promise.all(Array.from({ length: 20 }, () => send(gateway.url, { path })));
    for (const answer of answers) expect([answer.status, answer.bytes.equals(bytes)]).toEqual([200, true]);
    await Promise.all(leaving.filter(({ closed }) => !closed).map((socket) => once(socket, "close")));
  }
});
