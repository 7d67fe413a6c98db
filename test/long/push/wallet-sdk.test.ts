import { createHmac } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type PostRequest, TokenStandardClient } from "@canton-network/core-token-standard";
import { describe, expect, onTestFinished, test } from "vitest";
import { contractId } from "../../../src/sandbox/contracts.ts";
import { newClient } from "../../support/five-registries.ts";
import { useGateways } from "../../support/gateways.ts";
import { ownError } from "../../support/own-error.ts";
import { useSampleRegistries } from "../../support/sample-registries.ts";
import { DSO, sampleJson } from "../../support/sample.ts";
import { send } from "../../support/send.ts";
import { useTemporaryFolder } from "../../support/temporary-folder.ts";
import { makeKey, signToken } from "../../support/token-issuer.ts";

const folder = useTemporaryFolder();
const startRegistry = useSampleRegistries();
const startGateway = useGateways();

const silent = { info() {}, debug() {}, warn() {}, error() {}, trace() {}, fatal() {}, child: () => silent };
const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");

/** What a wallet shows its ledger, and every registry: a token by a shared secret that no gateway knows. */
const LEDGER_TOKEN = (() => {
  const text = `${part({ alg: "HS256", typ: "JWT" })}.${part({ sub: "ledger-api-user", aud: "https://ledger", iss: "unsafe-auth" })}`;
  return `${text}.${createHmac("sha256", "unsafe").update(text).digest("base64url")}`;
})();

/** The SDK's client, unchanged, as the SDK makes it. */
function clientOf(baseUrl: string, token = LEDGER_TOKEN): TokenStandardClient {
  type Parameters = ConstructorParameters<typeof TokenStandardClient>;
  const provider = { getAccessToken: async () => token };
  return new TokenStandardClient(baseUrl, silent, provider as unknown as Parameters[2]);
}

/** Every function of a registry that the SDK calls, by name. */
function functionsOf(client: TokenStandardClient): Readonly<Record<string, () => Promise<unknown>>> {
  type Transfer = PostRequest<"/registry/transfer-instruction/v1/transfer-factory">;
  type Allocation = PostRequest<"/registry/allocation-instruction/v1/allocation-factory">;
  const transferInstructionId = contractId(DSO, "a transfer");
  const allocationId = contractId(DSO, "an allocation");
  const context = { excludeDebugFields: true };
  return {
    info: () => client.get("/registry/metadata/v1/info"),
    instruments: () => client.get("/registry/metadata/v1/instruments", { query: { pageSize: 1000 } }),
    instrument: () =>
      client.get("/registry/metadata/v1/instruments/{instrumentId}", { path: { instrumentId: "Amulet" } }),
    "transfer factory": () =>
      client.post(
        "/registry/transfer-instruction/v1/transfer-factory",
        sampleJson("04-transfer-factory.request.amulet.json") as Transfer,
      ),
    "allocation factory": () =>
      client.post(
        "/registry/allocation-instruction/v1/allocation-factory",
        sampleJson("11-allocation-factory.request.amulet.json") as Allocation,
      ),
    ...Object.fromEntries(
      (["accept", "reject", "withdraw"] as const).map((choice) => [
        choice,
        () =>
          client.post(`/registry/transfer-instruction/v1/{transferInstructionId}/choice-contexts/${choice}`, context, {
            path: { transferInstructionId },
          }),
      ]),
    ),
    ...Object.fromEntries(
      (["execute-transfer", "withdraw", "cancel"] as const).map((choice) => [
        `allocation ${choice}`,
        () =>
          client.post(`/registry/allocations/v1/{allocationId}/choice-contexts/${choice}`, context, {
            path: { allocationId },
          }),
      ]),
    ),
  };
}

async function start(clients: object, upstreamKeys: object = {}) {
  const registry = await startRegistry({});
  const gateway = await startGateway({
    upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url], ...upstreamKeys }],
    clients,
  });
  return { ...gateway, registry };
}

/** A wallet's own way out, which adds its key of the gateway to whatever the SDK sends. */
function addKey(key: string): void {
  const { fetch } = globalThis;
  onTestFinished(() => void (globalThis.fetch = fetch));
  globalThis.fetch = (input, init) => {
    const request = new Request(input, init);
    request.headers.set("x-api-key", key);
    return fetch(request);
  };
}

describe("the official wallet SDK, which sends its ledger's token to every registry,", () => {
  test("works as an anonymous client where everybody may call", async () => {
    const { url, registry } = await start({});
    for (const [name, call] of Object.entries(functionsOf(clientOf(url)))) {
      await expect(call(), name).resolves.toBeTypeOf("object");
    }
    expect(registry.calls.recent.filter(({ headers }) => headers.authorization !== undefined)).toEqual([]);
  });

  test("works where two nodes have to say the same", async () => {
    const nodes = [await startRegistry({}), await startRegistry({}), await startRegistry({})];
    const agreement = { admin: 2, metadata: 2, contexts: 2 };
    const { url } = await startGateway({
      upstreams: [{ name: "amulet", admin: DSO, urls: nodes.map((node) => node.url), agreement }],
    });
    const functions = Object.entries(functionsOf(clientOf(url)));
    for (const [name, call] of functions) await expect(call(), name).resolves.toBeTypeOf("object");
    const asked = nodes.flatMap(({ calls }) => calls.recent.filter(({ method }) => method === "POST"));
    const posts = functions.filter(([name]) => !/^(info|instruments?)$/.test(name));
    expect(asked).toHaveLength(2 * posts.length);
  });

  test("works where equal questions have one answer", async () => {
    const cacheHeaders = () => ({ "cache-control": "max-age=60" });
    const nodes = [await startRegistry({ cacheHeaders }), await startRegistry({ cacheHeaders })];
    const contexts = { share: true, maxAge: "1m" };
    const { url } = await startGateway({
      upstreams: [
        { name: "amulet", admin: DSO, urls: nodes.map((node) => node.url), agreement: { contexts: 2 }, contexts },
      ],
    });
    const functions = Object.entries(functionsOf(clientOf(url)));
    for (const [name, call] of functions) {
      const answers = [...(await Promise.all([call(), call()])), await call()];
      expect(answers[1], name).toEqual(answers[0]);
      expect(answers[2], name).toEqual(answers[0]);
    }
    const asked = nodes.flatMap(({ calls }) => calls.recent.filter(({ method }) => method === "POST"));
    const posts = functions.filter(([name]) => !/^(info|instruments?)$/.test(name));
    expect(asked).toHaveLength(2 * posts.length);
  });

  test("works with a key beside its token, and the key alone says who it is", async () => {
    const keysFile = join(folder(), "clients.jsonl");
    const { key, entry } = newClient("wallet-a", "wallet");
    writeFileSync(keysFile, `${JSON.stringify(entry)}\n`);
    const { url, registry, lines } = await start({ anonymous: false, keysFile, tiers: { wallet: {} } });
    addKey(key);
    for (const [name, call] of Object.entries(functionsOf(clientOf(url)))) {
      await expect(call(), name).resolves.toBeTypeOf("object");
    }
    expect(JSON.stringify(registry.calls.recent.map(({ rawHeaders }) => rawHeaders))).not.toContain("rgk_");
    const posts = lines.filter(({ msg, method }) => msg === "request" && method === "POST");
    expect(new Set(posts.map(({ client }) => client))).toEqual(new Set(["wallet-a"]));
  });

  test("fails with a code in the body where tokens of an issuer are asked for, and works with one", async () => {
    const issued = makeKey("ES256", "one");
    const jwksFile = join(folder(), "jwks.json");
    writeFileSync(jwksFile, JSON.stringify({ keys: [issued.jwk] }));
    const jwt = [
      { issuer: "https://login.example", audience: "gateway", algorithms: ["ES256"], tier: "wallet", jwksFile },
    ];
    const { url, registry } = await start({ anonymous: false, jwt, tiers: { wallet: {} } });
    for (const [name, call] of Object.entries(functionsOf(clientOf(url)))) {
      await expect(call(), name).rejects.toEqual(ownError(/x-api-key/, { code: "credential_missing" }));
    }
    // The gateway itself asks whose the node is.
    expect(registry.calls.recent.filter(({ operation }) => operation !== "info")).toEqual([]);
    const exp = Math.floor(Date.now() / 1_000) + 600;
    const claims = { iss: "https://login.example", aud: "gateway", sub: "wallet-a", exp };
    const token = signToken({ alg: "ES256", kid: "one" }, claims, issued);
    for (const [name, call] of Object.entries(functionsOf(clientOf(url, token)))) {
      await expect(call(), name).resolves.toBeTypeOf("object");
    }
    const expired = signToken({ alg: "ES256", kid: "one" }, { ...claims, exp: exp - 3_600 }, issued);
    for (const [name, call] of Object.entries(functionsOf(clientOf(url, expired)))) {
      await expect(call(), name).rejects.toEqual(ownError(/expired/, { code: "credential_expired" }));
    }
  });

  test("has its token sent on with its calls, and takes nobody's place in the cache for it, where calls alone have it", async () => {
    const { url, registry } = await start({}, { forwardAuthorization: "calls" });
    await functionsOf(clientOf(url))["instruments"]!();
    registry.calls.clear();
    for (const token of [LEDGER_TOKEN, "another.wallets.token"]) {
      const functions = functionsOf(clientOf(url, token));
      await functions["instruments"]!();
      await functions["accept"]!();
      await send(url, { path: "/registry/drafts/v1/x", headers: { authorization: `Bearer ${token}` } });
      const sent = registry.calls.recent.slice(-2).map(({ headers }) => headers.authorization);
      expect(sent).toEqual([`Bearer ${token}`, `Bearer ${token}`]);
    }
    expect(registry.calls.count("instruments")).toBe(0);
  });

  test("is told what the gateway's own id is when it takes that for a registry's admin", async () => {
    const registries = [await startRegistry({}), await startRegistry({ admin: "bonds::1220" })];
    const { url } = await startGateway({
      aggregate: { adminId: "gateway::1220" },
      upstreams: registries.map(({ admin, url: at }, i) => ({ name: `registry-${i}`, admin, urls: [at] })),
    });
    const prefix = "/api/token-standard/v0/registrars";
    const { adminId } = await clientOf(url).get("/registry/metadata/v1/info");
    expect(adminId).toBe("gateway::1220");
    const client = clientOf(`${url}${prefix}/${adminId}`);
    await expect(client.get("/registry/metadata/v1/instruments", { query: { pageSize: 1000 } })).rejects.toEqual(
      ownError(/gateway's own id.*registrars\/registry-0, .*registrars\/registry-1/, { code: "admin_unknown" }),
    );
  });
});
