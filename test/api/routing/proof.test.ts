import { once } from "node:events";
import { createServer as createHttpServer, request as forward } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { describe, expect, test } from "vitest";
import { TestClock } from "../../support/clock.ts";
import { atEnd } from "../../support/closing.ts";
import { CANCEL, DRAFT, expecting, FACTORY, INFO, LIST, OPERATOR } from "../../support/endpoints.ts";
import { startGateway, useGateway } from "../../support/gateway.ts";
import { expectOwnError, type Request } from "../../support/http.ts";
import { partyOf, type Registry, startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

const clock = TestClock.running();
const serve = useGateway(clock);

const ALL: readonly Request[] = [
  { path: INFO },
  { path: LIST },
  { path: CANCEL, body: "{}" },
  { path: FACTORY, body: '{"choiceArguments":{}}' },
  { path: DRAFT },
  { path: OPERATOR },
];

const extraPaths = [OPERATOR];
const OTHER = partyOf("other");
const namesOther = { body: { adminId: OTHER, supportedApis: {} } };

describe("no request reaches a node that has not named the admin in its own info", () => {
  test.each<[string, object | string, number, string]>([
    ["names another", namesOther, 502, "wrong_admin"],
    ["answers 500", { status: 500, body: { error: "no" } }, 502, ""],
    ["answers HTML", { status: 404, fields: ["content-type", "text/html"], body: "<html>" }, 502, ""],
    ["answers no JSON", { body: "{" }, 502, ""],
    ["names nothing", { body: {} }, 502, ""],
    ["names a number", { body: { adminId: 5, supportedApis: {} } }, 502, ""],
    ["redirects", { status: 302, fields: ["location", "/x"], body: "" }, 502, ""],
    ["breaks off", "reset", 502, ""],
    ["speaks no HTTP", { raw: "SSH-2.0-x\r\n" }, 502, ""],
  ])("one that %s", async (_what, script, status, code) => {
    const amulet = await startRegistry("amulet");
    amulet.on("info", script as "reset");
    const gateway = await serve({ upstreams: [amulet.upstream({ extraPaths })] });
    for (const request of ALL) {
      const answer = await gateway.send(request);
      expectOwnError(answer, answer.status);
      // Later ones may find it out already.
      expect([status, 503]).toContain(answer.status);
      if (code !== "" && answer.status === status) expect(answer.code).toBe(code);
      expect(answer.error).toContain("amulet");
    }
    expect(amulet.asked).toEqual([]);
  });

  test("one that is silent: the first request has its deadline", async () => {
    const amulet = await startRegistry("amulet");
    amulet.on("info", "hang");
    const gateway = await serve({ upstreams: [amulet.upstream({ extraPaths })] });
    for (const request of ALL.slice(0, 2)) {
      const answer = gateway.send(request);
      await until(() => {
        clock.advance("5s");
        return amulet.count("info") > 0;
      });
      const ended = answer.then(() => true);
      let isOver = false;
      void ended.then(() => (isOver = true));
      await until(() => {
        clock.advance("1s");
        return isOver;
      });
      const { status } = await answer;
      expect([503, 504]).toContain(status);
    }
    expect(amulet.asked).toEqual([]);
  });

  test("one that refuses the connection is 502", async () => {
    const amulet = await startRegistry("amulet");
    await amulet.close();
    const gateway = await serve({ upstreams: [amulet] });
    const answer = await gateway.post(CANCEL);
    // The gateway asks by itself, too: the first request may find the node out already.
    expectOwnError(answer, answer.status);
    expect(["upstream_unreachable", "upstream_down"]).toContain(answer.code);
    expect(answer.error).toMatch(/refused/);
  });

  test("one that is slow to say so is waited for by the first request, which then goes on", async () => {
    const amulet = await startRegistry("amulet");
    const release = amulet.hold("info");
    const gateway = await serve({ upstreams: [amulet.upstream({ extraPaths })] });
    const answers = ALL.map((request) => gateway.send(request));
    await amulet.reached(1, "info");
    expect(amulet.asked).toEqual([]);
    release();
    for (const answer of answers) expect((await answer).status).toBe(200);
  });

  test("one of several nodes is left out, and the others serve", async () => {
    const amulet = await startRegistry("amulet", { nodes: 3 });
    amulet.on("info", namesOther, 1);
    const gateway = await serve({ upstreams: [amulet] });
    for (let round = 0; round < 20; round += 1) expect((await gateway.post(CANCEL)).status).toBe(200);
    expect(new Set(amulet.of().map(({ node }) => node))).toEqual(new Set([0, 2]));
    await until(async () => (await gateway.operations.upstream("amulet")).nodes.length === 3);
  });

  test("of a registry on another port behind the same name, after it took the place of the right one", async () => {
    const amulet = await startRegistry("amulet");
    const gateway = await serve({ upstreams: [amulet] });
    expect((await gateway.post(CANCEL)).status).toBe(200);
    await amulet.close();
    const bonds = await startRegistry("bonds");
    // The other registry now listens where the first did.
    bonds.nodes[0]!.port = amulet.nodes[0]!.port;
    await bonds.nodes[0]!.close();
    await bonds.nodes[0]!.listen();
    const answer = await gateway.post(CANCEL);
    expect([502, 503]).toContain(answer.status);
    expect(bonds.asked).toEqual([]);
  });
});

describe("a proof", () => {
  test("holds for proofEvery while a connection is open, and is asked for anew after it", async () => {
    const amulet = await startRegistry("amulet");
    const gateway = await serve({ upstreams: [amulet.upstream({ proofEvery: "1m" })] });
    for (let round = 0; round < 5; round += 1) expect((await gateway.post(CANCEL)).status).toBe(200);
    const before = amulet.count("info");
    expect(before).toBeLessThanOrEqual(2);
    amulet.on("info", namesOther);
    clock.advance("61s");
    const answer = await gateway.post(CANCEL);
    expect([502, 503]).toContain(answer.status);
    expect(amulet.count("info")).toBeGreaterThan(before);
    expect(amulet.count()).toBe(5);
  });

  test("of a node that names another admin is asked for again after proofEvery", async () => {
    const amulet = await startRegistry("amulet");
    amulet.on("info", namesOther);
    const gateway = await serve({ upstreams: [amulet.upstream({ proofEvery: "1m" })] });
    expectOwnError(await gateway.post(CANCEL), 502, "wrong_admin");
    amulet.on("info", undefined);
    clock.advance("30s");
    expect((await gateway.post(CANCEL)).error).toMatch(/another admin/);
    clock.advance("31s");
    await until(async () => (await gateway.post(CANCEL)).status === 200);
  });

  test("of a node that named another admin is asked for again at a reload", async () => {
    const amulet = await startRegistry("amulet");
    amulet.on("info", namesOther);
    const gateway = await serve({ upstreams: [amulet] });
    expectOwnError(await gateway.post(CANCEL), 502, "wrong_admin");
    amulet.on("info", undefined);
    gateway.reload({ upstreams: [amulet] });
    await until(async () => (await gateway.post(CANCEL)).status === 200);
  });

  test("costs few infos of a registry that closes behind each answer", async () => {
    const amulet = await startRegistry("amulet");
    const closing = { fields: ["Connection", "close"] };
    const gateway = await serve({ upstreams: [amulet] });
    amulet.on("allocation_cancel", { ...closing, body: { choiceContextData: {}, disclosedContracts: [] } });
    amulet.on("info", { ...closing, body: { adminId: amulet.admin, supportedApis: {} } });
    for (let round = 0; round < 10; round += 1) expect((await gateway.post(CANCEL)).status).toBe(200);
    expect(amulet.count()).toBe(10);
    expect(amulet.count("info")).toBeLessThanOrEqual(11);
  });
});

/** A forwarding proxy, which hides whose address answers; the connections over which it was asked for what. */
async function startProxy() {
  const asked: string[] = [];
  const numbers = new Map<unknown, number>();
  const server = createHttpServer((request, response) => {
    const number = numbers.get(request.socket) ?? numbers.size + 1;
    numbers.set(request.socket, number);
    const url = new URL(request.url!);
    asked.push(`${number} ${url.pathname === INFO ? "info" : "call"}`);
    const { method, headers } = request;
    const forwarded = forward(url, { method, headers, agent: false }, (answer) => {
      response.writeHead(answer.statusCode!, { "content-type": "application/json" });
      answer.pipe(response);
    });
    request.pipe(forwarded);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  atEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  return { asked, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

test("through httpProxy each new connection is asked itself", async () => {
  const amulet = await startRegistry("amulet");
  const proxy = await startProxy();
  const gateway = await serve({ upstreams: [amulet.upstream({ httpProxy: proxy.url })] });
  const release = amulet.hold("allocation_cancel");
  const calls = [1, 2, 3, 4].map(() => gateway.post(CANCEL));
  await amulet.reached(4);
  release();
  for (const answer of calls) expect((await answer).status).toBe(200);
  const byConnection = Map.groupBy(proxy.asked, (each) => each.split(" ", 1)[0]);
  expect(byConnection.size).toBeGreaterThanOrEqual(4);
  for (const [, asked] of byConnection) expect(asked[0]).toMatch(/info$/);
});

describe("what was stored, when a node names another admin,", () => {
  const keys = { proofEvery: "1m", cache: { ttl: { instruments: "10m" } } };

  test("goes, as by a purge, where that node had carried calls", async () => {
    const amulet = await startRegistry("amulet");
    const gateway = await serve({ upstreams: [amulet.upstream(keys)] });
    expect((await gateway.get(LIST)).cache).toBe("miss");
    expect((await gateway.get(LIST)).cache).toBe("hit");
    amulet.on("info", namesOther);
    clock.advance("61s");
    // A hit asks nobody; a call finds out.
    await until(async () => (await gateway.post(CANCEL)).status !== 200);
    expect((await gateway.get(LIST)).status).not.toBe(200);
    amulet.on("info", undefined);
    clock.advance("61s");
    await until(async () => (await gateway.get(LIST)).status === 200);
    expect(amulet.count("instruments")).toBe(2);
  });

  test("stays where it had carried none", async () => {
    const amulet = await startRegistry("amulet");
    const impostor = await startRegistry("impostor");
    const gateway = await serve({ upstreams: [amulet.upstream(keys)] });
    expect((await gateway.get(LIST)).cache).toBe("miss");
    gateway.reload({ upstreams: [amulet.upstream({ ...keys, urls: impostor.urls })] });
    await until(async () => (await gateway.post(CANCEL)).status !== 200);
    expect((await gateway.get(LIST)).cache).toBe("hit");
    expect(impostor.asked).toEqual([]);
  });
});

describe("an answer about another admin or id than was asked for", () => {
  test.each([
    ["an info", INFO, "info", { adminId: OTHER, supportedApis: {} }],
    [
      "an instrument",
      `${LIST}/AMULET-00001`,
      "instrument",
      { id: "AMULET-00002", name: "n", symbol: "s", decimals: 1 },
    ],
  ])("%s is 502, is not stored, and its connection is closed", async (_what, path, operation, body) => {
    const amulet = await startRegistry("amulet");
    const gateway = await serve({ upstreams: [amulet] });
    expect((await gateway.post(CANCEL)).status).toBe(200);
    const { connection } = amulet.last;
    amulet.on(operation, { body });
    expect((await gateway.get(path)).status).toBe(502);
    amulet.on(operation, undefined);
    clock.advance("10m");
    const good = await until(async () => {
      const answer = await gateway.get(path);
      return answer.status === 200 ? answer : undefined;
    });
    expect(good.cache).toBe("miss");
    expect(amulet.calls.at(-1)!.connection).toBeGreaterThan(connection);
  });
});

describe("where no admin is configured", () => {
  const unpinned = (registry: Registry): object => ({ ...registry.upstream(), admin: undefined });

  test("it is learned from the info, and party id and alias mean the same", async () => {
    const amulet = await startRegistry("amulet");
    const gateway = await serve({ upstreams: [unpinned(amulet), await startRegistry("bonds")] });
    await until(async () => (await gateway.get(`${gateway.base(amulet.admin)}${LIST}`)).status === 200);
    expect((await gateway.get(`${gateway.base("amulet")}${LIST}`)).cache).toBe("hit");
  });

  test("a body that contradicts its alias is refused as soon as it is known", async () => {
    const bonds = await startRegistry("bonds");
    const release = bonds.hold("info");
    const gateway = await serve({ upstreams: [unpinned(bonds)] });
    const torn = gateway.post(gateway.base("bonds") + FACTORY, expecting(OTHER));
    const agreed = gateway.post(gateway.base("bonds") + FACTORY, expecting(bonds.admin));
    await bonds.reached(1, "info");
    release();
    expect((await torn).code).toBe("admin_disagreement");
    expect((await agreed).status).toBe(200);
    expect(bonds.asked).toEqual(["transfer_factory"]);
  });

  test("nodes that name different ones disable the upstream", async () => {
    const amulet = await startRegistry("amulet", { nodes: 2 });
    amulet.on("info", namesOther, 1);
    const gateway = await serve({ upstreams: [unpinned(amulet)] });
    await until(async () => (await gateway.post(CANCEL)).code === "upstream_disabled");
    for (const request of ALL.slice(0, 5)) expectOwnError(await gateway.send(request), 503, "upstream_disabled");
    expect(String((await gateway.operations.upstream("amulet")).state)).toMatch(/disabled/);
  });

  test("two upstreams of one admin are both disabled until one is pinned", async () => {
    const amulet = await startRegistry("amulet");
    const twin = await startRegistry("twin", { admin: amulet.admin });
    const gateway = await serve({ upstreams: [unpinned(amulet), unpinned(twin)] });
    for (const name of ["amulet", "twin"]) {
      await until(async () => (await gateway.post(gateway.base(name) + CANCEL)).code === "upstream_disabled");
    }
    expectOwnError(await gateway.post(gateway.base(amulet.admin) + CANCEL), 503);
    const before = [amulet.count(), twin.count()];
    gateway.reload({ upstreams: [amulet, unpinned(twin)] });
    await until(async () => (await gateway.post(gateway.base(amulet.admin) + CANCEL)).status === 200);
    expect((await gateway.post(gateway.base("twin") + CANCEL)).status).not.toBe(200);
    expect([amulet.count() - before[0]!, twin.count() - before[1]!]).toEqual([1, 0]);
  });
});

test("two upstreams that name one admin in the configuration are bad configuration", async () => {
  const amulet = await startRegistry("amulet");
  const upstreams = [amulet, { ...amulet.upstream(), name: "twin" }];
  await expect(startGateway({ upstreams })).rejects.toThrow();
});

test("a server that accepts and says nothing is asked by nobody but the info", async () => {
  let bytes = "";
  const server = createServer((socket) =>
    socket.on("data", (chunk) => (bytes += chunk.toString())).on("error", () => 0),
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const upstream = {
    name: "mute",
    admin: OTHER,
    urls: [`http://127.0.0.1:${port}`],
    timeout: "1s",
    attemptTimeout: "1s",
  };
  const gateway = await startGateway({ upstreams: [upstream] });
  const { status } = await gateway.post(CANCEL, "{}", { "request-timeout": "1" });
  expect([503, 504]).toContain(status);
  await gateway.stop();
  server.close();
  expect(bytes.match(/^(GET|POST) \S+/gm)).toEqual([`GET ${INFO}`]);
});
