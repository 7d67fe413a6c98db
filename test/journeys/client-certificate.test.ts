import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { DSO } from "../support/sample.ts";
import { tlsFolder } from "../support/redis.ts";
import { useGateways } from "../support/gateways.ts";
import { errorOf, send } from "../support/send.ts";

const startRegistry = useSampleRegistries();
const startGateway = useGateways();

const pem = (name: string) => join(tlsFolder, `${name}.pem`);
const read = (name: string) => readFileSync(pem(name), "utf8");

const LIST = "/registry/metadata/v1/instruments";
const CALL = { path: "/registry/allocations/v1/00ab/choice-contexts/cancel", body: "{}" };
const DRAFT = { path: "/registry/drafts/v1/x" };
const OPERATIONS = ["instruments", "allocation_cancel", "pass_through"] as const;

/** A registry that asks for a client certificate, and a gateway that shows one. */
async function start(keys: Record<string, unknown> = {}) {
  const registry = await startRegistry({
    tls: { cert: read("server"), key: read("server-key"), ca: read("ca"), requestCert: true },
  });
  const gateway = await startGateway({
    // Stale at once, and served while the registry fails.
    cache: { ttl: { instruments: "1ms" }, honorUpstream: false, staleWhileRevalidate: "0s", staleIfError: "10m" },
    upstreams: [
      {
        name: "amulet",
        admin: DSO,
        urls: [registry.url],
        tls: { caFile: pem("ca"), certFile: pem("client"), keyFile: pem("client-key") },
        ...keys,
      },
    ],
  });
  return { registry, ...gateway };
}

test.each([401, 403])("%i to the gateway's client certificate is 502, buffered and passed through", async (status) => {
  const { registry, url } = await start();
  await registry.faults.set({ kind: "status", status, body: '{"error":"who?"}', operations: OPERATIONS });
  for (const request of [{ path: LIST }, CALL, DRAFT]) {
    const answer = await send(url, request);
    expect([answer.status, answer.headers["proxy-status"]]).toEqual([
      502,
      "registry-gateway;error=http_request_denied",
    ]);
    expect(errorOf(answer)).toContain(`refused the gateway's credentials (${status})`);
  }
});

test.each([401, 403])(
  "%i to the gateway's client certificate is answered from the cache where it can be",
  async (status) => {
    const { registry, url } = await start();
    const first = await send(url, { path: LIST });
    expect(first.status).toBe(200);
    await registry.faults.set({ kind: "status", status, body: '{"error":"who?"}', operations: OPERATIONS });
    const stale = await send(url, { path: LIST });
    expect([stale.status, stale.text]).toEqual([200, first.text]);
    expect(stale.headers["cache-status"]).toContain("fwd=stale");
  },
);

test("a refusal of what a client's own Authorization asks for is the registry's", async () => {
  const { registry, url } = await start({ forwardAuthorization: true });
  await registry.faults.set({ kind: "status", status: 403, body: '{"error":"who?"}', operations: OPERATIONS });
  const headers = { authorization: "Bearer of-the-client" };
  for (const request of [{ path: LIST }, CALL, DRAFT]) {
    expect((await send(url, { ...request, headers })).status).toBe(403);
    expect((await send(url, request)).status).toBe(502);
  }
});
