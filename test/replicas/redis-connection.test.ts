import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { atEnd } from "../support/closing.ts";
import { startRedis } from "../support/redis.ts";
import { callAll, expectAway, startReplica, WITH, WITHOUT } from "../support/sharing.ts";
import { until } from "../support/until.ts";

/** Node keeps a text that is longer beside the heap, where it cannot be counted. */
const SIZE = 1_000_000;

/** What is held when nothing is released any more; garbage, of other tests too, counts nothing. */
async function heldBytes(): Promise<number> {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  let last = Infinity;
  return until(() => {
    collect();
    const { heapUsed } = process.memoryUsage();
    const isSteady = Math.abs(last - heapUsed) < SIZE / 20;
    last = heapUsed;
    return isSteady && heapUsed;
  });
}

it("a Redis that begins to answer with errors of a megabyte is away, costs nothing, and leaves nothing behind", async () => {
  const redis = await startRedis();
  // Bytes: no text of the test's own counts.
  const error = Buffer.from(`-ERR ${"z".repeat(SIZE)}\r\n`);
  let isBroken = false;
  let closed = 0;
  const server = createServer((client) => {
    const behind = connect(redis.port, "127.0.0.1");
    for (const socket of [client, behind]) socket.on("error", () => {});
    client.on("close", () => {
      closed += 1;
      behind.destroy();
    });
    behind.on("data", (data) => client.write(data));
    client.on("data", (data) => {
      if (!isBroken) behind.write(data);
      else for (const _command of data.toString("latin1").match(/\*\d+\r\n/g) ?? []) client.write(error);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  atEnd(() => server.close());
  const replica = startReplica({ url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}` });
  await replica.whenUp();
  const before = await heldBytes();
  isBroken = true;
  expect(await callAll(replica)).toMatchObject(WITHOUT);
  await expectAway(replica, "cannot be used: ERR zzz");
  expect(replica.status().cause!.length).toBeLessThan(300);
  expect(replica.lines.every((line) => line.length < 400)).toBe(true);
  for (let round = 0; round < 5; round += 1) {
    const from = closed;
    replica.clock.advance("600ms");
    // Its command connection and its subscription.
    await until(() => closed >= from + 2);
    expect((await callAll(replica)).took).toBeLessThan(300);
  }
  // Code and connections take a megabyte or so; of more than ten texts none may stay.
  expect((await heldBytes()) - before).toBeLessThan(SIZE * 4);
  isBroken = false;
  await replica.whenUp();
});

describe("the login", () => {
  it("that is refused is named; one that was changed is taken at the next connect", async () => {
    const redis = await startRedis({ password: "first" });
    const replica = startReplica({ url: redis.url, password: "first" });
    const late = startReplica({ url: redis.url });
    await replica.whenUp();
    await expectAway(late, "(NOAUTH)");
    await redis.client.config("SET", "requirepass", "second");
    replica.takeLogin({ url: redis.url, keyPrefix: "rg:", password: "second" });
    expect(replica.isUp()).toBe(true);
    late.takeLogin({ url: redis.url.replace("//", "//:wrong@"), keyPrefix: "rg:" });
    await expectAway(late, "(WRONGPASS)");
    late.takeLogin({ url: redis.url.replace("//", "//:second@"), keyPrefix: "rg:" });
    await late.whenUp();
    await late.purges.purge("a");
    await redis.client.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    await replica.whenAway();
    await replica.whenUp();
    expect(replica.purges.epochOf("a")).toBe(late.purges.epochOf("a"));
  });
});

describe("over TLS", () => {
  const [ca, otherCa, cert, certKey] = ["ca.pem", "other-ca.pem", "client.pem", "client-key.pem"].map((name) =>
    fileURLToPath(new URL(`../fixtures/tls/${name}`, import.meta.url)),
  );
  const texts = new Map(
    [ca!, otherCa!, cert!, certKey!].map((path): [string, string] => [path, readFileSync(path, "utf8")]),
  );

  it("a server is used whose certificate is trusted, with the client's own where it asks for one", async () => {
    const redis = await startRedis({ tls: true, settings: { "tls-auth-clients": "yes" } });
    const url = redis.url;
    const good = startReplica({ url, tls: { caFile: ca!, certFile: cert!, keyFile: certKey! } }, texts);
    await good.whenUp();
    expect(await callAll(good)).toMatchObject(WITH);
    await expectAway(startReplica({ url, tls: { caFile: otherCa! } }, texts), "certificate that is not trusted");
    await expectAway(startReplica({ url: url.replace("rediss", "redis") }, texts), "it ");
  });

  it("a server is told the name in its URL, by which a proxy before several finds it, and no address", async () => {
    const redis = await startRedis();
    const read = (name: string): Buffer => readFileSync(new URL(`../fixtures/tls/${name}.pem`, import.meta.url));
    const named = new Set<string | false | null>();
    const proxy = createTlsServer({ cert: read("server"), key: read("server-key") }, (client) => {
      named.add(client.servername);
      const behind = connect(redis.port, "127.0.0.1");
      for (const socket of [client, behind]) socket.on("error", () => {});
      client.pipe(behind).pipe(client);
    });
    proxy.listen(0);
    await once(proxy, "listening");
    atEnd(() => proxy.close());
    const { port } = proxy.address() as AddressInfo;
    const tls = { caFile: ca! };
    await startReplica({ url: `rediss://localhost:${port}`, tls }, texts).whenUp();
    expect(named).toEqual(new Set(["localhost"]));
    named.clear();
    await startReplica({ url: `rediss://127.0.0.1:${port}`, tls }, texts).whenUp();
    expect(named).toEqual(new Set([false]));
  });
});
