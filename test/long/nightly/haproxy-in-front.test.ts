import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { setTimeout as pause } from "node:timers/promises";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { atEnd } from "../../support/closing.ts";
import { CANCEL, DRAFT, INFO, LIST, PREFIX } from "../../support/endpoints.ts";
import { startGateway, temporaryFolder, type TestGateway } from "../../support/gateway.ts";
import { Site } from "../../support/http.ts";
import { findFreePort } from "../../support/ports.ts";
import { HAPROXY } from "../../support/programs.ts";
import { instrument, type Registry, startRegistry } from "../../support/registry.ts";
import { startConfigured } from "../../support/servers.ts";

/** HAProxy with kept connections, a look at readiness, and retries of what got no answer, be it a POST: all are lookups. */
const configuration = (port: number, gateways: readonly { port: number; operations: number }[]): string => `
global
  maxconn 2000
defaults
  mode http
  retries 3
  option redispatch 1
  retry-on conn-failure empty-response
  timeout connect 2s
  timeout client 60s
  timeout server 30s
  timeout check 5s
  timeout http-keep-alive 60s
  http-reuse always
frontend front
  # HTTP/1.1, and HTTP/2 by its preface.
  bind 127.0.0.1:${port}
  http-request set-header x-forwarded-for %[src]
  default_backend gateways
backend gateways
  balance roundrobin
  option httpchk GET /readyz
  http-check send hdr host localhost
${gateways.map((each, at) => `  server g${at} 127.0.0.1:${each.port} check port ${each.operations} inter 100 fall 1 rise 1`).join("\n")}
`;

describe("two gateways behind HAProxy", () => {
  let amulet: Registry;
  let places: { port: number; operations: number }[];
  let gateways: TestGateway[];
  let front: Site;
  const start = ({ port, operations }: { port: number; operations: number }): Promise<TestGateway> =>
    startGateway({
      listen: { port, trustedProxies: ["127.0.0.1"] },
      operations: { port: operations },
      shutdown: { grace: "1s", timeout: "5s" },
      log: { hits: 1, addresses: true },
      upstreams: [amulet],
    });

  beforeAll(async () => {
    amulet = await startRegistry();
    places = await Promise.all(
      [0, 1].map(async () => ({ port: await findFreePort(), operations: await findFreePort() })),
    );
    gateways = await Promise.all(places.map(start));
    const server = await startConfigured({
      name: "HAProxy",
      program: HAPROXY,
      folder: temporaryFolder(),
      configuration: (port) => configuration(port, places),
      args: (file) => ["-f", file],
    });
    atEnd(() => server.stop());
    front = new Site(`http://127.0.0.1:${server.port}`);
  });

  beforeEach(() => {
    amulet.reset();
  });

  test("an id with an encoded slash stays one segment, a body of a MiB passes, and more is refused in JSON", async () => {
    amulet.instruments.push(instrument("Amulet/USD"));
    const answer = await front.get(`${PREFIX}/amulet${LIST}/Amulet%2FUSD`);
    expect([answer.status, answer.json.id]).toEqual([200, "Amulet/USD"]);
    expect((await front.post(CANCEL, `{"meta":{"x":"${"x".repeat(2 ** 20 - 40)}"}}`)).status).toBe(200);
    expect((await front.post(CANCEL, `{"meta":{"x":"${"x".repeat(2 ** 20)}"}}`)).outcome).toBe("413 body_too_large");
  });

  test("no client chooses its own address", async () => {
    await front.get(INFO, { "x-forwarded-for": "203.0.113.7" });
    const addresses = gateways.flatMap(({ requestLines }) => requestLines.map(({ address }) => address));
    expect(new Set(addresses)).toEqual(new Set(["127.0.0.1"]));
  });

  test("the connections to the gateways are kept: a hundred calls need a few", async () => {
    const before = gateways.map(({ requestLines }) => requestLines.length);
    for (let round = 0; round < 100; round += 1) expect((await front.post(CANCEL)).status).toBe(200);
    const open = await Promise.all(gateways.map(({ operations }) => operations.metric("registry_gateway_connections")));
    expect(gateways.every(({ requestLines }, at) => requestLines.length > before[at]! + 20)).toBe(true);
    expect(Math.max(...open)).toBeLessThan(10);
  });

  test("an answer of a failing registry is one answer: retries do not multiply", async () => {
    amulet.on("*", { status: 503, body: { error: "closed" } });
    for (const path of [CANCEL, DRAFT]) {
      amulet.calls.length = 0;
      expect((await front.post(path)).status).toBe(503);
      // Ours are within the budget; HAProxy tries no answer again.
      expect(amulet.count()).toBeLessThanOrEqual(3);
    }
  });

  test("clients that speak HTTP/2 get what others get, many at once on one connection", async () => {
    const session = connectHttp2(front.url);
    atEnd(() => session.destroy());
    const ask = async (at: number): Promise<[number, string]> => {
      const isCall = at % 2 === 0;
      const stream = session.request({
        ":path": isCall ? CANCEL : INFO,
        ":method": isCall ? "POST" : "GET",
        "content-type": "application/json",
      });
      stream.end(isCall ? "{}" : undefined);
      let text = "";
      stream.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      const [[headers]] = await Promise.all([once(stream, "response"), once(stream, "end")]);
      return [(headers as { ":status": number })[":status"], text];
    };
    const answers = await Promise.all(Array.from({ length: 60 }, (_none, at) => ask(at)));
    const expected = [(await front.post(CANCEL)).text, (await front.get(INFO)).text];
    for (const [at, answer] of answers.entries()) expect(answer).toEqual([200, expected[at % 2]]);
  });

  test("a restart of one gateway after the other costs no client an error", async () => {
    const over = new AbortController();
    const outcomes = new Map<string, number>();
    const clients = Array.from({ length: 8 }, async (_none, client) => {
      for (let round = client; !over.signal.aborted; round += 1) {
        const { outcome } = await (round % 2 === 0 ? front.get(INFO) : front.post(CANCEL));
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
        await pause(1);
      }
    });
    for (const [at, place] of places.entries()) {
      await gateways[at]!.stop({ grace: true });
      gateways[at] = await start(place);
      // Until HAProxy has seen that it is back.
      await pause(500);
    }
    over.abort();
    await Promise.all(clients);
    expect([...outcomes.keys()]).toEqual(["200"]);
  });
});
