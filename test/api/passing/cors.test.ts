import { describe, expect, test } from "vitest";
import { CANCEL, DRAFT, INFO, LIST } from "../../support/endpoints.ts";
import { useGateway } from "../../support/gateway.ts";
import { startRegistry } from "../../support/registry.ts";

const origin = "https://wallet.example";

const serve = useGateway();

async function start(keys: object = {}) {
  const amulet = await startRegistry("amulet");
  return { amulet, gateway: await serve({ ...keys, upstreams: [amulet] }) };
}

describe("a preflight", () => {
  test.each([INFO, LIST, CANCEL, DRAFT, "/", "/catalog/v1/registries", "/nothing"])(
    "of %s asks nobody, needs no credential, allows the fields that are asked for, and holds for 2 h",
    async (path) => {
      const { amulet, gateway } = await start({ clients: { anonymous: false, tiers: { anonymous: {} } } });
      const headers = {
        origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,sentry-trace,baggage,x-api-key",
      };
      const answer = await gateway.send({ method: "OPTIONS", path, headers });
      expect([answer.status, answer.text]).toEqual([204, ""]);
      expect(answer.headers["access-control-allow-origin"]).toBe("*");
      expect(answer.headers["access-control-allow-methods"]).toMatch(/GET/);
      expect(answer.headers["access-control-allow-methods"]).toMatch(/POST/);
      const allowed = String(answer.headers["access-control-allow-headers"]).split(/, ?/);
      expect(allowed).toEqual(
        expect.arrayContaining(["authorization", "content-type", "sentry-trace", "baggage", "x-api-key"]),
      );
      expect(answer.headers["access-control-max-age"]).toBe("7200");
      expect(answer.headers["access-control-allow-credentials"]).toBeUndefined();
      expect(amulet.asked).toEqual([]);
    },
  );
});

test("every answer has CORS fields, errors too, and exposes the fields of ours", async () => {
  const { amulet, gateway } = await start();
  amulet.on(DRAFT, { status: 500, fields: ["content-type", "text/plain"], body: "oops" });
  for (const request of [
    { path: INFO },
    { path: CANCEL, body: "{}" },
    { path: DRAFT },
    { path: "/nothing" },
    { path: `${LIST}?pageSize=0` },
    { path: "/registry/metadata/v1/instruments/%00" },
    { path: CANCEL, body: "{}", headers: { "content-type": "text/plain" } },
  ]) {
    const answer = await gateway.send({ ...request, headers: { origin, ...request.headers } });
    expect(answer.rawHeaders.filter((name) => name.toLowerCase() === "access-control-allow-origin")).toHaveLength(1);
    expect(answer.headers["access-control-allow-origin"]).toBe("*");
    const exposed = String(answer.headers["access-control-expose-headers"]).toLowerCase().split(/, ?/);
    expect(exposed).toEqual(
      expect.arrayContaining([
        "cache-status",
        "proxy-status",
        "x-request-id",
        "registry-gateway-error",
        "retry-after",
        "ratelimit",
        "ratelimit-policy",
        "etag",
        "age",
        "x-registry-partial",
      ]),
    );
  }
});

test("chosen origins are named one by one, on stored answers, errors and refused heads too", async () => {
  const { gateway } = await start({ cors: { origins: ["https://a.example", "https://b.example"] } });
  for (const [from, allowed] of [
    ["https://a.example", "https://a.example"],
    ["https://b.example", "https://b.example"],
    ["https://c.example", undefined],
    ["https://a.example.evil", undefined],
  ] as const) {
    for (const path of [INFO, INFO, "/nothing", DRAFT]) {
      const answer = await gateway.get(path, { origin: from });
      expect([path, answer.headers["access-control-allow-origin"]]).toEqual([path, allowed]);
      expect(answer.headers.vary?.toLowerCase()).toContain("origin");
    }
  }
});
