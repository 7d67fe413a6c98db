import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { ACCEPT, choice, DRAFT, FACTORY, INFO, LIST, OPERATOR, PREFIX } from "../../support/endpoints.ts";
import { startGateway, temporaryFolder, type TestGateway, useGateway } from "../../support/gateway.ts";
import { expectOwnError, type Request } from "../../support/http.ts";
import { Issuer } from "../../support/issuer.ts";
import { keyLine, newKey, writeKeys } from "../../support/keys.ts";
import { instruments, type Registry, startRegistry } from "../../support/registry.ts";
import { shareOf } from "../../support/thorough.ts";
import { until } from "../../support/until.ts";

const UPSTREAMS = ["amulet", "bonds", "gold"] as const;
type Name = (typeof UPSTREAMS)[number];

/** Which upstreams each may use. */
const VIEWS = {
  anonymous: ["amulet"],
  wallet: ["amulet", "bonds"],
  token: ["amulet", "bonds"],
  exchange: ["amulet", "bonds", "gold"],
} as const satisfies Record<string, readonly Name[]>;
type Caller = keyof typeof VIEWS;
const CALLERS = Object.keys(VIEWS) as Caller[];

const KEYS = { wallet: newKey(), exchange: newKey(), expired: newKey() };
let issuer: Issuer;
let gateway: TestGateway;
let registries: Record<Name, Registry>;
const shown: Record<Caller, Record<string, string>> = {
  anonymous: {},
  wallet: { "x-api-key": KEYS.wallet },
  token: {},
  exchange: { authorization: `Bearer ${KEYS.exchange}` },
};

beforeAll(async () => {
  issuer = await Issuer.start();
  shown.token = { authorization: `Bearer ${await issuer.token({ sub: "wallet-t" })}` };
  const all = await Promise.all(
    UPSTREAMS.map((name) => startRegistry(name, { instruments: instruments(name.toUpperCase(), 7) })),
  );
  registries = Object.fromEntries(all.map((each) => [each.name, each])) as Record<Name, Registry>;
  const keysFile = writeKeys(temporaryFolder(), [
    keyLine(KEYS.wallet, "wallet-a", "wallet"),
    keyLine(KEYS.exchange, "exchange-a", "exchange"),
    keyLine(KEYS.expired, "wallet-old", "wallet", "2020-01-31T00:00:00Z"),
  ]);
  gateway = await startGateway({
    log: { hits: 1 },
    upstreams: all.map((each) =>
      each.upstream({
        forwardAuthorization: "calls",
        basePaths: [`/base/${each.name}`],
        ...(each.name === "gold" && { extraPaths: [OPERATOR] }),
      }),
    ),
    clients: {
      keysFile,
      jwt: [issuer.entry()],
      tiers: {
        anonymous: { upstreams: VIEWS.anonymous },
        wallet: { upstreams: VIEWS.wallet },
        exchange: { upstreams: ["*"] },
      },
    },
  });
});

beforeEach(() => {
  for (const name of UPSTREAMS) registries[name].reset();
});

const asked = (): string[] => UPSTREAMS.filter((name) => registries[name].count() > 0);
const ask = (caller: Caller, request: Request) =>
  gateway.send({ ...request, headers: { ...shown[caller], ...request.headers } });

const ROUTES: Readonly<Record<string, (name: Name) => Omit<Request, "headers">>> = {
  info: () => ({ path: INFO }),
  instruments: () => ({ path: `${LIST}?pageSize=3` }),
  instrument: (name) => ({ path: `${LIST}/${name.toUpperCase()}-00001` }),
  "a context": () => ({ path: ACCEPT, body: "{}" }),
  "a factory": () => ({ path: FACTORY, body: choice() }),
  "passed through": () => ({ path: `${DRAFT}?x=1` }),
};

const FORMS: Readonly<Record<string, (name: Name, request: Omit<Request, "headers">) => Request>> = {
  name: (name, request) => ({ ...request, path: `${PREFIX}/${name}${request.path}` }),
  "party id": (name, request) => ({
    ...request,
    path: `${PREFIX}/${encodeURIComponent(registries[name].admin)}${request.path}`,
  }),
  header: (name, request) => ({ ...request, headers: { "x-instrument-admin": registries[name].admin } }),
  "base path": (name, request) => ({ ...request, path: `/base/${name}${request.path}` }),
};

describe("a client of a tier uses its upstreams, by any way, and no other:", () => {
  test.each(CALLERS.flatMap((caller) => Object.keys(ROUTES).map((route, place) => [caller, route, place] as const)))(
    "%s, %s",
    async (caller, route, place) => {
      for (const form of shareOf(Object.keys(FORMS), place, 2)) {
        for (const name of UPSTREAMS) {
          for (const each of UPSTREAMS) registries[each].calls.length = 0;
          const answer = await ask(caller, FORMS[form]!(name, ROUTES[route]!(name)));
          if ((VIEWS[caller] as readonly string[]).includes(name)) {
            expect([form, name, answer.outcome]).toEqual([form, name, "200"]);
            expect([[], [name]]).toContainEqual(asked());
          } else {
            expectOwnError(answer, 403, "upstream_forbidden");
            expect(asked()).toEqual([]);
            if (form !== "name" && form !== "base path")
              expect(answer.error.replaceAll(registries[name].admin, "")).not.toContain(name);
          }
        }
      }
    },
  );

  test("an extra path, too", async () => {
    expectOwnError(await ask("wallet", { path: OPERATOR }), 403, "upstream_forbidden");
    expect((await ask("exchange", { path: OPERATOR })).status).toBe(200);
  });

  test.each(CALLERS)("what is made of several registries is of those that %s may see", async (caller) => {
    const view = VIEWS[caller] as readonly string[];
    const ids: string[] = [];
    let token: string | undefined;
    do {
      const path = `${LIST}?pageSize=3${token === undefined ? "" : `&pageToken=${token}`}`;
      const { json } = await ask(caller, { path });
      ids.push(...(json.instruments as { id: string }[]).map(({ id }) => id));
      token = json.nextPageToken as string | undefined;
    } while (token !== undefined);
    const expected = view.flatMap((name) => registries[name as Name].instruments.map(({ id }) => id));
    expect(ids).toEqual(expected);
    for (const path of ["/catalog/v1/registries", "/"]) {
      const { text } = await ask(caller, { path });
      expect(UPSTREAMS.filter((name) => text.includes(name))).toEqual(view);
    }
    const { json } = await ask(caller, { path: "/catalog/v1/instruments" });
    expect((json.instruments as { id: string }[]).map(({ id }) => id).toSorted()).toEqual(expected.toSorted());
    for (const name of UPSTREAMS) {
      const { status } = await ask(caller, { path: `${LIST}/${name.toUpperCase()}-00002` });
      expect([name, status]).toEqual([name, view.includes(name) ? 200 : 404]);
      const only = await ask(caller, { path: `/catalog/v1/instruments?admin=${name}` });
      expect([name, only.status]).toEqual([name, view.includes(name) ? 200 : 403]);
    }
  });

  test("takes no page token that leads into a registry that it may not see", async () => {
    let token: string | undefined;
    for (let pages = 0; pages < 5; pages += 1) {
      const { json } = await ask("exchange", {
        path: `${LIST}?pageSize=3${token === undefined ? "" : `&pageToken=${token}`}`,
      });
      token = json.nextPageToken as string;
    }
    for (let pages = 0; pages < 3; pages += 1) {
      const { json } = await ask("exchange", { path: `${LIST}?pageSize=3&pageToken=${token!}` });
      if (json.nextPageToken !== undefined) token = json.nextPageToken as string;
    }
    expect((await ask("wallet", { path: `${LIST}?pageSize=3&pageToken=${token!}` })).status).toBe(400);
  });

  test("an unknown admin's 404 hints at no registry that the client may not see", async () => {
    const answer = await ask("wallet", { path: `${PREFIX}/gald${LIST}` });
    expect([answer.status, answer.text.includes("gold")]).toEqual([404, false]);
  });
});

describe("a credential of ours that is bad", () => {
  const path = `${PREFIX}/amulet${LIST}`;
  const mistyped = KEYS.wallet.replace(/.$/, (last) => (last === "0" ? "1" : "0"));
  test.each<[string, () => Request["headers"] | Promise<Request["headers"]>, string]>([
    ["a key that nobody has", () => ({ "x-api-key": newKey() }), "credential_invalid"],
    ["a mistyped key", () => ({ "x-api-key": mistyped }), "credential_invalid"],
    ["a key cut short", () => ({ "x-api-key": KEYS.wallet.slice(0, 20) }), "credential_invalid"],
    ["an expired key", () => ({ "x-api-key": KEYS.expired }), "credential_expired"],
    ["an unknown key as bearer", () => ({ authorization: `Bearer ${newKey()}` }), "credential_invalid"],
    ["two keys", () => ({ "x-api-key": [KEYS.wallet, KEYS.exchange] }), "credentials_differ"],
    [
      "a key and another as bearer",
      () => ({ "x-api-key": KEYS.wallet, authorization: `Bearer ${KEYS.exchange}` }),
      "credentials_differ",
    ],
    [
      "a key and a token",
      async () => ({ "x-api-key": KEYS.wallet, authorization: `Bearer ${await issuer.token()}` }),
      "credentials_differ",
    ],
    [
      "an expired token",
      async () => ({ authorization: `Bearer ${await issuer.token({ exp: -600 })}` }),
      "credential_expired",
    ],
    [
      "a token for others",
      async () => ({ authorization: `Bearer ${await issuer.token({ aud: "other" })}` }),
      "credential_invalid",
    ],
    [
      "a token of a tier that is none",
      async () => ({ authorization: `Bearer ${await issuer.token({ tier: "nosuch" })}` }),
      "credential_invalid",
    ],
    [
      "a token that another signed",
      async () => ({ authorization: `Bearer ${await issuer.forged()}` }),
      "credential_invalid",
    ],
    [
      "a token that was changed",
      async () => ({ authorization: `Bearer ${(await issuer.token()).slice(0, -4)}AAAA` }),
      "credential_invalid",
    ],
  ])("is 401: %s", async (_what, headersOf, code) => {
    const headers = (await headersOf()) ?? {};
    for (const request of [
      { path },
      { path: `${PREFIX}/amulet${ACCEPT}`, body: "{}" },
      { path: "/nothing" },
      { path: "/" },
    ]) {
      const answer = await gateway.send({ ...request, headers });
      expectOwnError(answer, 401, code);
      expect(answer.headers["www-authenticate"]).toMatch(/^Bearer /);
      expect(answer.headers["cache-control"]).toBe("no-store");
      expect(answer.text).not.toContain(KEYS.wallet.slice(0, 12));
    }
    expect(asked()).toEqual([]);
  });

  test("is none where it is in another field, or of nobody here", async () => {
    const theirs = await issuer.token({ iss: "https://elsewhere.example" });
    for (const headers of [
      { "x-authorization": `Bearer ${KEYS.wallet}` },
      { cookie: `x-api-key=${KEYS.wallet}` },
      { authorization: "Basic dXNlcjpwYXNz" },
      { authorization: "Bearer x.y.z" },
      { authorization: "Bearer of-a-ledger" },
      { authorization: `Bearer ${theirs}` },
      { authorization: "" },
    ]) {
      expect((await gateway.send({ path, headers })).status).toBe(200);
      expect((await gateway.send({ path: `${PREFIX}/bonds${LIST}`, headers })).status).toBe(403);
    }
  });

  test("the same key twice is one credential", async () => {
    const headers = { "x-api-key": KEYS.wallet, authorization: `Bearer ${KEYS.wallet}` };
    expect((await gateway.send({ path: `${PREFIX}/bonds${LIST}`, headers })).status).toBe(200);
  });
});

describe("a credential of ours goes no further:", () => {
  test("no registry, log line, metric, report or error has one, in any part", async () => {
    const token = shown.token["authorization"]!.slice(7);
    for (const credential of [KEYS.wallet, KEYS.exchange, KEYS.expired, token]) {
      for (const headers of [{ "x-api-key": credential }, { authorization: `Bearer ${credential}` }]) {
        for (const route of Object.values(ROUTES)) {
          const answer = await gateway.send({ ...FORMS["name"]!("amulet", route("amulet")), headers });
          expect(answer.text + answer.rawHeaders.join()).not.toContain(credential.slice(-30));
        }
      }
    }
    const received = UPSTREAMS.flatMap((name) =>
      registries[name].calls.map(({ rawHeaders, url }) => [rawHeaders, url]),
    );
    const told = await Promise.all(
      ["/metrics", "/status", "/clients", "/requests", "/config"].map(
        async (path) => (await gateway.operations.get(path)).text,
      ),
    );
    const everything = JSON.stringify([received, gateway.lines, told]);
    expect(everything).not.toContain("rgk_");
    expect(everything).not.toContain(token.slice(-30));
    for (const name of ["wallet-a", "exchange-a", "wallet-t"]) expect(JSON.stringify(gateway.lines)).toContain(name);
  });

  test("while a registry's own token passes beside it, where that is configured", async () => {
    const headers = { "x-api-key": KEYS.wallet, authorization: "Bearer of.the.registry" };
    expect((await gateway.send({ path: `${PREFIX}/amulet${ACCEPT}`, body: "{}", headers })).status).toBe(200);
    expect(registries.amulet.last.headers.authorization).toBe("Bearer of.the.registry");
  });

  test("and takes no place in the cache: one entry is for all", async () => {
    await gateway.operations.purge("amulet");
    for (const caller of CALLERS) expect((await ask(caller, { path: `${PREFIX}/amulet${LIST}` })).status).toBe(200);
    expect(registries.amulet.count("instruments")).toBe(1);
  });
});

test("who calls is in the log line, in metrics and at /clients by its name", async () => {
  await ask("wallet", { path: `${PREFIX}/gold${LIST}` });
  await ask("wallet", { path: `${PREFIX}/amulet${LIST}`, headers: { "x-request-id": "of-the-wallet" } });
  const line = await until(() => gateway.lines.find(({ requestId }) => requestId === "of-the-wallet"));
  expect(line).toMatchObject({ client: "wallet-a", tier: "wallet", upstream: "amulet", operation: "instruments" });
  expect(
    await gateway.operations.metric("registry_gateway_client_requests_total", 'client="wallet-a"'),
  ).toBeGreaterThan(0);
  const { json } = await gateway.operations.get("/clients");
  const names = (json.clients as { name: string }[]).map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(["wallet-a", "exchange-a", "wallet-old", "wallet-t", "anonymous"]));
});

const serve = useGateway();

describe("where anonymous is false", () => {
  const start = async () => {
    const amulet = await startRegistry("amulet");
    const keysFile = writeKeys(temporaryFolder(), [keyLine(KEYS.wallet, "wallet-a", "wallet")]);
    return serve({ upstreams: [amulet], clients: { anonymous: false, keysFile, tiers: { wallet: {} } } });
  };

  test("who shows no credential is 401 that says how to get in", async () => {
    const closed = await start();
    for (const headers of [{}, { authorization: "Bearer of-a-ledger" }]) {
      const answer = await closed.send({ path: LIST, headers });
      expectOwnError(answer, 401, "credential_missing");
      expect(answer.error).toMatch(/X-API-Key/);
      expect(answer.error).toMatch(/Bearer/);
    }
    expect((await closed.send({ path: LIST, headers: { authorization: `bearer ${KEYS.wallet}` } })).status).toBe(200);
  });

  test("preflights and the docs need none", async () => {
    const closed = await start();
    const headers = { origin: "https://wallet.example", "access-control-request-method": "GET" };
    expect((await closed.send({ method: "OPTIONS", path: LIST, headers })).status).toBe(204);
    expect((await closed.get("/docs/")).status).toBe(200);
    expect((await closed.operations.get("/livez")).status).toBe(200);
  });
});

describe("the keys of a token's issuer", () => {
  const start = async () => {
    const login = await Issuer.start();
    const amulet = await startRegistry("amulet");
    const clients = { anonymous: false, jwt: [login.entry({ tier: "wallet" })], tiers: { wallet: {} } };
    return { login, amulet, gateway: await serve({ upstreams: [amulet], clients }) };
  };

  test("are asked for at the first token, and no more for the next ones", async () => {
    const { login, gateway: closed } = await start();
    expect(login.asked).toBe(0);
    for (let round = 0; round < 5; round += 1) {
      const headers = { authorization: `Bearer ${await login.token({ jti: String(round) })}` };
      expect((await closed.send({ path: LIST, headers })).status).toBe(200);
    }
    expect(login.asked).toBe(1);
  });

  test("that cannot be had make the token 503, and no body is lost while they are awaited", async () => {
    const { login, amulet, gateway: closed } = await start();
    login.answer = (_request, response) => void response.writeHead(503).end();
    const headers = { authorization: `Bearer ${await login.token()}` };
    const answer = await closed.send({ path: LIST, headers });
    expectOwnError(answer, 503, "client_keys_unavailable");
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
    const other = await start();
    const body = JSON.stringify({ text: "x".repeat(300_000) });
    for (const further of [{}, { "transfer-encoding": "chunked" }]) {
      const token = await other.login.token({ jti: JSON.stringify(further) });
      const posted = await other.gateway.post(ACCEPT, body, { authorization: `Bearer ${token}`, ...further });
      expect(posted.status).toBe(200);
      expect(other.amulet.last.body.toString() === body).toBe(true);
    }
    expect(amulet.asked).toEqual([]);
  });

  test("a token without a tier has the issuer's", async () => {
    const { login, gateway: closed } = await start();
    const headers = { authorization: `Bearer ${await login.token({ tier: undefined as unknown as string })}` };
    expect((await closed.send({ path: LIST, headers })).status).toBe(200);
  });
});
