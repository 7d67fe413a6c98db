import { createServer, connect, type AddressInfo, type Socket } from "node:net";
import { onTestFinished, test, expect } from "vitest";
import { systemClock } from "../../src/clock.ts";
import type { SampleRegistry } from "../support/sample-registry.ts";
import { acceptCall, openUpstream, startRegistry } from "../support/upstream-registries.ts";

/** A way to a registry that can be closed for new connections. */
async function wayTo(registry: SampleRegistry) {
  const target = Number(new URL(registry.url).port);
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const other = connect(target, "127.0.0.1");
    for (const socket of [client, other]) {
      sockets.add(socket);
      socket.on("error", () => undefined).on("close", () => [client, other].forEach((each) => each.destroy()));
    }
    client.pipe(other).pipe(client);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, close: () => server.close() };
}

test("old connections carry calls for as long as no new one can be opened", async () => {
  const real = systemClock();
  let ahead = 0;
  const clock = { ...real, now: () => real.now() + ahead };
  const registry = await startRegistry();
  const way = await wayTo(registry);
  const { upstream } = openUpstream([way.url], { proof: { every: "1h" } }, { clock });
  const call = () => upstream.call({ ...acceptCall(), deadline: clock.now() + 5_000 });
  const together = async () => (await Promise.all([call(), call(), call()])).map(({ status }) => status);
  expect(await together()).toEqual([200, 200, 200]);
  way.close();
  for (let minutes = 1; minutes <= 3; minutes += 1) {
    ahead = minutes * 61_000;
    expect((await call()).status).toBe(200);
  }
});
