import { request as httpRequest } from "node:http";
import { describe, expect, test } from "vitest";
import { TestClock } from "../../support/clock.ts";
import { ADMIN_HEADER, DRAFT, LIST } from "../../support/endpoints.ts";
import { startGateway, useGateway } from "../../support/gateway.ts";
import { expectOwnError } from "../../support/http.ts";
import { startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

const clock = TestClock.running();
const serve = useGateway(clock);

async function start(upstream: object = {}) {
  const amulet = await startRegistry("amulet");
  return { amulet, gateway: await serve({ upstreams: [amulet.upstream(upstream)] }) };
}

const JSON_TYPE = { "content-type": "application/json" };

describe("what passes through", () => {
  test("is any other path below /registry of a known admin, with GET and POST", async () => {
    const { amulet, gateway } = await start();
    for (const path of [
      "/registry/conditional-lock/v1/lock-factory",
      "/registry/transfer-preapproval/v1/x?y",
      "/registry/traffic-purchase/v1/conversion-rates/Amulet%2FUSD?admin=somebody::1220",
      "/registry/metadata/v2/info",
      "/registry/a%20b/%E2%82%AC?x=%20+%2B",
      "/registry/x",
    ]) {
      for (const body of [undefined, '{ "x": 1.0 }']) {
        const answer = await gateway.send({ path: gateway.base("amulet") + path, ...(body !== undefined && { body }) });
        expect([path, answer.status]).toEqual([path, 200]);
        expect([amulet.last.method, amulet.last.url]).toEqual([body === undefined ? "GET" : "POST", path]);
        expect(amulet.last.body.toString()).toBe(body ?? "");
      }
    }
  });

  test("keeps status, type and body of any answer", async () => {
    const { amulet, gateway } = await start();
    for (const [status, type, body] of [
      [200, "text/plain", "hello"],
      [201, "application/json", '{"a":1.0}'],
      [202, "application/x-ndjson", '{"a":1}\n{"a":2}\n'],
      [400, "text/html", "<p>no</p>"],
      [404, "text/html", "<html>no</html>"],
      [409, "application/json", '{"error":"x"}'],
      [418, "text/plain", "teapot"],
      [500, "text/plain", "oops"],
    ] as const) {
      amulet.on(DRAFT, { status, fields: ["Content-Type", type], body });
      const answer = await gateway.get(DRAFT);
      expect([answer.status, answer.headers["content-type"], answer.text]).toEqual([status, type, body]);
      expect(answer.headers["content-security-policy"]).toMatch(/\bsandbox\b/);
      expect(answer.headers["x-content-type-options"]).toBe("nosniff");
    }
    amulet.on(DRAFT, { status: 204 });
    expect((await gateway.get(DRAFT)).status).toBe(204);
  });

  test("is never kept here, whatever it says", async () => {
    const { amulet, gateway } = await start();
    amulet.on(DRAFT, { fields: ["Cache-Control", "public, max-age=60", "ETag", '"x"'], body: "{}" });
    for (let round = 1; round <= 3; round += 1) {
      const answer = await gateway.get(DRAFT, { "if-none-match": '"x"' });
      expect([answer.status, answer.headers.etag, answer.headers["cache-control"]]).toEqual([
        200,
        '"x"',
        "public, max-age=60",
      ]);
      expect(answer.cache).toBeUndefined();
      expect(amulet.count()).toBe(round);
    }
    const posted = await gateway.post(DRAFT, "{}");
    expect(posted.headers["cache-control"]).toBe("no-store");
  });

  test.each(["PUT", "DELETE", "PATCH", "HEAD"])("is not asked by %s: 405", async (method) => {
    const { amulet, gateway } = await start();
    const answer = await gateway.send({ method, path: DRAFT });
    expect(answer.status).toBe(405);
    expect(answer.headers.allow).toMatch(/GET, POST/);
    expect(amulet.asked).toEqual([]);
  });

  test("is bounded by limits both ways, in chunks and with a length", async () => {
    const amulet = await startRegistry("amulet");
    const gateway = await startGateway({
      limits: { requestBody: "64KiB", responseBody: "64KiB" },
      upstreams: [amulet],
    });
    const large = "x".repeat(70_000);
    for (const headers of [JSON_TYPE, { ...JSON_TYPE, "transfer-encoding": "chunked" }]) {
      expectOwnError(await gateway.post(DRAFT, large, headers), 413, "body_too_large");
      expect((await gateway.post(DRAFT, `"${large.slice(0, 60_000)}"`, headers)).status).toBe(200);
    }
    for (const fields of [[], ["Transfer-Encoding", "chunked"]]) {
      amulet.on(DRAFT, { fields, body: large });
      const answer = await gateway.get(DRAFT).catch(() => undefined);
      // Whole, or an error: never a part that looks like all.
      expect(answer === undefined || answer.status === 502 || !answer.isComplete).toBe(true);
    }
    amulet.on(DRAFT, { body: large.slice(0, 60_000) });
    expect((await gateway.get(DRAFT)).bytes).toHaveLength(60_000);
  });

  test("an answer that breaks off is no whole answer", async () => {
    const { amulet, gateway } = await start();
    amulet.on(DRAFT, { raw: "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf" });
    const answer = await gateway.get(DRAFT).catch(() => undefined);
    expect(answer === undefined || answer.status === 502 || !answer.isComplete).toBe(true);
  });

  test("ends at the registry when the client goes away", async () => {
    const { amulet, gateway } = await start();
    expect((await gateway.get(LIST)).status).toBe(200);
    amulet.on(DRAFT, "hang");
    const { hostname, port } = new URL(gateway.url);
    const sent = httpRequest({ hostname, port, path: DRAFT, agent: false });
    sent.on("error", () => undefined);
    sent.end();
    await amulet.reached(2);
    sent.destroy();
    await until(() => amulet.last.isAborted);
  });

  test("has the upstream's deadline, before and within the answer", async () => {
    const { amulet, gateway } = await start();
    expect((await gateway.get(LIST)).status).toBe(200);
    for (const script of [
      "hang",
      (_call: unknown, response: { write(text: string): void }) => response.write("half"),
    ]) {
      amulet.reset().on(DRAFT, script as "hang");
      const answer = gateway.get(DRAFT).catch(() => undefined);
      await amulet.reached(1);
      clock.advance("15s");
      const ended = await answer;
      expect(ended === undefined || ended.status === 504 || !ended.isComplete).toBe(true);
      await until(() => !amulet.last.isOpen);
    }
  });

  test("takes its part of the upstream's rate limit", async () => {
    const { amulet, gateway } = await start({ rateLimit: { requests: "4/1m" } });
    const statuses = [];
    for (let round = 0; round < 6; round += 1) {
      const { status } = await gateway.get(DRAFT, { "request-timeout": "0.2" });
      statuses.push(status);
    }
    expect(statuses).toContain(429);
    expect(amulet.calls.length).toBeLessThanOrEqual(4);
  });

  test("keeps fields that a registry repeats", async () => {
    const { amulet, gateway } = await start();
    amulet.on(DRAFT, { fields: ["Link", "</a>", "Content-Language", "en", "Link", "</b>"], body: "{}" });
    expect((await gateway.get(DRAFT)).headers.link).toBe("</a>, </b>");
  });

  test("is told apart from standard paths: those with a bad id or method are not passed on", async () => {
    const { amulet, gateway } = await start();
    for (const [path, status] of [
      [`${LIST}/a/b`, 404],
      ["/registry/allocations/v1/a/b/choice-contexts/cancel", 404],
      [`${LIST}/`, 400],
    ] as const) {
      expect([path, (await gateway.post(path)).status === 405 ? 405 : (await gateway.get(path)).status]).toEqual([
        path,
        status,
      ]);
    }
    expect(amulet.asked).toEqual([]);
  });

  test("goes where its header says, before several registries", async () => {
    const amulet = await startRegistry("amulet");
    const bonds = await startRegistry("bonds");
    const gateway = await serve({ upstreams: [amulet, bonds] });
    expect((await gateway.get(DRAFT, { [ADMIN_HEADER]: bonds.admin })).json.registry).toBe("bonds");
    expect((await gateway.get(DRAFT)).status).toBe(400);
    expect(amulet.asked).toEqual([]);
  });
});
