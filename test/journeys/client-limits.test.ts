import { request } from "node:http";
import { afterEach, describe, expect, test, vi } from "vitest";
import { type FiveRegistries, startFiveRegistries } from "../support/five-registries.ts";
import { errorOf, type ReceivedAnswer, send, type SentRequest } from "../support/send.ts";

const PREFIX = "/api/token-standard/v0/registrars";
const LISTING = `${PREFIX}/amulet/registry/metadata/v1/instruments`;
const DRAFT = `${PREFIX}/amulet/registry/drafts/v1/x`;

let running: FiveRegistries | undefined;

afterEach(() => running?.stop());

// Buckets so slow that none refills while a test runs.
const RATE = { per: "24h" };

async function start(tiers: Record<string, unknown>): Promise<FiveRegistries> {
  running = await startFiveRegistries({
    clients: { tiers: { anonymous: {}, wallet: {}, exchange: {}, ...tiers } },
    keys: { log: { hits: 1 } },
  });
  return running;
}

function asker({ url, keys }: FiveRegistries, by: "wallet" | "exchange" | "anonymous") {
  const shown = by === "anonymous" ? {} : { "x-api-key": keys[by] };
  return (sent: SentRequest) => send(url, { ...sent, headers: { ...shown, ...sent.headers } });
}

/** Requests that are left, as the answer says. */
function left({ headers }: ReceivedAnswer): number {
  return Number(/"requests";r=(\d+)/.exec(String(headers["ratelimit"]))?.[1]);
}

describe("a client that has sent what its tier allows", () => {
  test("is refused at once, is told when to come back, and costs the registry nothing", async () => {
    const gateway = await start({ wallet: { requests: 5, ...RATE } });
    const ask = asker(gateway, "wallet");
    const answers = [];
    for (let at = 0; at < 5; at++) answers.push(await ask({ path: LISTING }));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect(answers.map(left)).toEqual([4, 3, 2, 1, 0]);
    gateway.clearCalls();
    const forms: readonly SentRequest[] = [
      { path: LISTING },
      { path: LISTING, method: "HEAD" },
      { path: `${PREFIX}/bonds/registry/metadata/v1/info` },
      { path: DRAFT, body: '{"x":1}' },
      { path: "/" },
      { path: "/no/such/path" },
    ];
    for (const form of forms) {
      const answer = await ask({ ...form, headers: { origin: "https://wallet.example" } });
      expect([form.path, answer.status, answer.headers["registry-gateway-error"]]).toEqual([
        form.path,
        429,
        "client_rate_limited",
      ]);
      const { headers } = answer;
      // A fifth of a day, less what has passed.
      expect(Number(headers["retry-after"])).toBeGreaterThan(17_000);
      expect(headers["ratelimit-policy"]).toContain('"requests";q=5;w=86400');
      expect(left(answer)).toBe(0);
      expect(headers["access-control-expose-headers"]).toContain("ratelimit");
      expect(headers["cache-control"]).toBe("no-store");
      expect(headers.vary).toContain("X-API-Key");
      if (form.method === "HEAD") expect(answer.bytes.length).toBe(0);
      else expect(errorOf(answer)).toMatch(/tier wallet .* try again in \d+ s/);
    }
    expect(gateway.called()).toEqual([]);
    const refused = gateway.lines.filter(({ msg, status }) => msg === "request" && status === 429);
    expect(refused.map(({ client, code }) => [client, code])).toEqual(
      forms.map(() => ["wallet-a", "client_rate_limited"]),
    );
  });

  test("may still ask for a preflight and for the description of the API, which count nothing", async () => {
    const gateway = await start({ wallet: { requests: 1, ...RATE } });
    const ask = asker(gateway, "wallet");
    for (let at = 0; at < 3; at++) {
      expect((await ask({ path: LISTING, method: "OPTIONS" })).status).toBe(204);
      expect((await ask({ path: "/docs" })).status).toBe(200);
      expect((await ask({ path: "/openapi.json" })).status).toBe(200);
    }
    expect((await ask({ path: LISTING })).status).toBe(200);
    expect((await ask({ path: LISTING })).status).toBe(429);
    expect((await ask({ path: "/docs" })).status).toBe(200);
  });

  test("takes nothing from others, nor they from it", async () => {
    const gateway = await start({ anonymous: { requests: 2, ...RATE }, wallet: { requests: 3, ...RATE } });
    const statuses = async (by: "wallet" | "exchange" | "anonymous") => {
      const found = [];
      for (let at = 0; at < 4; at++) found.push((await asker(gateway, by)({ path: LISTING })).status);
      return found;
    };
    expect(await statuses("anonymous")).toEqual([200, 200, 429, 429]);
    expect(await statuses("wallet")).toEqual([200, 200, 200, 429]);
    expect(await statuses("exchange")).toEqual([200, 200, 200, 200]);
  });
});

test("each client is told its own limits on hits of one URL that several share", async () => {
  const gateway = await start({
    anonymous: { requests: 50, ...RATE },
    wallet: { requests: 100, ...RATE, posts: { requests: 10, ...RATE } },
    exchange: {},
  });
  const [anonymous, wallet, exchange] = (["anonymous", "wallet", "exchange"] as const).map((by) => asker(gateway, by));
  await exchange!({ path: LISTING });
  for (let at = 1; at < 6; at++) {
    const ofAnonymous = await anonymous!({ path: LISTING });
    expect([left(ofAnonymous), ofAnonymous.headers["ratelimit-policy"]]).toEqual([50 - at, '"requests";q=50;w=86400']);
    const ofWallet = await wallet!({ path: LISTING });
    expect([left(ofWallet), String(ofWallet.headers["ratelimit-policy"]).split(", ").length]).toEqual([100 - at, 2]);
    const ofExchange = await exchange!({ path: LISTING });
    expect([ofExchange.headers["ratelimit"], ofExchange.headers["ratelimit-policy"]]).toEqual([undefined, undefined]);
    for (const { headers, bytes } of [ofAnonymous, ofWallet, ofExchange]) {
      expect(headers["cache-status"]).toContain("hit");
      expect(headers.vary).toBe("X-API-Key, Authorization, Accept-Encoding");
      expect(headers["content-length"]).toBe(String(bytes.length));
    }
  }
  const etag = (await wallet!({ path: LISTING })).headers.etag;
  const unchanged = await wallet!({ path: LISTING, headers: { "if-none-match": etag } });
  expect([unchanged.status, left(unchanged)]).toEqual([304, 93]);
  expect(left(await wallet!({ path: DRAFT }))).toBe(92);
  expect(left(await wallet!({ path: "/nothing" }))).toBe(91);
});

test("a POST counts as a request and as a POST, and in neither where one of them is spent", async () => {
  const gateway = await start({ wallet: { requests: 6, ...RATE, posts: { requests: 2, ...RATE } } });
  const ask = asker(gateway, "wallet");
  const post = { path: DRAFT, body: "{}" };
  expect((await ask(post)).status).toBe(200);
  expect((await ask(post)).status).toBe(200);
  for (let at = 0; at < 3; at++) expect((await ask(post)).status).toBe(429);
  const statuses = [];
  for (let at = 0; at < 5; at++) statuses.push((await ask({ path: LISTING })).status);
  expect(statuses).toEqual([200, 200, 200, 200, 429]);
});

describe("requests of a client that run at once", () => {
  /** Registries that answer drafts when they are let. */
  async function startHolding() {
    const gateway = await start({ wallet: { concurrency: 2 } });
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    gateway.registries.amulet.script(async ({ url }) => {
      if (!url.includes("/drafts/")) return undefined;
      await released;
      return { status: 200, body: "{}" };
    });
    return { gateway, ask: asker(gateway, "wallet"), release };
  }

  test("are as many as its tier allows; fresh hits do not count", async () => {
    const { gateway, ask, release } = await startHolding();
    await ask({ path: LISTING });
    const held = [ask({ path: DRAFT }), ask({ path: DRAFT, body: "{}" })];
    await vi.waitFor(() => expect(gateway.registries.amulet.calls.open).toBe(2), { timeout: 60_000 });
    for (let at = 0; at < 3; at++) {
      const answer = await ask({ path: DRAFT });
      expect([answer.status, answer.headers["registry-gateway-error"], answer.headers["retry-after"]]).toEqual([
        429,
        "client_concurrency",
        "1",
      ]);
      expect((await ask({ path: LISTING })).status).toBe(200);
      expect((await asker(gateway, "exchange")({ path: `${LISTING}?pageSize=2` })).status).toBe(200);
    }
    release();
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual([200, 200]);
    for (let at = 0; at < 5; at++) expect((await ask({ path: DRAFT })).status).toBe(200);
  });

  test("end when the client leaves", async () => {
    const { gateway, ask, release } = await startHolding();
    const { hostname, port } = new URL(gateway.url);
    const leaving = [0, 1].map(() => {
      const sent = request({
        hostname,
        port,
        path: DRAFT,
        agent: false,
        headers: { "x-api-key": gateway.keys.wallet },
      });
      sent.on("error", () => undefined).end();
      return sent;
    });
    await vi.waitFor(() => expect(gateway.registries.amulet.calls.open).toBe(2), { timeout: 60_000 });
    expect((await ask({ path: DRAFT })).status).toBe(429);
    for (const sent of leaving) sent.destroy();
    release();
    await vi.waitFor(async () => expect((await ask({ path: DRAFT })).status).toBe(200), { timeout: 60_000 });
  });
});

test("a tier with enforce: false answers everything, and counts and logs what it would refuse", async () => {
  const gateway = await start({ wallet: { requests: 2, ...RATE, concurrency: 1, enforce: false } });
  const ask = asker(gateway, "wallet");
  for (let at = 0; at < 5; at++) {
    const answer = await ask({ path: LISTING });
    expect([answer.status, answer.headers["retry-after"], left(answer)]).toEqual([200, undefined, Math.max(0, 1 - at)]);
  }
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  gateway.registries.amulet.script(async ({ url }) => {
    if (!url.includes("/drafts/")) return undefined;
    await released;
    return { status: 200, body: "{}" };
  });
  const held = [ask({ path: DRAFT }), ask({ path: DRAFT, body: "{}" }), ask({ path: DRAFT })];
  await vi.waitFor(() => expect(gateway.registries.amulet.calls.open).toBe(3), { timeout: 60_000 });
  release();
  expect((await Promise.all(held)).map(({ status }) => status)).toEqual([200, 200, 200]);
  const answer = await fetch(`${gateway.operations}/clients`);
  expect(await answer.json()).toMatchObject({
    clients: expect.arrayContaining([expect.objectContaining({ name: "wallet-a", requests: 8, spared: 8 })]),
  });
  const metrics = await (await fetch(`${gateway.operations}/metrics`)).text();
  expect(metrics).toMatch(/^registry_gateway_client_spared_total\{[^}]*wallet-a[^}]*client_rate_limited[^}]*\} 6$/m);
  expect(metrics).toMatch(/^registry_gateway_client_spared_total\{[^}]*wallet-a[^}]*client_concurrency[^}]*\} 2$/m);
  const logged = gateway.lines.filter(({ msg }) => msg === "client over its limit was let in");
  expect(logged.map(({ client }) => client)).toContain("wallet-a");
});
