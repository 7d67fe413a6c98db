import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { TestClock } from "../../support/clock.ts";
import { ACCEPT, INFO, LIST } from "../../support/endpoints.ts";
import { startGateway } from "../../support/gateway.ts";
import { RawConnection } from "../../support/raw.ts";
import { startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

async function start(shutdown: object = { grace: "5s", timeout: "20s" }) {
  const amulet = await startRegistry("amulet");
  const clock = TestClock.standing();
  const gateway = await startGateway({ shutdown, upstreams: [amulet] }, { clock });
  expect((await gateway.get(LIST)).status).toBe(200);
  return { amulet, clock, gateway };
}

/** Moves time on until it has stopped. @returns how far */
async function stopped(stopping: Promise<void>, clock: TestClock): Promise<number> {
  const began = clock.now();
  let isStopped = false;
  void stopping.then(() => (isStopped = true));
  await until(() => {
    if (!isStopped) clock.advance(100);
    return isStopped;
  });
  return clock.now() - began;
}

const TLS = { certFile: "server.pem", keyFile: "server-key.pem" };
const folder = join(import.meta.dirname, "../../fixtures/tls");

const hit = `GET ${LIST} HTTP/1.1\r\nHost: g\r\n\r\n`;

describe("a gateway that drains", () => {
  test("is unready at once, and serves all as before for its grace, without closing connections", async () => {
    const { clock, gateway } = await start();
    const kept = await RawConnection.open(gateway.url);
    kept.write(hit);
    await until(() => kept.statuses.length === 1);
    const stopping = gateway.stop({ grace: true });
    await until(async () => (await gateway.operations.get("/readyz")).status === 503);
    expect((await gateway.operations.get("/livez")).status).toBe(200);
    for (let round = 0; round < 3; round += 1) {
      clock.advance("1s");
      expect((await gateway.get(LIST)).cache).toBe("hit");
      expect((await gateway.post(ACCEPT)).status).toBe(200);
    }
    kept.write(hit);
    await until(() => kept.statuses.length === 2);
    expect(kept.text.toLowerCase()).not.toContain("connection: close");
    expect(kept.isClosed).toBe(false);
    await stopped(stopping, clock);
    await until(() => kept.isClosed);
    await expect(gateway.get(INFO)).rejects.toThrow();
  });

  test("finishes what runs, with Connection: close, and accepts nothing new behind its grace", async () => {
    const { amulet, clock, gateway } = await start();
    const release = amulet.hold("transfer_accept");
    const running = [gateway.post(ACCEPT), gateway.post(ACCEPT)];
    const kept = await RawConnection.open(gateway.url);
    kept.write(`POST ${ACCEPT} HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`);
    await amulet.reached(4);
    const stopping = gateway.stop({ grace: true });
    clock.advance("6s");
    await until(async () => {
      clock.advance(100);
      return gateway.get(LIST).then(
        () => false,
        () => true,
      );
    });
    release();
    for (const answer of running) expect((await answer).status).toBe(200);
    await until(() => {
      clock.advance(100);
      return kept.isClosed;
    });
    expect(kept.statuses).toEqual([200]);
    expect(kept.text.toLowerCase()).toContain("connection: close");
    await stopped(stopping, clock);
  });

  test("without grace closes idle connections at once, and still finishes what runs", async () => {
    const { amulet, clock, gateway } = await start({ grace: "1m", timeout: "20s" });
    const release = amulet.hold("transfer_accept");
    const running = gateway.post(ACCEPT);
    const idle = await RawConnection.open(gateway.url);
    idle.write(hit);
    await until(() => idle.statuses.length === 1);
    await amulet.reached(2);
    const stopping = gateway.stop({ grace: false });
    await until(() => {
      clock.advance(100);
      return idle.isClosed;
    });
    release();
    expect((await running).status).toBe(200);
    await stopped(stopping, clock);
  });

  // Node takes it for busy: it held a stop up for the whole of the timeout.
  test.each([
    ["HTTP", {}],
    ["HTTPS", { tls: TLS }],
  ])("ends a connection over %s that never sent anything at once", async (_name, listen) => {
    const clock = TestClock.standing();
    const shutdown = { grace: "0s", timeout: "1m" };
    const amulet = await startRegistry("amulet");
    const gateway = await startGateway({ listen, shutdown, upstreams: [amulet] }, { clock, folder });
    const silent = await RawConnection.open(gateway.url);
    await until(async () => (await gateway.operations.metric("registry_gateway_connections")) === 1);
    expect(await stopped(gateway.stop({ grace: true }), clock)).toBeLessThan(20_000);
    await until(() => silent.isClosed);
  });

  // It was cut by the timeout of its handshake alone, ten seconds later.
  test("is not held up by a handshake that does not go on", async () => {
    const clock = TestClock.standing();
    const shutdown = { grace: "0s", timeout: "2s" };
    const amulet = await startRegistry("amulet");
    const gateway = await startGateway({ listen: { tls: TLS }, shutdown, upstreams: [amulet] }, { clock, folder });
    const halfway = await RawConnection.open(gateway.url);
    halfway.write("\x16\x03\x01\x02\x00");
    await until(async () => (await gateway.operations.metric("registry_gateway_connections")) === 1);
    expect(await stopped(gateway.stop({ grace: true }), clock)).toBeLessThan(20_000);
  });

  test("is not held up by a call that never ends", async () => {
    const { amulet, clock, gateway } = await start({ grace: "0s", timeout: "2s" });
    amulet.on("transfer_accept", "hang");
    const hung = gateway.post(ACCEPT).then(
      ({ status }) => status,
      () => "cut",
    );
    await amulet.reached(2);
    await stopped(gateway.stop({ grace: true }), clock);
    expect(["cut", 503, 504]).toContain(await hung);
    await until(() => amulet.of("transfer_accept").every(({ isOpen }) => !isOpen));
  });
});
