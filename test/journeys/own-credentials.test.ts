import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "node:net";
import { afterEach, describe, expect, test, vi } from "vitest";
import { contractId } from "../../src/sandbox/contracts.ts";
import { type FiveRegistries, startFiveRegistries, UPSTREAMS } from "../support/five-registries.ts";
import { send } from "../support/send.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";
import { makeKey, signToken } from "../support/token-issuer.ts";

const PREFIX = "/api/token-standard/v0/registrars";
const LISTING = "/registry/metadata/v1/instruments";
const ISSUER = "https://login.example";

const folder = useTemporaryFolder();
let running: FiveRegistries | undefined;

afterEach(() => running?.stop());

/** A gateway that takes tokens, before registries that get their clients' tokens, too. */
async function start(): Promise<{ gateway: FiveRegistries; tokenOf: (claims?: object) => string }> {
  const key = makeKey("ES256", "key-1");
  const jwksFile = join(folder(), "jwks.json");
  writeFileSync(jwksFile, JSON.stringify({ keys: [{ ...key.jwk, alg: "ES256", use: "sig" }] }));
  const jwt = [{ issuer: ISSUER, jwksFile, audience: "registry-gateway", tier: "wallet" }];
  const gateway = await startFiveRegistries({ clients: { jwt }, upstreamKeys: { forwardAuthorization: true } });
  running = gateway;
  let at = 0;
  return {
    gateway,
    tokenOf(claims = {}) {
      const exp = Math.floor(Date.now() / 1000) + 300;
      const all = { iss: ISSUER, aud: "registry-gateway", sub: "wallet-t", exp, jti: String(at++), ...claims };
      return signToken({ alg: "ES256", kid: "key-1" }, all, key);
    },
  };
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

/** Values of `authorization` that reached registries. */
function authorizations({ registries }: FiveRegistries): (string | undefined)[] {
  return UPSTREAMS.flatMap((name) => registries[name].calls.recent.map(({ headers }) => headers.authorization));
}

describe("a client with a token", () => {
  test("has its tier and its name, from the first request on", async () => {
    const { gateway, tokenOf } = await start();
    const token = tokenOf();
    for (let round = 0; round < 3; round++) {
      expect((await send(gateway.url, { path: `${PREFIX}/bonds${LISTING}`, headers: bearer(token) })).status).toBe(200);
      expect((await send(gateway.url, { path: `${PREFIX}/gold${LISTING}`, headers: bearer(token) })).status).toBe(403);
    }
    const ofExchange = { "x-api-key": tokenOf({ tier: "exchange" }) };
    expect((await send(gateway.url, { path: `${PREFIX}/gold${LISTING}`, headers: ofExchange })).status).toBe(200);
    const { lines } = gateway;
    await vi.waitFor(
      () =>
        expect(lines.filter(({ client, msg }) => client === "wallet-t" && msg === "request").length).toBeGreaterThan(3),
      { timeout: 60_000 },
    );
    expect(JSON.stringify(lines)).not.toContain(token.slice(-20));
  });

  test("keeps it to itself where registries get tokens, too, and takes no other place in the cache for it", async () => {
    const { gateway, tokenOf } = await start();
    const { url } = gateway;
    const path = `${PREFIX}/amulet${LISTING}`;
    const contract = contractId(gateway.registries.amulet.admin, "an allocation");
    for (const headers of [{}, bearer(tokenOf()), bearer(tokenOf()), { "x-api-key": gateway.keys.wallet }]) {
      expect((await send(url, { path, headers })).status).toBe(200);
      await send(url, { path: `${PREFIX}/amulet/registry/drafts/v1/x`, headers });
      await send(url, {
        path: `${PREFIX}/amulet/registry/allocations/v1/${contract}/choice-contexts/cancel`,
        headers,
        body: "{}",
      });
    }
    expect(gateway.registries.amulet.calls.count("instruments")).toBe(1);
    expect(new Set(authorizations(gateway))).toEqual(new Set([undefined]));
  });

  test("passes a registry's own token on beside its key, and never one of ours", async () => {
    const { gateway, tokenOf } = await start();
    const ask = (authorization: string) =>
      send(gateway.url, {
        path: `${PREFIX}/amulet/registry/drafts/v1/x`,
        headers: { "x-api-key": gateway.keys.wallet, authorization },
      });
    for (const theirs of ["Bearer of.the.registry", "Basic dXNlcjpwYXNz"]) {
      expect((await ask(theirs)).status).toBe(200);
      expect(authorizations(gateway).at(-1)).toBe(theirs);
    }
    gateway.clearCalls();
    const forged = signToken({ alg: "ES256", kid: "key-1" }, { iss: ISSUER, sub: "x" }, makeKey("ES256"));
    for (const ours of [tokenOf(), forged, gateway.keys.exchange]) {
      const answer = await ask(`Bearer ${ours}`);
      expect([answer.status, answer.headers["registry-gateway-error"]]).toEqual([401, "credentials_differ"]);
    }
    expect(gateway.called()).toEqual([]);
  });

  test("has the whole body of its POST passed on, though its token is checked while that comes", async () => {
    const { gateway, tokenOf } = await start();
    const body = Buffer.from(JSON.stringify({ text: "x".repeat(700_000) }));
    for (const path of ["/registry/drafts/v1/x", "/registry/allocations/v1/CID/choice-contexts/cancel"]) {
      await send(gateway.url, { path: `${PREFIX}/amulet${path}`, headers: bearer(tokenOf()), body });
      const { last } = gateway.registries.amulet.calls;
      expect(last!.body.equals(body)).toBe(true);
      // In chunks, the first of which comes with the head.
      await send(gateway.url, {
        path: `${PREFIX}/amulet${path}`,
        headers: { ...bearer(tokenOf()), "transfer-encoding": "chunked" },
        body,
      });
      expect(gateway.registries.amulet.calls.last!.body.equals(body)).toBe(true);
    }
  });

  test("that goes on a kept connection gets its answers in order", async () => {
    const { gateway, tokenOf } = await start();
    const { hostname, port } = new URL(gateway.url);
    const requests = [tokenOf(), "rgk_bad", tokenOf(), gateway.keys.wallet].map(
      (token, at) =>
        `GET ${PREFIX}/amulet${LISTING} HTTP/1.1\r\nHost: g\r\nX-Request-Id: r${at}\r\nAuthorization: Bearer ${token}\r\n` +
        `${at === 3 ? "Connection: close\r\n" : ""}\r\n`,
    );
    const text = await new Promise<string>((resolve, reject) => {
      let received = "";
      const socket = connect({ host: hostname, port: Number(port) });
      socket.setEncoding("latin1");
      socket.on("data", (chunk: string) => (received += chunk));
      socket.on("error", reject);
      socket.on("close", () => resolve(received));
      socket.write(requests.join(""));
    });
    expect(
      [...text.matchAll(/HTTP\/1\.1 (\d+)[^]*?x-request-id: (\S+)/gi)].map(([, status, id]) => [status, id]),
    ).toEqual([
      ["200", "r0"],
      ["401", "r1"],
      ["200", "r2"],
      ["200", "r3"],
    ]);
  });

  test("whose token is bad costs a line in the log and no call", async () => {
    const { gateway, tokenOf } = await start();
    const bad = [tokenOf({ exp: 1 }), tokenOf({ aud: "other" }), tokenOf({ tier: "nosuch" }), `${tokenOf()}x`];
    for (const token of bad) {
      const { status } = await send(gateway.url, { path: `${PREFIX}/amulet${LISTING}`, headers: bearer(token) });
      expect(status).toBe(401);
    }
    expect(gateway.called()).toEqual([]);
    const refused = () => gateway.lines.filter(({ msg, status }) => msg === "request" && status === 401);
    await vi.waitFor(() => expect(refused()).toHaveLength(bad.length), { timeout: 60_000 });
    expect(new Set(refused().map(({ client }) => client))).toEqual(new Set(["none"]));
  });
});
