import { expect, it, describe, beforeAll, test } from "vitest";
import { ENDPOINTS, endpointPath } from "../../src/spec/operations.ts";
import { answerProblem } from "../../src/spec/schemas.ts";
import { type FaultRates, type Sandbox, type SandboxOptions, startSandbox } from "../../src/sandbox/sandbox.ts";
import { atEnd } from "../support/closing.ts";
import { type Answer, Site } from "../support/http.ts";

const CONTRACT = `00${"ab".repeat(68)}`;
const FACTORY = endpointPath("transfer_factory");
const LISTING = endpointPath("instruments");

async function start(options: SandboxOptions = {}): Promise<Sandbox & { site: Site }> {
  const sandbox = await startSandbox(options);
  atEnd(() => sandbox.close());
  return { ...sandbox, site: new Site(sandbox.url) };
}

/** The body of a factory request of either version. */
function transfer(admin: string, ends: { sender?: unknown; receiver?: unknown } = {}): string {
  const instrumentId = { admin, id: "Amulet" };
  const transfer = { sender: "alice::1220aa", receiver: "bob::1220b1", amount: "1.0", instrumentId, ...ends };
  return JSON.stringify({ choiceArguments: { expectedAdmin: admin, transfer }, excludeDebugFields: true });
}

describe("a sample registry", () => {
  let sandbox: Sandbox & { site: Site };
  beforeAll(async () => {
    sandbox = await start();
  });

  it.each(ENDPOINTS.map(({ operation, record }) => [operation, record] as const))(
    "answers %s as published",
    async (operation, record) => {
      const before = sandbox.calls[operation];
      const path = endpointPath(operation, operation === "instrument" ? "Amulet/USD" : CONTRACT);
      const body = record.kind === "factory" ? '{"choiceArguments":{}}' : "{}";
      const answer = await (record.kind === "metadata" ? sandbox.site.get(path) : sandbox.site.post(path, body));
      expect(answer.outcome).toBe("200");
      expect(answer.headers["content-type"]).toBe("application/json");
      expect(answerProblem(operation, answer.json)).toBeUndefined();
      expect(sandbox.calls[operation]).toBe(before + 1);
      const method = record.kind === "metadata" ? "POST" : "GET";
      expect((await sandbox.site.send({ method, path })).status).toBe(405);
    },
  );

  test("sizes are those of the field", async () => {
    const factory = await sandbox.site.post(FACTORY, transfer(sandbox.admin));
    const debugged = await sandbox.site.post(FACTORY, '{"choiceArguments":{}}');
    const context = await sandbox.site.post(endpointPath("transfer_accept", CONTRACT), '{"excludeDebugFields":true}');
    const execution = await sandbox.site.post(endpointPath("allocation_execute", CONTRACT));
    const instrument = await sandbox.site.get(endpointPath("instrument", "BOND-2026-010"));
    const sizes = [factory, debugged, context, execution, instrument].map(({ bytes }) => bytes.length);
    expect(sizes.map((size) => Math.round(size / 100) / 10)).toEqual([9.1, 12.2, 3.1, 5.1, 0.5]);
  });

  test("a settlement grows by its allocations, and has a hundred of them at most", async () => {
    const settle = (count: number): Promise<Answer> => {
      const choiceArguments = { transferLegs: [], allocations: Array.from({ length: count }, () => CONTRACT) };
      return sandbox.site.post(endpointPath("settlement_factory_v2"), JSON.stringify({ choiceArguments }));
    };
    expect((await settle(100)).bytes.length).toBeGreaterThan(1_000_000);
    expect((await settle(101)).outcome).toBe("400");
  });

  it.each([
    [{ receiver: "alice::1220aa" }, "self"],
    [{ sender: { owner: "a" }, receiver: { owner: "a" } }, "self"],
    [{ receiver: "bob::1220b2" }, "direct"],
    [{}, "offer"],
  ])("a transfer with %j is of kind %s", async (ends, kind) => {
    const { json } = await sandbox.site.post(FACTORY, transfer(sandbox.admin, ends));
    expect((json as { transferKind: string }).transferKind).toBe(kind);
  });

  it.each<[what: string, path: string, body: string, type: string, status: number, error: RegExp]>([
    ["no JSON", FACTORY, "{", "application/json", 400, /malformed/],
    ["an empty factory request", FACTORY, "", "application/json", 400, /malformed/],
    ["no choiceArguments", FACTORY, "{}", "application/json", 400, /choiceArguments/],
    [
      "a flag that is no flag",
      FACTORY,
      '{"choiceArguments":{},"excludeDebugFields":1}',
      "application/json",
      400,
      /exclude/,
    ],
    ["another admin", FACTORY, transfer("other::1220aa"), "application/json", 400, /must match registry admin/],
    ["another type", FACTORY, "{}", "text/plain", 415, /application\/json/],
    [
      "wrapped meta",
      endpointPath("transfer_reject", CONTRACT),
      '{"meta":{"values":{}}}',
      "application/json",
      400,
      /meta/,
    ],
    ["an unknown contract", endpointPath("allocation_cancel", "missing-1"), "{}", "application/json", 404, /not found/],
    [
      "one on its way",
      endpointPath("allocation_cancel_v2", "reassigned-1"),
      "{}",
      "application/json",
      409,
      /reassigned/,
    ],
  ])("refuses %s", async (_what, path, body, type, status, error) => {
    const answer = await sandbox.site.post(path, body, { "content-type": type });
    expect(answer.outcome).toBe(String(status));
    expect(answer.text).toMatch(error);
    if (status !== 415) expect(answer.json).toEqual({ error: expect.any(String) as string });
  });

  test("an empty body is a context's right", async () => {
    expect((await sandbox.site.post(endpointPath("transfer_accept", CONTRACT), "")).status).toBe(200);
  });

  test("pages of any origin may call it", async () => {
    const headers = {
      origin: "https://wallet.example",
      "access-control-request-headers": "content-type, sentry-trace",
    };
    const preflight = await sandbox.site.send({ method: "OPTIONS", path: FACTORY, headers });
    expect(preflight.status).toBe(204);
    expect(preflight.headers["access-control-allow-headers"]).toBe("content-type, sentry-trace");
    expect((await sandbox.site.get("/nowhere")).headers["access-control-allow-origin"]).toBe("*");
  });

  it.each([
    "/",
    "/registry/metadata/v1/none",
    "/registry/metadata/v1/instruments/%E0",
    "/registry/metadata/v1/instruments/",
  ])("knows no path %s", async (path) => {
    expect((await sandbox.site.get(path)).outcome).toBe("404");
  });
});

interface Page {
  readonly instruments: { id: string }[];
  readonly nextPageToken?: string | null;
}

it.each([
  ["token-id", 60, 3],
  ["token-index", 51, 3],
  ["none", 60, 1],
  ["token-id", 0, 1],
] as const)("with %s, %d instruments are walked in %d pages", async (paging, instruments, pages) => {
  const { site } = await start({ paging, instruments });
  const ids: string[] = [];
  let token: string | null | undefined;
  let count = 0;
  do {
    const query: string = typeof token === "string" ? `?pageToken=${encodeURIComponent(token)}` : "";
    const page = (await site.get(LISTING + query)).json as Page;
    ids.push(...page.instruments.map(({ id }) => id));
    token = page.nextPageToken;
    count += 1;
  } while (typeof token === "string");
  expect([count, new Set(ids).size]).toEqual([pages, instruments]);
});

it.each([
  ["clamp", "?pageSize=51", 50],
  ["refuse", "?pageSize=51", "pageSize cannot be greater than 50"],
  ["clamp", "?pageSize=0", "pageSize must be a positive integer"],
  ["clamp", "?pageSize=7", 7],
  ["clamp", "", 10],
  ["clamp", "?pageToken=none", "invalid pageToken"],
] as const)("where more is %sed, %s gives %s", async (beyond, query, expected) => {
  const { site } = await start({ pageSize: { default: 10, most: 50, beyond } });
  const { json } = await site.get(LISTING + query);
  expect(typeof expected === "number" ? (json as Page).instruments.length : (json as { error: string }).error).toBe(
    expected,
  );
});

it.each([
  ["v1", "transfer_factory", 200, "transfer_factory_v2", 404],
  ["v2", "transfer_factory_v2", 200, "transfer_factory", 404],
] as const)("a registry of %s alone names and serves no other", async (apis, one, good, other, bad) => {
  const { site } = await start({ apis });
  const names = Object.keys(((await site.get(endpointPath("info"))).json as { supportedApis: object }).supportedApis);
  expect(names).toHaveLength(4);
  expect((await site.post(endpointPath(one), '{"choiceArguments":{}}')).status).toBe(good);
  expect((await site.post(endpointPath(other), '{"choiceArguments":{}}')).status).toBe(bad);
});

describe("faults", () => {
  it.each([
    ["error-500", 500, "application/json"],
    ["error-503", 503, "application/json"],
    ["busy-429", 429, "text/plain; charset=UTF-8"],
    ["html-404", 404, "text/html"],
    ["html-502", 502, "text/html"],
    ["bad-json", 200, "application/json"],
  ] as const)("%s comes by rate, by query and by field", async (name, status, type) => {
    const sandbox = await start({ faults: { [name]: 1 } });
    const path = endpointPath("info");
    const byRate = await sandbox.site.get(path);
    sandbox.setFaults({});
    const answers = [
      byRate,
      await sandbox.site.get(`${path}?fault=${name}`),
      await sandbox.site.get(path, { "x-sandbox-fault": name }),
    ];
    for (const answer of answers) {
      expect([answer.status, answer.headers["content-type"]]).toEqual([status, type]);
      expect(answer.headers["retry-after"]).toBeUndefined();
    }
    expect((await sandbox.site.get(path)).status).toBe(200);
    if (name === "bad-json") expect(() => byRate.json as unknown).toThrow(SyntaxError);
  });

  test("reset ends the connection, and hang leaves it open without an answer", async () => {
    const { site, url } = await start();
    await expect(site.get("/registry/metadata/v1/info?fault=reset")).rejects.toThrow(/ECONNRESET|socket hang up/);
    const hung = fetch(`${url}/registry/metadata/v1/info?fault=hang`, { signal: AbortSignal.timeout(300) });
    await expect(hung).rejects.toThrow(/timeout/);
  });

  test("slow is the right answer, late", async () => {
    const { site } = await start({ slow: 100 });
    const begin = performance.now();
    expect((await site.get("/registry/metadata/v1/info?fault=slow")).status).toBe(200);
    expect(performance.now() - begin).toBeGreaterThan(95);
  });

  test("a share of the requests gets them, the same ones with the same seed", async () => {
    const draw = async (): Promise<number[]> => {
      const { site } = await start({ seed: 7, faults: { "error-500": 0.3, "busy-429": 0.2 } });
      const statuses: number[] = [];
      for (let i = 0; i < 100; i += 1) statuses.push((await site.get("/registry/metadata/v1/info")).status);
      return statuses;
    };
    const [one, other] = [await draw(), await draw()];
    expect(one).toEqual(other);
    const counts = [200, 500, 429].map((status) => one.filter((each) => each === status).length);
    expect(counts[0]).toBeGreaterThan(35);
    expect(counts[1]).toBeGreaterThan(15);
    expect(counts[2]).toBeGreaterThan(8);
  });

  it.each([[{ "error-500": 2 }], [{ "error-500": 0.6, slow: 0.6 }], [{ none: 1 }]])(
    "rates of %j are refused",
    async (faults) => {
      await expect(startSandbox({ faults: faults as FaultRates })).rejects.toThrow(TypeError);
    },
  );

  test("a fault that there is not is said", async () => {
    const { site } = await start();
    expect((await site.get("/registry/metadata/v1/info?fault=none")).text).toContain("html-404, html-502");
  });
});

test("what is beyond the limit is a 429 as real registries send it", async () => {
  const { site } = await start({ rateLimit: { requests: 3, per: 60_000 } });
  const answers = await Promise.all([1, 2, 3, 4].map(() => site.get(endpointPath("info"))));
  expect(answers.map(({ status }) => status).filter((status) => status === 200)).toHaveLength(3);
  expect(answers.find(({ status }) => status === 429)?.text).toContain("Server is busy");
});

test("answers take their latency, and metadata says how long it is fresh", async () => {
  const { site } = await start({ latency: 50, jitter: 10, cacheControl: "max-age=5" });
  const begin = performance.now();
  expect((await site.get(endpointPath("info"))).headers["cache-control"]).toBe("max-age=5");
  expect(performance.now() - begin).toBeGreaterThan(45);
  expect((await site.post(endpointPath("transfer_accept", CONTRACT))).headers["cache-control"]).toBeUndefined();
  expect((await site.get(endpointPath("instrument", "none"))).headers["cache-control"]).toBeUndefined();
});

test("the same name gives the same registry, another one another", async () => {
  const [one, same, other] = [
    await start({ name: "one" }),
    await start({ name: "one" }),
    await start({ name: "other" }),
  ];
  const body = '{"choiceArguments":{}}';
  const texts = await Promise.all([one, same, other].map(async ({ site }) => (await site.post(FACTORY, body)).text));
  expect(one.admin).toMatch(/^one::1220[0-9a-f]{64}$/);
  expect(texts[1]).toBe(texts[0]);
  expect(texts[2]).not.toBe(texts[0]);
  expect(same.instruments).toEqual(one.instruments);
});
