import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from "jose";
import { beforeEach, describe, expect, test } from "vitest";
import type { Client } from "../../../src/clients/client.ts";
import { Clients, isOwnAuthorization } from "../../../src/clients/clients.ts";
import { digestOf, newKey } from "../../../src/clients/credential.ts";
import type { ClientKey, LoadedConfig } from "../../../src/config/loaded.ts";
import type { ClientsConfig } from "../../../src/config/schema.ts";
import { GatewayError } from "../../../src/errors.ts";
import { TestClock } from "../../support/clock.ts";
import { Issuer } from "../../support/issuer.ts";

const TIERS: ClientsConfig["tiers"] = {
  open: { upstreams: ["amulet"], requests: { requests: 5, per: 60_000 } },
  wallet: { upstreams: ["*"] },
};

let clock = TestClock.running();
beforeEach(() => {
  clock = TestClock.running();
});

function clientsOf(config: Partial<ClientsConfig>, keys: readonly ClientKey[] = [], previous?: Clients): Clients {
  const clients = { anonymous: "open", jwt: [], tiers: TIERS, ...config };
  return Clients.create({ config: { clients }, keys } as unknown as LoadedConfig, previous, { clock })!;
}

/** Name, kind and tier of who is identified, or status and code of the refusal. */
async function who(clients: Clients, headers: Record<string, string> = {}, address = "192.0.2.1"): Promise<string> {
  try {
    const { name, kind, tier } = await clients.identify(Object.entries(headers).flat(), address);
    return `${name} ${kind} ${tier}`;
  } catch (error) {
    if (error instanceof GatewayError) return `${error.status} ${error.code}`;
    throw error;
  }
}

const KEY = newKey();
const OTHER = newKey();
const keys = (): ClientKey[] => [
  { name: "wallet-a", tier: "wallet", digest: digestOf(KEY) },
  { name: "wallet-b", tier: "wallet", digest: digestOf(OTHER), expires: clock.wallNow() + 60_000 },
];

describe("a client is known", () => {
  test("by its key, as X-API-Key or as a bearer token, until it expires", async () => {
    const clients = clientsOf({}, keys());
    expect(await who(clients, { "X-API-Key": KEY })).toBe("wallet-a key wallet");
    expect(await who(clients, { Authorization: `Bearer ${KEY}` })).toBe("wallet-a key wallet");
    expect(await who(clients, { Authorization: `Bearer ${KEY}`, "x-api-key": KEY })).toBe("wallet-a key wallet");
    expect(await who(clients, { "x-api-key": OTHER })).toBe("wallet-b key wallet");
    clock.advance("61s");
    expect(await who(clients, { "x-api-key": OTHER })).toBe("401 credential_expired");
  });

  test("not by one that is mistyped or unknown, or by two that differ", async () => {
    const clients = clientsOf({}, keys());
    expect(await who(clients, { "x-api-key": `${KEY.slice(0, -1)}x` })).toBe("401 credential_invalid");
    expect(await who(clients, { "x-api-key": newKey() })).toBe("401 credential_invalid");
    expect(await who(clients, { "x-api-key": KEY, authorization: `Bearer ${OTHER}` })).toBe("401 credentials_differ");
  });

  test("by its address where it shows nothing of ours: ledger tokens are sent everywhere", async () => {
    const clients = clientsOf({}, keys());
    for (const headers of [
      {},
      { authorization: "Bearer a.b.c" },
      { authorization: "Basic eA==" },
      { "x-api-key": "x" },
    ]) {
      expect(await who(clients, headers)).toBe("anonymous anonymous open");
    }
  });

  test("or not at all, where everybody needs a credential: it is told how to send one", async () => {
    const clients = clientsOf({ anonymous: false }, keys());
    expect(await who(clients)).toBe("401 credential_missing");
    expect(await who(clients, { authorization: "Bearer a.b.c" })).toBe("401 credential_missing");
    expect(() => clients.identify([], "")).toThrow(/X-API-Key.*Authorization: Bearer rgk_/);
  });
});

test.each([
  ["192.0.2.1", "192.0.2.1"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
  ["2001:db8:1:2::ffff", "2001:db8:1:2::/64"],
  ["fe80::1", "fe80:0:0:0::/64"],
  ["unknown", "unknown"],
  ["a:b", "a:b"],
])("the address %s counts as %s", (address, network) => {
  expect((clientsOf({}).identify([], address) as Client).id).toBe(`address:${network}`);
});

test("a tier sees its upstreams alone", () => {
  const clients = clientsOf({}, keys());
  const [stranger, known] = [clients.identify([], "::1"), clients.identify(["x-api-key", KEY], "::1")] as Client[];
  expect(["amulet", "bonds"].map((name) => stranger!.allows(name))).toEqual([true, false]);
  expect(["amulet", "bonds"].map((name) => known!.allows(name))).toEqual([true, true]);
});

test("counts go on after a reload, and the report names all of the keys file and all others who called", () => {
  const first = clientsOf({}, keys());
  first.admit(first.identify(["x-api-key", KEY], "::1") as Client);
  for (let at = 0; at < 6; at += 1) first.admit(first.identify([], "192.0.2.1") as Client);
  const next = clientsOf({}, keys(), first);
  expect(next.admit(next.identify([], "192.0.2.1") as Client).refusal).toBeDefined();
  expect(next.report().map(({ name, requests, refused }) => [name, requests, refused])).toEqual([
    ["anonymous", 7, 2],
    ["wallet-a", 1, 0],
    ["wallet-b", 0, 0],
  ]);
  expect(next.report().find(({ name }) => name === "wallet-b")).toHaveProperty("expires");
});

describe("a token of a configured issuer", () => {
  let issuer: Issuer;
  let clients: Clients;
  const bearer = async (token: Promise<string>): Promise<string> =>
    who(clients, { authorization: `Bearer ${await token}` });
  const entry = (more: object = {}): ClientsConfig["jwt"] =>
    [issuer.entry({ clientClaim: "sub", tierClaim: "tier", ...more })] as unknown as ClientsConfig["jwt"];

  beforeEach(async () => {
    issuer = await Issuer.start();
    clients = clientsOf({ jwt: entry() });
  });

  test("names its client; the issuer is asked at the first one, once", async () => {
    expect(issuer.asked).toBe(0);
    const many = await Promise.all(
      Array.from({ length: 60 }, (_none, at) => bearer(issuer.token({ sub: `wallet-${at}` }))),
    );
    expect(many).toEqual(Array.from({ length: 60 }, (_none, at) => `wallet-${at} token wallet`));
    expect(issuer.asked).toBe(1);
  });

  test("is verified once, and known at once then, until it expires", async () => {
    const headers = ["authorization", `Bearer ${await issuer.token({ exp: 30 })}`];
    const first = clients.identify(headers, "::1");
    expect(first).toBeInstanceOf(Promise);
    await first;
    expect(clients.identify(headers, "::1")).toMatchObject({
      name: "wallet-t",
      id: "token:https://login.example:wallet-t",
    });
    clock.advance("40s");
    await expect(clients.identify(headers, "::1")).rejects.toMatchObject({ code: "credential_expired" });
  });

  test.each<[string, Record<string, unknown>, string]>([
    ["has expired", { exp: -3_600 }, "401 credential_expired"],
    ["is for another audience", { aud: "elsewhere" }, "401 credential_invalid"],
    ["is not valid yet", { nbf: 4_000_000_000 }, "401 credential_invalid"],
    ["names no client", { sub: "" }, "401 credential_invalid"],
    ["names one who is nobody", { sub: "anonymous" }, "401 credential_invalid"],
    ["names one with a line break", { sub: "a\nb" }, "401 credential_invalid"],
    ["names no client as text", { sub: 5 }, "401 credential_invalid"],
    ["names a tier that is not there", { tier: "root" }, "401 credential_invalid"],
    ["names no tier", { tier: undefined }, "401 credential_invalid"],
    ["names a tier that every object has", { tier: "constructor" }, "401 credential_invalid"],
    ["is of another issuer", { iss: "https://ledger.example" }, "anonymous anonymous open"],
  ])("that %s", async (_what, claims, outcome) => {
    expect(await bearer(issuer.token(claims as JWTPayload))).toBe(outcome);
  });

  test("that is forged, unsigned, signed with a public key as a secret, or cut off, is refused", async () => {
    const good = await issuer.token();
    const [head, payload] = good.split(".");
    const none = Buffer.from('{"alg":"none"}').toString("base64url");
    const hmac = Buffer.from('{"alg":"HS256","kid":"one"}').toString("base64url");
    for (const token of [
      await issuer.forged(),
      `${none}.${payload}.`,
      `${hmac}.${payload}.AAAA`,
      `${head}.${payload}.`,
      `${good}A`,
    ]) {
      expect(await bearer(Promise.resolve(token))).toBe("401 credential_invalid");
    }
  });

  test("without exp is refused", async () => {
    const { publicKey, privateKey } = await generateKeyPair("ES256");
    const keys = [await exportJWK(publicKey)];
    issuer.answer = (_request, response) => void response.writeHead(200).end(JSON.stringify({ keys }));
    const claims = { iss: issuer.issuer, aud: issuer.audience, sub: "wallet-t", tier: "wallet" };
    const sign = (more: { exp?: number }) =>
      new SignJWT({ ...claims, ...more }).setProtectedHeader({ alg: "ES256" }).sign(privateKey);
    expect(await bearer(sign({}))).toBe("401 credential_invalid");
    expect(await bearer(sign({ exp: 4_000_000_000 }))).toBe("wallet-t token wallet");
  });

  test("that does not say which of its issuer's keys it is signed by is refused with that reason (OpenID Connect Core §10.1)", async () => {
    const pairs = [await generateKeyPair("ES256"), await generateKeyPair("ES256")];
    const keys = await Promise.all(pairs.map(({ publicKey }) => exportJWK(publicKey)));
    issuer.answer = (_request, response) => void response.writeHead(200).end(JSON.stringify({ keys }));
    const token = await new SignJWT({ iss: issuer.issuer, aud: issuer.audience, sub: "x", exp: 4_000_000_000 })
      .setProtectedHeader({ alg: "ES256" })
      .sign(pairs[0]!.privateKey);
    await expect(clients.identify(["Authorization", `Bearer ${token}`], "192.0.2.1")).rejects.toThrow(/say by kid/);
  });

  test("that names no tier has its issuer's, where there is one", async () => {
    clients = clientsOf({ jwt: entry({ tier: "open" }) });
    expect(await bearer(issuer.token({ tier: undefined }))).toBe("wallet-t token open");
  });

  test("is 503 while the keys cannot be had, and the issuer is asked no more than once a second", async () => {
    for (const answer of [500, 404]) {
      issuer.answer = (_request, response) => void response.writeHead(answer).end();
      clients = clientsOf({ jwt: entry() });
      issuer.asked = 0;
      for (let at = 0; at < 5; at += 1) {
        expect(await bearer(issuer.token({ sub: `wallet-${at}` }))).toBe("503 client_keys_unavailable");
      }
      expect(issuer.asked).toBe(1);
    }
    issuer.answer = undefined;
    clock.advance("2s");
    expect(await bearer(issuer.token())).toBe("wallet-t token wallet");
  });

  test("goes on where the issuer is away later, and after a reload, which asks nobody", async () => {
    expect(await bearer(issuer.token())).toBe("wallet-t token wallet");
    issuer.answer = (request) => void request.destroy();
    clients = clientsOf({ jwt: entry() }, [], clients);
    expect(await bearer(issuer.token({ sub: "wallet-u" }))).toBe("wallet-u token wallet");
    clock.advance("11m");
    expect(await bearer(issuer.token({ sub: "wallet-v", exp: 1_200 }))).toBe("wallet-v token wallet");
  });

  test("is a credential of ours, as a key is, and both together are one too many", async () => {
    const token = await issuer.token();
    expect(isOwnAuthorization(`Bearer ${token}`, clients)).toBe(true);
    expect(isOwnAuthorization(`Bearer ${await issuer.token({ iss: "https://ledger.example" })}`, clients)).toBe(false);
    expect(await who(clients, { authorization: `Bearer ${token}`, "x-api-key": KEY })).toBe("401 credentials_differ");
  });
});
