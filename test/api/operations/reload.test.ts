import { writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { ACCEPT, ADMIN_HEADER, CANCEL, INFO, LIST } from "../../support/endpoints.ts";
import { temporaryFolder, useGateway } from "../../support/gateway.ts";
import { keyLine, newKey, writeKeys } from "../../support/keys.ts";
import { startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

const serve = useGateway();

describe("a reload", () => {
  test.each<[string, object]>([
    ["nothing", {}],
    ["mode and back", { timeout: "9s" }],
    ["auth", { auth: { bearer: "new" } }],
    ["timeouts", { timeout: "3s", attemptTimeout: "1s", retries: 1 }],
    ["the limit", { rateLimit: { requests: "1000/1m" } }],
  ])("that changes %s keeps cache and proofs", async (_what, keys) => {
    const amulet = await startRegistry("amulet");
    const gateway = await serve({ upstreams: [amulet] });
    expect((await gateway.get(LIST)).cache).toBe("miss");
    const infos = amulet.count("info");
    gateway.reload({ upstreams: [amulet.upstream(keys)] });
    expect((await gateway.get(LIST)).cache).toBe("hit");
    expect((await gateway.post(CANCEL)).status).toBe(200);
    expect(amulet.count("info")).toBe(infos);
  });

  test("that adds a node keeps the others' proofs and the cache, and uses it", async () => {
    const amulet = await startRegistry("amulet", { nodes: 2 });
    const [first] = amulet.urls;
    const gateway = await serve({ upstreams: [amulet.upstream({ urls: [first] })] });
    expect((await gateway.get(LIST)).cache).toBe("miss");
    gateway.reload({ upstreams: [amulet] });
    expect((await gateway.get(LIST)).cache).toBe("hit");
    await until(async () => {
      await gateway.post(CANCEL);
      return amulet.of("allocation_cancel").some(({ node }) => node === 1);
    });
    gateway.reload({ upstreams: [amulet.upstream({ urls: [first] })] });
    amulet.calls.length = 0;
    for (let round = 0; round < 10; round += 1) expect((await gateway.post(CANCEL)).status).toBe(200);
    expect(new Set(amulet.of().map(({ node }) => node))).toEqual(new Set([0]));
  });

  test("of an alias to another admin never serves what the former one had", async () => {
    const [amulet, bonds] = [await startRegistry("amulet"), await startRegistry("bonds")];
    const other = await startRegistry("other");
    const gateway = await serve({ upstreams: [{ ...amulet.upstream(), name: "prod" }, other] });
    const path = `${gateway.base("prod")}${INFO}`;
    const first = await gateway.get(path);
    expect((await gateway.get(path)).cache).toBe("hit");
    gateway.reload({ upstreams: [{ ...bonds.upstream(), name: "prod" }, other] });
    const second = await gateway.get(path);
    expect(second.json.adminId).toBe(bonds.admin);
    expect(second.text).not.toBe(first.text);
    expect((await gateway.get(`${gateway.base(amulet.admin)}${INFO}`)).code).toBe("admin_unknown");
    // And back: what was stored under the party id is still its.
    gateway.reload({ upstreams: [{ ...amulet.upstream(), name: "prod" }, other] });
    expect((await gateway.get(path)).json.adminId).toBe(amulet.admin);
  });

  test("lets what runs end by the configuration that it began with, and closes what is gone", async () => {
    const [amulet, bonds] = [await startRegistry("amulet"), await startRegistry("bonds")];
    const gateway = await serve({ upstreams: [amulet, bonds] });
    const release = bonds.hold("transfer_accept");
    const slow = gateway.post(gateway.base("bonds") + ACCEPT);
    await bonds.reached(1);
    gateway.reload({ upstreams: [amulet, await startRegistry("gold")] });
    expect((await gateway.get(`${gateway.base("bonds")}${INFO}`)).status).toBe(404);
    release();
    expect((await slow).status).toBe(200);
  });

  test("changes CORS, limits of answers, tiers and log level at once, on connections that stay", async () => {
    const amulet = await startRegistry("amulet");
    const gateway = await serve({ upstreams: [amulet] });
    expect((await gateway.get(LIST, { origin: "https://other.example" })).headers["access-control-allow-origin"]).toBe(
      "*",
    );
    gateway.reload({
      upstreams: [amulet],
      cors: { origins: ["https://wallet.example"] },
      log: { level: "error" },
      clients: { anonymous: false, tiers: { anonymous: {} } },
    });
    const answer = await gateway.get(LIST, { origin: "https://other.example" });
    expect([answer.status, answer.headers["access-control-allow-origin"]]).toEqual([401, undefined]);
  });

  test("takes new client keys, and forgets those that are gone", async () => {
    const amulet = await startRegistry("amulet");
    const [first, second] = [newKey(), newKey()];
    const folder = temporaryFolder();
    const keysFile = writeKeys(folder, [keyLine(first, "one", "wallet")]);
    const values = { upstreams: [amulet], clients: { anonymous: false, keysFile, tiers: { wallet: {} } } };
    const gateway = await serve(values);
    const statuses = async () =>
      [first, second].map(async (key) => (await gateway.get(LIST, { "x-api-key": key })).status);
    expect(await Promise.all(await statuses())).toEqual([200, 401]);
    writeKeys(folder, [keyLine(second, "two", "wallet")]);
    gateway.reload(values);
    expect(await Promise.all(await statuses())).toEqual([401, 200]);
    writeFileSync(keysFile, "nothing\n");
    expect(() => gateway.reload(values)).toThrow();
    expect(await Promise.all(await statuses())).toEqual([401, 200]);
  });

  test("leaves for the next start what it cannot change, and takes the rest", async () => {
    const [amulet, bonds] = [await startRegistry("amulet"), await startRegistry("bonds")];
    const gateway = await serve({ upstreams: [amulet, bonds] });
    gateway.reload({
      upstreams: [amulet, bonds],
      routing: { prefix: "/new", adminHeader: "x-new" },
      limits: { requestBody: "1KiB" },
    });
    expect((await gateway.post(gateway.base("amulet") + CANCEL)).status).toBe(200);
    expect((await gateway.post(CANCEL, "{}", { "x-new": "amulet" })).status).toBe(200);
    expect((await gateway.post(CANCEL, "{}", { [ADMIN_HEADER]: "amulet" })).status).toBe(400);
    expect((await gateway.post(gateway.base("amulet") + CANCEL, JSON.stringify({ x: "x".repeat(2_000) }))).status).toBe(
      200,
    );
  });

  test("that has to wait in part is another digest than the configuration that a new start would run", async () => {
    const amulet = await startRegistry("amulet");
    const gateway = await serve({ upstreams: [amulet] });
    const digest = async (): Promise<unknown> => (await gateway.operations.status()).digest;
    const first = await digest();
    gateway.reload({ upstreams: [amulet], routing: { prefix: "/new" } });
    expect(await digest()).toBe(first);
    gateway.reload({ upstreams: [amulet], cache: { ttl: { info: "1m" } } });
    expect(await digest()).not.toBe(first);
  });

  test("of base and extra paths is seen by the next request", async () => {
    const [amulet, bonds] = [await startRegistry("amulet"), await startRegistry("bonds")];
    const gateway = await serve({ upstreams: [amulet, bonds] });
    expect((await gateway.get(`/amulet${INFO}`)).status).toBe(404);
    gateway.reload({ upstreams: [amulet.upstream({ basePaths: ["/amulet"], extraPaths: ["/x/y"] }), bonds] });
    expect((await gateway.get(`/amulet${INFO}`)).status).toBe(200);
    expect((await gateway.get("/x/y")).status).toBe(200);
    gateway.reload({ upstreams: [amulet, bonds] });
    expect((await gateway.get("/x/y")).status).toBe(404);
  });

  test("ten times under load fails no request", async () => {
    const amulet = await startRegistry("amulet", { nodes: 2 });
    const gateway = await serve({ upstreams: [amulet] });
    expect((await gateway.get(LIST)).status).toBe(200);
    const over = new AbortController();
    const load = Array.from({ length: 4 }, async () => {
      const seen: string[] = [];
      while (!over.signal.aborted)
        for (const answer of [await gateway.get(LIST), await gateway.post(CANCEL)]) seen.push(answer.outcome);
      return seen;
    });
    for (let round = 0; round < 10; round += 1) {
      await until(() => amulet.count("allocation_cancel") > round * 5);
      gateway.reload({
        upstreams: [amulet.upstream({ timeout: `${5 + round}s`, urls: amulet.urls.slice(round % 2) })],
      });
    }
    over.abort();
    expect(new Set((await Promise.all(load)).flat())).toEqual(new Set(["200"]));
  });
});
