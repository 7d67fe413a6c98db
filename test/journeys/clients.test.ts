import { describe, expect, test } from "vitest";
import { createKey } from "../../src/clients/api-key.ts";
import { hashId } from "../../src/observe/redaction.ts";
import { contractId } from "../../src/sandbox/contracts.ts";
import { useAggregates } from "../support/aggregate-registries.ts";
import { UPSTREAMS, type UpstreamName, useFiveRegistries, VIEWS } from "../support/five-registries.ts";
import type { SampleRegistry } from "../support/sample-registry.ts";
import { errorOf, type ReceivedAnswer, send, type SentRequest } from "../support/send.ts";
import { shareOf } from "../support/thorough.ts";

const PREFIX = "/api/token-standard/v0/registrars";
const HEADER = "x-instrument-admin";
const LISTING = "/registry/metadata/v1/instruments";

type Caller = "anonymous" | "wallet" | "exchange";
const CALLERS: readonly Caller[] = ["anonymous", "wallet", "exchange"];

const running = useFiveRegistries({
  keys: { routing: { learn: true, probe: true }, aggregate: { adminId: "operator::1220" }, log: { hits: 1 } },
});

function credential(caller: Caller): Record<string, string> {
  return caller === "anonymous" ? {} : { "x-api-key": running().keys[caller] };
}

function ask(caller: Caller, request: SentRequest): Promise<ReceivedAnswer> {
  return send(running().url, { ...request, headers: { ...credential(caller), ...request.headers } });
}

function adminOf(name: UpstreamName): string {
  return running().registries[name].admin;
}

const ROUTES: Readonly<Record<string, (name: UpstreamName) => Omit<SentRequest, "headers">>> = {
  info: () => ({ path: "/registry/metadata/v1/info" }),
  "HEAD info": () => ({ path: "/registry/metadata/v1/info", method: "HEAD" }),
  instruments: () => ({ path: `${LISTING}?pageSize=3` }),
  instrument: (name) => ({ path: `${LISTING}/${name.toUpperCase()}-00001` }),
  "a choice context": (name) => ({
    path: `/registry/allocations/v1/${contractId(adminOf(name), "an allocation")}/choice-contexts/cancel`,
    body: "{}",
  }),
  "a factory": (name) => ({
    path: "/registry/allocation-instruction/v1/allocation-factory",
    body: JSON.stringify({ choiceArguments: { expectedAdmin: adminOf(name) } }),
  }),
  "passed through": () => ({ path: "/registry/drafts/v1/something?x=1" }),
  "a passed-through POST": () => ({ path: "/registry/drafts/v1/something", body: '{"x":1}' }),
};

const FORMS: Readonly<Record<string, (name: UpstreamName, request: Omit<SentRequest, "headers">) => SentRequest>> = {
  alias: (name, request) => ({ ...request, path: `${PREFIX}/${name}${request.path}` }),
  "party id": (name, request) => ({
    ...request,
    path: `${PREFIX}/${encodeURIComponent(adminOf(name))}${request.path}`,
  }),
  header: (name, request) => ({ ...request, headers: { [HEADER]: adminOf(name) } }),
};

describe("a client of a tier", () => {
  const forms = Object.keys(FORMS);
  const cases = CALLERS.flatMap((caller, i) =>
    Object.keys(ROUTES).flatMap((route, j) =>
      shareOf(forms, (i + j) % forms.length, forms.length).map((form) => [caller, route, form] as const),
    ),
  );
  test.each(cases)("%s may use %s by %s of its upstreams, and of no other", async (caller, route, form) => {
    for (const name of UPSTREAMS) {
      running().clearCalls();
      // The second time from the cache, where it may be.
      for (let round = 0; round < 2; round++) {
        const answer = await ask(caller, FORMS[form]!(name, ROUTES[route]!(name)));
        const code = answer.headers["registry-gateway-error"];
        if (VIEWS[caller]!.includes(name)) {
          expect([name, code, answer.status]).toEqual([name, undefined, 200]);
          // Metadata may come from the cache, and nothing from another registry.
          const isCached = ROUTES[route]!(name).body === undefined && !route.includes("passed");
          expect(isCached ? [name] : running().called()).toEqual([name]);
          expect([[], [name]]).toContainEqual(running().called());
        } else {
          expect([name, answer.status, code]).toEqual([name, 403, "upstream_forbidden"]);
          if (route !== "HEAD info") expect(errorOf(answer)).toContain("may not use the registry");
          expect(running().called()).toEqual([]);
        }
        expect(answer.headers.vary).toMatch(/^X-API-Key, Authorization/);
      }
    }
  });

  test("is told no more of a forbidden registry than it named", async () => {
    const byAlias = await ask("wallet", { path: `${PREFIX}/gold${LISTING}` });
    expect(errorOf(byAlias)).not.toContain(adminOf("gold"));
    const byParty = await ask("wallet", { path: `${PREFIX}/${adminOf("gold")}${LISTING}` });
    expect(errorOf(byParty).replace(adminOf("gold"), "")).not.toMatch(/gold/);
  });

  test("gets 404 for an admin of no registry, without a hint at a forbidden one", async () => {
    const near = await ask("wallet", { path: `${PREFIX}/gald${LISTING}` });
    expect([near.status, near.text.includes("gold")]).toEqual([404, false]);
    const seen = await ask("exchange", { path: `${PREFIX}/gald${LISTING}` });
    expect([seen.status, seen.text.includes("gold")]).toEqual([404, true]);
  });

  test("is refused a forbidden registry that the header names where the path names another", async () => {
    const mixed = { path: `${PREFIX}/gold${LISTING}`, headers: { [HEADER]: adminOf("amulet") } };
    expect((await ask("wallet", mixed)).status).toBe(403);
    const other = { path: `${PREFIX}/amulet${LISTING}`, headers: { [HEADER]: adminOf("gold") } };
    expect((await ask("wallet", other)).status).toBe(400);
  });
});

describe("the alias of a registry that a client may not see", () => {
  const { startRegistries, startBefore } = useAggregates();

  test("is in no error of a URL without it, or of a registry that names the same admin", async () => {
    const registries = await startRegistries({ gold: {}, bonds: {}, coins: {} });
    const { gold, bonds, coins } = registries as Record<"gold" | "bonds" | "coins", SampleRegistry>;
    const { url, operations, gateway } = await startBefore(registries, {
      upstreams: [
        { name: "amulet", urls: [gold.url] },
        { name: "gold", admin: gold.admin, urls: [gold.url], basePaths: ["/vault"], extraPaths: ["/vault/v1/bars"] },
        { name: "bonds", admin: bonds.admin, urls: [bonds.url], extraPaths: ["/ratings"] },
        { name: "coins", admin: coins.admin, urls: [coins.url], extraPaths: ["/ratings"] },
      ],
      routing: { plain: "gold" },
      clients: { tiers: { anonymous: { upstreams: ["amulet", "bonds", "coins"] } } },
    });
    const isDisabled = () => gateway.upstreams().byName("amulet")!.isDisabled;
    await expect.poll(isDisabled).toBe(true);
    const expected = {
      [`/vault${LISTING}`]: [403, "upstream_forbidden"],
      "/vault/registry/drafts/v1/x": [403, "upstream_forbidden"],
      "/vault/v1/bars": [403, "upstream_forbidden"],
      "/ratings": [403, "upstream_forbidden"],
      [`${PREFIX}/amulet${LISTING}`]: [503, "upstream_disabled"],
    };
    for (const [path, [status, code]] of Object.entries(expected)) {
      const answer = await send(url, { path });
      expect([path, answer.status, answer.headers["registry-gateway-error"]]).toEqual([path, status, code]);
      expect(answer.text).not.toContain("gold");
    }
    expect((await send(operations, { path: "/status" })).text).toContain('is configured for upstream \\"gold\\"');
  });
});

/** The instruments of a listing, page by page. */
async function list(caller: Caller, path: string, pageSize: number): Promise<string[]> {
  const ids: string[] = [];
  for (let token: string | undefined; ;) {
    const query = `pageSize=${pageSize}${token === undefined ? "" : `&pageToken=${token}`}`;
    const { status, text } = await ask(caller, { path: `${path}?${query}` });
    if (status !== 200) throw new Error(`${status} ${text}`);
    const page = JSON.parse(text) as { instruments: { id: string }[]; nextPageToken?: string };
    ids.push(...page.instruments.map(({ id }) => id));
    if (page.nextPageToken === undefined) return ids;
    token = page.nextPageToken;
  }
}

function expectedIds(caller: Caller): string[] {
  return VIEWS[caller]!.flatMap((name) => Array.from({ length: 7 }, (_, at) => `${name.toUpperCase()}-0000${at}`));
}

describe("what is made of several registries", () => {
  test.each(CALLERS)("lists what %s may see, and nothing else", async (caller) => {
    for (const pageSize of [3, 100]) expect(await list(caller, LISTING, pageSize)).toEqual(expectedIds(caller));
    expect((await list(caller, "/catalog/v1/instruments", 4)).toSorted()).toEqual(expectedIds(caller).toSorted());
    const registries = JSON.parse((await ask(caller, { path: "/catalog/v1/registries" })).text) as {
      registries: { name: string }[];
    };
    expect(registries.registries.map(({ name }) => name)).toEqual(VIEWS[caller]);
    for (const accept of ["application/json", "text/html"]) {
      const { text } = await ask(caller, { path: "/", headers: { accept } });
      expect(UPSTREAMS.filter((name) => text.includes(`/registrars/${name}`))).toEqual(VIEWS[caller]);
    }
  });

  test.each(CALLERS)("finds for %s only instruments that it may see", async (caller) => {
    for (const name of UPSTREAMS) {
      const { status } = await ask(caller, { path: `${LISTING}/${name.toUpperCase()}-00002` });
      expect([name, status]).toEqual([name, VIEWS[caller]!.includes(name) ? 200 : 404]);
    }
  });

  test("takes no page token of another view", async () => {
    for (const path of [LISTING, "/catalog/v1/instruments"]) {
      for (const caller of CALLERS) {
        const first = JSON.parse((await ask(caller, { path: `${path}?pageSize=2` })).text) as { nextPageToken: string };
        for (const other of CALLERS) {
          const { status } = await ask(other, { path: `${path}?pageSize=2&pageToken=${first.nextPageToken}` });
          expect([path, caller, other, status]).toEqual([path, caller, other, caller === other ? 200 : 400]);
        }
      }
    }
  });

  test("asks no forbidden registry for a catalogue's admin", async () => {
    for (const by of ["gold", adminOf("gold")]) {
      const path = `/catalog/v1/instruments?admin=${encodeURIComponent(by)}`;
      expect((await ask("wallet", { path })).status).toBe(403);
      expect((await ask("exchange", { path })).status).toBe(200);
    }
    expect((await ask("wallet", { path: "/catalog/v1/instruments?admin=nobody" })).status).toBe(404);
  });

  test("says nothing of another view by If-None-Match", async () => {
    const { etag } = (await ask("exchange", { path: LISTING })).headers;
    for (const caller of CALLERS) {
      const { status } = await ask(caller, { path: LISTING, headers: { "if-none-match": etag } });
      expect([caller, status]).toEqual([caller, caller === "exchange" ? 304 : 200]);
    }
  });

  test("of the pages, /docs is for everybody, and names what everybody may use", async () => {
    for (const caller of CALLERS) {
      const { status, text, headers } = await ask(caller, { path: "/docs" });
      expect([status, headers["ratelimit"]]).toEqual([200, undefined]);
      expect(UPSTREAMS.filter((name) => text.includes(`<h3>${name}</h3>`))).toEqual(VIEWS["anonymous"]);
    }
  });
});

describe("a contract of a registry that the client may not use", () => {
  const context = (label: string, name: UpstreamName) => ({
    path: `/registry/allocations/v1/${contractId(adminOf(name), label)}/choice-contexts/cancel`,
    body: "{}",
  });

  test("is as unknown as one that does not exist, learned or not", async () => {
    const hidden = context("an allocation", "gold");
    const unknown = {
      path: `/registry/allocations/v1/${contractId("nobody::1220", "x")}/choice-contexts/cancel`,
      body: "{}",
    };
    const shape = ({ status, text, headers }: ReceivedAnswer) => [
      status,
      text.replace(/"requestId":"[^"]+"/, ""),
      headers["registry-gateway-error"],
    ];
    const before = shape(await ask("wallet", unknown));
    expect(before[0]).toBe(404);
    expect(shape(await ask("wallet", hidden))).toEqual(before);
    // One who may teaches the gateway whose it is.
    expect((await ask("exchange", { ...hidden, path: `${PREFIX}/gold${hidden.path}` })).status).toBe(200);
    expect((await ask("exchange", hidden)).status).toBe(200);
    running().clearCalls();
    expect(shape(await ask("wallet", hidden))).toEqual(before);
    expect(running().called()).toEqual(VIEWS["wallet"]);
  });

  test("is found among those that it may use", async () => {
    running().clearCalls();
    expect((await ask("wallet", context("an allocation", "funds"))).status).toBe(200);
    expect(
      running()
        .called()
        .every((name) => VIEWS["wallet"]!.includes(name)),
    ).toBe(true);
  });

  test("settles nothing that it may not", async () => {
    const cid = contractId(adminOf("gold"), "an allocation");
    await ask("exchange", {
      ...context("an allocation", "gold"),
      path: `${PREFIX}/gold${context("an allocation", "gold").path}`,
    });
    const settle = {
      path: "/registry/allocations/v2/settlement-factory",
      body: JSON.stringify({ choiceArguments: { allocations: [{ allocationCid: cid }] } }),
    };
    running().clearCalls();
    expect((await ask("wallet", settle)).status).toBe(400);
    expect(running().called()).toEqual([]);
  });
});

describe("a credential that does not say who calls", () => {
  const path = `${PREFIX}/amulet${LISTING}`;
  const bad: readonly (readonly [what: string, request: () => SentRequest, code: string])[] = [
    ["a key that nobody has", () => ({ path, headers: { "x-api-key": createKey() } }), "credential_invalid"],
    [
      "a mistyped key",
      () => ({ path, headers: { "x-api-key": mistyped(running().keys.wallet) } }),
      "credential_invalid",
    ],
    ["an expired key", () => ({ path, headers: { "x-api-key": running().keys.expired } }), "credential_expired"],
    [
      "a token in the key's header, where none are taken",
      () => ({ path, headers: { "x-api-key": "a.b.c" } }),
      "credential_invalid",
    ],
    ["9 KiB of key", () => ({ path, headers: { "x-api-key": "a".repeat(9_216) } }), "credential_invalid"],
    [
      "two keys",
      () => ({ path, headers: { "x-api-key": [running().keys.wallet, running().keys.exchange] } }),
      "credentials_differ",
    ],
    [
      "a key and another as bearer",
      () => ({
        path,
        headers: { "x-api-key": running().keys.wallet, authorization: `Bearer ${running().keys.exchange}` },
      }),
      "credentials_differ",
    ],
    ["a key in the query", () => ({ path: `${path}?api_key=${running().keys.wallet}` }), "credential_invalid"],
    ["a key in any parameter", () => ({ path: `${path}?pageToken=${running().keys.wallet}` }), "credential_invalid"],
    [
      "a key in the query besides a good one",
      () => ({ path: `${path}?key=${running().keys.wallet}`, headers: { "x-api-key": running().keys.wallet } }),
      "credential_invalid",
    ],
    [
      "a bad key on a path that is none",
      () => ({ path: "/nothing", headers: { "x-api-key": createKey() } }),
      "credential_invalid",
    ],
    ["a bad key at /", () => ({ path: "/", headers: { "x-api-key": createKey() } }), "credential_invalid"],
  ];

  test.each(bad)("is refused: %s", async (_what, request, code) => {
    await ask("wallet", { path });
    running().clearCalls();
    const answer = await send(running().url, request());
    expect([answer.status, answer.headers["registry-gateway-error"]]).toEqual([401, code]);
    expect(answer.headers["www-authenticate"]).toBe('Bearer realm="registry-gateway", error="invalid_token"');
    expect(answer.headers["cache-control"]).toBe("no-store");
    expect(answer.headers["access-control-allow-origin"]).toBe("*");
    expect(answer.headers["content-type"]).toBe("application/json");
    expect(errorOf(answer)).toMatch(/^registry-gateway: /);
    expect(answer.text).not.toContain("rgk_A");
    expect(running().called()).toEqual([]);
  });

  test.each([
    ["X_API_Key", (key: string) => ({ X_API_Key: key })],
    ["x.api.key", (key: string) => ({ "x.api.key": key })],
    ["X-Api-Key-", (key: string) => ({ "X-Api-Key-": key })],
    ["X-Authorization", (key: string) => ({ "X-Authorization": `Bearer ${key}` })],
    ["Proxy-Authorization", (key: string) => ({ "Proxy-Authorization": `Bearer ${key}` })],
    ["Cookie", (key: string) => ({ Cookie: `x-api-key=${key}` })],
  ])("is none: %s, which is another header", async (_name, headersOf) => {
    const forbidden = { path: `${PREFIX}/bonds${LISTING}`, headers: headersOf(running().keys.wallet) };
    expect((await send(running().url, forbidden)).status).toBe(403);
    const allowed = { path, headers: headersOf(createKey()) };
    expect((await send(running().url, allowed)).status).toBe(200);
  });

  test("is none in trailers", async () => {
    const { sendRaw } = await import("../support/raw-connection.ts");
    const { statuses } = await sendRaw(
      running().url,
      `POST ${PREFIX}/bonds/registry/drafts/v1/x HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nTrailer: X-API-Key\r\n` +
        `Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\n{}\r\n0\r\nX-API-Key: ${running().keys.wallet}\r\n\r\n`,
    );
    expect(statuses).toEqual([403]);
  });

  test("is what it is where Connection names it", async () => {
    for (const [key, status] of [
      [running().keys.wallet, 200],
      [createKey(), 401],
    ] as const) {
      const headers = { connection: "close, x-api-key", "x-api-key": key };
      expect((await send(running().url, { path: `${PREFIX}/bonds${LISTING}`, headers })).status).toBe(status);
    }
  });

  test("keeps the body of a POST from being read, and the connection from going on", async () => {
    const headers = { "x-api-key": createKey(), "content-length": "1000000", "content-type": "application/json" };
    const { sendRaw } = await import("../support/raw-connection.ts");
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const { statuses, isClosed, text } = await sendRaw(
      running().url,
      `POST ${PREFIX}/amulet/registry/drafts/v1/x HTTP/1.1\r\nHost: g\r\n${lines.join("")}\r\n{"half":`,
    );
    expect([statuses, isClosed]).toEqual([[401], true]);
    expect(text.toLowerCase()).toContain("connection: close");
  });

  test("is refused by HEAD without a body", async () => {
    const answer = await send(running().url, { path, method: "HEAD", headers: { "x-api-key": createKey() } });
    expect([answer.status, answer.bytes.length]).toEqual([401, 0]);
  });

  test("is needed by no preflight", async () => {
    const headers = { origin: "https://wallet.example", "x-api-key": createKey() };
    const { status, headers: received } = await send(running().url, { path, method: "OPTIONS", headers });
    expect(status).toBe(204);
    expect(received["access-control-allow-headers"]).toContain("x-api-key");
    expect(received["access-control-expose-headers"]).toContain("ratelimit-policy");
  });
});

function mistyped(key: string): string {
  return key.slice(0, 10) + (key[10] === "A" ? "B" : "A") + key.slice(11);
}

describe("what names a client", () => {
  test("goes nowhere: no registry, log line, metric, status or error has a key or a digest of one", async () => {
    const { keys, url, operations, registries, lines } = running();
    for (const key of [keys.wallet, keys.exchange, keys.expired]) {
      for (const headers of [{ "x-api-key": key }, { authorization: `Bearer ${key}` }]) {
        for (const route of Object.values(ROUTES)) {
          await send(url, { ...FORMS["alias"]!("amulet", route("amulet")), headers });
        }
        await send(url, { path: `/registry/metadata/v1/info?api_key=${key}`, headers });
        await send(url, { path: `${LISTING}/${key}`, headers });
        await send(url, { path: LISTING, headers });
      }
    }
    const received = Object.values(registries).flatMap(({ calls }) =>
      calls.recent.map(({ rawHeaders, url: path }) => [rawHeaders, path]),
    );
    const told = await Promise.all(
      ["/metrics", "/status", "/clients", `/explain?path=${PREFIX}/amulet${LISTING}`].map(
        async (path) => (await send(operations, { path })).text,
      ),
    );
    const everything = JSON.stringify([received, lines, told]);
    expect(everything).not.toContain("rgk_");
    expect(everything).not.toContain("sha256:");
    for (const key of Object.values(keys)) expect(everything).not.toContain(hashId(key));
    expect(everything).not.toMatch(/x-api-key/i);
    for (const name of ["wallet-a", "exchange-a"]) expect(JSON.stringify(lines)).toContain(name);
  });

  // It was said to be about no endpoint, unless its URL was answered before.
  test("that is not known leaves its request counted and logged by what it asks for", async () => {
    const { url, operations, lines } = running();
    const id = "request-of-nobody";
    const path = `${PREFIX}/gold${LISTING}/never-asked-for`;
    const { status } = await send(url, { path, headers: { "x-api-key": "rgk_mistyped", "x-request-id": id } });
    expect(status).toBe(401);
    await expect
      .poll(() => lines.find(({ requestId }) => requestId === id))
      .toMatchObject({ operation: "instrument", upstream: "none", client: "none", outcome: "refused" });
    const { text } = await send(operations, { path: "/metrics" });
    expect(text).toMatch(
      /registry_gateway_requests_total\{operation="instrument",upstream="none",status="4xx"\} [1-9]/,
    );
    expect(text).toMatch(
      /registry_gateway_client_requests_total\{client="none",operation="instrument",outcome="refused"\} [1-9]/,
    );
  });

  test("is in the log line, in the metrics and at /clients by its name", async () => {
    const { operations, lines } = running();
    const id = "request-of-the-wallet";
    await send(running().url, { path: LISTING, headers: { "x-api-key": "rgk_mistyped" } });
    for (let i = 0; i < 3; i++) await ask("wallet", { path: `${PREFIX}/gold${LISTING}` });
    await ask("wallet", { path: `${PREFIX}/amulet${LISTING}?pageSize=1`, headers: { "x-request-id": id } });
    expect(lines.find(({ requestId }) => requestId === id)).toMatchObject({ client: "wallet-a" });
    const { text } = await send(operations, { path: "/metrics" });
    expect(text).toMatch(
      /registry_gateway_client_requests_total\{client="wallet-a",operation="instruments",outcome="(hit|miss)"\} \d/,
    );
    expect(text).toMatch(
      /registry_gateway_client_refusals_total\{client="wallet-a",reason="upstream_forbidden"\} [1-9]/,
    );
    expect(text).toMatch(/registry_gateway_client_refusals_total\{client="none",reason="credential_invalid"\} [1-9]/);
    const report = JSON.parse((await send(operations, { path: "/clients" })).text) as {
      clients: { name: string }[];
      tiers: object;
    };
    expect(Object.keys(report.tiers).toSorted()).toEqual(["anonymous", "exchange", "wallet"]);
    expect(report.clients.find(({ name }) => name === "wallet-a")).toMatchObject({
      kind: "key",
      tier: "wallet",
      keys: [null],
    });
    expect(report.clients.find(({ name }) => name === "wallet-old")).toMatchObject({
      keys: ["2020-01-31T00:00:00.000Z"],
    });
    // A line for the first refusal in a minute, whatever came before this test.
    const told = lines.filter(({ msg, client }) => msg === "client refused" && client === "wallet-a");
    const times = told.map(({ time }) => Date.parse(time as string));
    expect(times.length).toBeGreaterThan(0);
    for (const [i, time] of times.entries()) expect(time - (times[i - 1] ?? -Infinity)).toBeGreaterThan(59_000);
  });

  test("is told who may use an upstream by explain", async () => {
    const tiersOf = async (name: string) =>
      (
        JSON.parse((await send(running().operations, { path: `/explain?path=${PREFIX}/${name}${LISTING}` })).text) as {
          tiers: string[];
        }
      ).tiers;
    expect(await tiersOf("amulet")).toEqual(["anonymous", "wallet", "exchange"]);
    expect(await tiersOf("gold")).toEqual(["exchange"]);
  });
});
