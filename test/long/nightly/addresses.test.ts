import { once } from "node:events";
import { createServer, type AddressInfo, connect, type Server, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { atEnd } from "../../support/closing.ts";
import { CANCEL, DRAFT, INFO, LIST } from "../../support/endpoints.ts";
import { NOTHING_KEPT, startGateway } from "../../support/gateway.ts";
import { type Registry, startRegistry } from "../../support/registry.ts";
import { resolveTo } from "../../support/upstream.ts";

/** Addresses of every kind, over the whole gateway. */

/** Listens at one address of loopback, on any port unless it is given. */
async function listenAt(host: string, serve: (near: Socket) => void, port = 0): Promise<number> {
  const server: Server = createServer((near) => {
    near.on("error", () => undefined);
    atEnd(() => near.destroy());
    serve(near);
  });
  server.listen(port, host);
  await once(server, "listening");
  atEnd(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** Passes everything on to a node of a registry. */
const to =
  (registry: Registry, accepted: string[] = [], name = "") =>
  (near: Socket): void => {
    accepted.push(name);
    const far = connect(registry.nodes[0]!.port, "127.0.0.1");
    far.on("error", () => near.destroy()).on("close", () => near.destroy());
    near.on("close", () => far.destroy());
    near.pipe(far).pipe(near);
  };

describe("IPv6", () => {
  test.each(["::1", "::"])("clients, both listeners (at %s) and registries speak it alone", async (host) => {
    const amulet = await startRegistry();
    const port = await listenAt("::1", to(amulet));
    const gateway = await startGateway({
      listen: { host, trustedProxies: ["::1/128"] },
      operations: { host: "::1" },
      clients: { anonymous: "anonymous", tiers: { anonymous: { requests: "2/1m" } } },
      log: { addresses: true, hits: 1 },
      upstreams: [amulet.upstream({ urls: [`http://[::1]:${port}`] })],
    });
    expect(gateway.url).toBe(`http://[${host}]:${new URL(gateway.url).port}`);
    const ask = async (path: string, address: string): Promise<number> => {
      const isCall = path !== INFO && path !== LIST;
      const { status } = await fetch(gateway.url.replace("[::]", "[::1]") + path, {
        headers: { "x-forwarded-for": address, "content-type": "application/json" },
        ...(isCall && { method: "POST", body: "{}" }),
      });
      return status;
    };
    for (const [at, path] of [INFO, LIST, CANCEL, DRAFT].entries())
      expect([path, await ask(path, `2001:db8:0:${at}::1`)]).toEqual([path, 200]);
    expect(gateway.requestLines.map(({ address }) => address)).toContain("2001:db8:0:1::1");
    // A network of clients is one client: each has as many addresses as it likes.
    const [first, second] = [await ask(INFO, "2001:db8:0:9::1"), await ask(INFO, "2001:db8:0:9::2")];
    expect([first, second, await ask(INFO, "2001:db8:0:9:a::3")]).toEqual([200, 200, 429]);
    const status = await (await fetch(`${gateway.operations.url}/status`)).json();
    expect(status).toMatchObject({ upstreams: [{ nodes: [{ url: `[::1]:${port}`, state: "up" }] }] });
  });
});

describe("a name with four addresses, of which one is dead and one silent:", () => {
  test("every call is answered, and soon none waits for either", async () => {
    const amulet = await startRegistry();
    const { port } = amulet.nodes[0]!;
    const accepted: string[] = [];
    await listenAt("127.0.0.11", to(amulet, accepted, "good"), port);
    // It takes connections, and says nothing.
    await listenAt("127.0.0.12", () => void accepted.push("silent"), port);
    // Nobody listens at 127.0.0.13.
    resolveTo("registry.test", () => ["127.0.0.1", "127.0.0.11", "127.0.0.12", "127.0.0.13"]);
    const urls = [`http://registry.test:${port}`];
    const gateway = await startGateway({
      ...NOTHING_KEPT,
      upstreams: [amulet.upstream({ urls, timeout: "6s", attemptTimeout: "1s", hedgeAfter: "0s" })],
    });
    const outcomes = new Set<string>();
    const ask = async (round: number): Promise<number> => {
      const began = performance.now();
      outcomes.add((await (round % 2 === 0 ? gateway.get(LIST) : gateway.post(CANCEL))).outcome);
      return performance.now() - began;
    };
    const took: number[] = [];
    for (let wave = 0; wave < 5; wave += 1) {
      took.push(...(await Promise.all(Array.from({ length: 20 }, (_none, round) => ask(round)))));
      // Its connections end, which the gateway sees, so that the next wave looks the name up again.
      await amulet.close();
      await pause(300);
      await amulet.restart();
    }
    expect(outcomes).toEqual(new Set(["200"]));
    expect(Math.max(...took)).toBeLessThan(6_000);
    expect(accepted).toContain("silent");
    expect(accepted).toContain("good");
    // The silent one makes one wave late; then it is left alone for a while.
    expect(took.filter((ms) => ms > 900).length).toBeLessThanOrEqual(40);
    expect((await gateway.operations.status()).upstreams[0].state).toBe("up");
  });
});
