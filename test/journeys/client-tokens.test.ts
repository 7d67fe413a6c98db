import { writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { join } from "node:path";
import { expect, test } from "vitest";
import { useGateways } from "../support/gateways.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { DSO } from "../support/sample.ts";
import { errorOf, send } from "../support/send.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";
import { KeyServer, makeKey, signToken } from "../support/token-issuer.ts";

const folder = useTemporaryFolder();
const startRegistry = useSampleRegistries();
const startGateway = useGateways();

const INFO = "/registry/metadata/v1/info";
const CALL = { path: "/registry/allocations/v1/00ab/choice-contexts/cancel", body: "{}" };
const KEY = makeKey("ES256", "one");

const seconds = (): number => Math.floor(Date.now() / 1_000);

function tokenOf(claims: Record<string, unknown> = {}, key = KEY): string {
  const all = { iss: "https://login.example", aud: "gateway", sub: "wallet-a", tier: "wallet", exp: seconds() + 600 };
  return signToken({ alg: "ES256", kid: "one" }, { ...all, ...claims }, key);
}

async function start(source: { jwksUrl: string } | { jwksFile: string }) {
  const registry = await startRegistry({});
  const gateway = await startGateway({
    upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url], forwardAuthorization: true }],
    clients: {
      anonymous: false,
      jwt: [{ issuer: "https://login.example", audience: "gateway", algorithms: ["ES256"], ...source }],
      tiers: { wallet: {} },
    },
  });
  return { registry, ...gateway };
}

test("a client with a token is served, by any of the routes, and its token goes no further", async () => {
  const jwksFile = join(folder(), "jwks.json");
  writeFileSync(jwksFile, JSON.stringify({ keys: [KEY.jwk] }));
  const { registry, url } = await start({ jwksFile });
  const token = tokenOf();
  for (const headers of [{ authorization: `Bearer ${token}` }, { "x-api-key": token }]) {
    for (const request of [{ path: INFO }, { path: INFO }, CALL, { path: "/registry/drafts/v1/x" }]) {
      const answer = await send(url, { ...request, headers });
      expect(answer.status).not.toBe(401);
      expect(answer.status).toBeLessThan(500);
    }
  }
  const seen = JSON.stringify(registry.calls.recent.map(({ url, rawHeaders }) => [url, rawHeaders]));
  expect(seen).toContain(INFO);
  expect(seen).not.toContain(token.split(".")[2]);
});

test("a token that is bad, or none, is 401 and says what to do", async () => {
  const jwksFile = join(folder(), "jwks.json");
  writeFileSync(jwksFile, JSON.stringify({ keys: [KEY.jwk] }));
  const { url } = await start({ jwksFile });
  const cases: [headers: Record<string, string>, code: string][] = [
    [{}, "credential_missing"],
    [{ authorization: `Bearer ${tokenOf({ exp: seconds() - 60 })}` }, "credential_expired"],
    [{ authorization: `Bearer ${tokenOf({ aud: "other" })}` }, "credential_invalid"],
    [{ authorization: `Bearer ${tokenOf({}, makeKey("ES256"))}` }, "credential_invalid"],
    [{ authorization: `Bearer ${tokenOf({ tier: "exchange" })}` }, "credential_invalid"],
    [{ authorization: `Bearer ${tokenOf({ x: "x".repeat(9_000) })}` }, "credential_invalid"],
    [{ authorization: "Bearer x.y.z" }, "credential_missing"],
    [{ authorization: `Bearer ${tokenOf()}`, "x-api-key": tokenOf({ sub: "wallet-b" }) }, "credentials_differ"],
  ];
  for (const [headers, code] of cases) {
    const answer = await send(url, { path: INFO, headers });
    expect([answer.status, answer.headers["registry-gateway-error"]]).toEqual([401, code]);
    expect(answer.headers["www-authenticate"]).toContain("Bearer");
    expect(errorOf(answer)).toMatch(/^registry-gateway: /);
  }
});

test("while the issuer's keys cannot be had, tokens are put off, and then taken", async () => {
  const server = await new KeyServer().listen();
  try {
    server.answer = (_request, response) => void response.writeHead(503).end();
    const { url } = await start({ jwksUrl: server.url });
    const answer = await send(url, { path: INFO, headers: { authorization: `Bearer ${tokenOf()}` } });
    expect([answer.status, answer.headers["registry-gateway-error"]]).toEqual([503, "client_keys_unavailable"]);
    expect(answer.headers["retry-after"]).toBe("10");
    expect(answer.headers["proxy-status"]).toBe("registry-gateway;error=proxy_internal_error");
    expect(answer.text).not.toContain(new URL(server.url).port);
    server.answer = undefined;
    server.keys = [KEY.jwk];
    const other = await start({ jwksUrl: server.url });
    const served = await send(other.url, { path: INFO, headers: { authorization: `Bearer ${tokenOf()}` } });
    expect(served.status).toBe(200);
  } finally {
    await server.close();
  }
});

// Each may hold 4 MiB, in chunks of a byte, until its client is known.
test("while the issuer's keys are awaited, 32 bodies in chunks wait at most, and any with a length", async () => {
  const server = await new KeyServer().listen();
  try {
    const asked = Promise.withResolvers<ServerResponse>();
    server.answer = (_request, response) => asked.resolve(response);
    const { url } = await start({ jwksUrl: server.url });
    const headers = { authorization: `Bearer ${tokenOf()}`, "content-type": "application/json" };
    const inChunks = Array.from({ length: 40 }, () =>
      send(url, { ...CALL, headers: { ...headers, "transfer-encoding": "chunked" } }),
    );
    const answers: Promise<number>[] = inChunks.map((each) => each.then(({ status }) => status));
    let refused = 0;
    for (const each of answers) void each.then(() => (refused += 1));
    await expect.poll(() => refused).toBe(8);
    const whole = send(url, { ...CALL, headers });
    (await asked.promise).end(JSON.stringify({ keys: [KEY.jwk] }));
    const statuses = await Promise.all(answers);
    expect(statuses.filter((status) => status === 503)).toHaveLength(8);
    expect(statuses.filter((status) => status < 500)).toHaveLength(32);
    expect((await whole).status).toBeLessThan(500);
  } finally {
    await server.close();
  }
});
