import { describe, expect, test, vi } from "vitest";
import { HttpCache } from "../../src/cache/http-cache.ts";
import type { CallFault, Fault } from "../../src/sandbox/faults.ts";
import { ownError } from "../support/own-error.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { DSO, sampleText } from "../support/sample.ts";
import { useGateways } from "../support/gateways.ts";
import { errorOf, type ReceivedAnswer, type SentRequest, send } from "../support/send.ts";

const startRegistry = useSampleRegistries();
const startGateway = useGateways();

const INFO = "/registry/metadata/v1/info";
const LIST = "/registry/metadata/v1/instruments";
const CANCEL = "/registry/allocations/v1/00ab/choice-contexts/cancel";

const GET: SentRequest = { path: LIST };
const POST: SentRequest = { path: CANCEL, body: "{}" };
const DRAFT: SentRequest = { path: "/registry/drafts/v1/x" };
const OPERATIONS = ["instruments", "allocation_cancel", "pass_through"] as const;

/** One try per call, so that a fault is answered at once. */
const ONE_TRY = { retry: { attempts: 1 }, hedge: { enabled: false } };

/** For requests that nobody answers. */
const SOON = { "request-timeout": "0.5" };

async function startWith(upstreamKeys: object = ONE_TRY, keys: Record<string, unknown> = {}) {
  const registry = await startRegistry();
  const gateway = await startGateway({
    ...keys,
    upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url], ...upstreamKeys }],
  });
  expect((await send(gateway.url, { path: INFO })).status).toBe(200);
  return { registry, ...gateway };
}

/** Clients of the standard show the body alone: what fields say of an error, it says too. */
function expectErrorBody({ text, headers }: ReceivedAnswer): void {
  const retryAfter = headers["retry-after"] === undefined ? {} : { retryAfter: Number(headers["retry-after"]) };
  const code = headers["registry-gateway-error"] as string;
  expect(JSON.parse(text)).toEqual({ ...ownError(/./, { code, ...retryAfter }), requestId: headers["x-request-id"] });
}

/** What holds of every answer with an error of ours. */
function expectOwnError(answer: ReceivedAnswer, status: number): void {
  expect(answer.status).toBe(status);
  expect(answer.headers["content-type"]).toBe("application/json");
  expectErrorBody(answer);
  expect(answer.headers["access-control-allow-origin"]).toBe("*");
  expect(answer.headers["access-control-expose-headers"]).toContain("proxy-status");
  expect(answer.headers["x-content-type-options"]).toBe("nosniff");
  expect(answer.headers["x-request-id"]).toMatch(/./);
  expect(answer.headers["cache-control"]).toBe("no-store");
  expectNoAddress(answer);
}

/** No host, port, address or stack of an upstream. */
function expectNoAddress(answer: ReceivedAnswer): void {
  const everything = `${answer.rawHeaders.join("\n")}\n${answer.text}`;
  expect(everything).not.toMatch(/127\.0\.0\.1|localhost|:\d{4,5}\b|ECONN|UND_ERR|HPE_|\bat .*\.[jt]s/);
}

describe("what is wrong with an upstream is told in our form", () => {
  const rows: readonly [CallFault["kind"] | "refuse", Fault, number, string][] = [
    ["refuse", { kind: "refuse" }, 502, "connection_refused"],
    ["reset", { kind: "reset" }, 502, "connection_terminated"],
    ["garbage", { kind: "garbage" }, 502, "http_protocol_error"],
    ["not-json", { kind: "not-json", operations: OPERATIONS }, 502, "http_protocol_error"],
    ["redirect", { kind: "redirect", operations: OPERATIONS }, 502, "http_protocol_error"],
    ["html-404", { kind: "html-404", operations: OPERATIONS }, 502, "proxy_configuration_error"],
    ["truncate", { kind: "truncate", operations: OPERATIONS }, 502, "http_response_incomplete"],
    ["hang", { kind: "hang", operations: OPERATIONS }, 504, "http_response_timeout"],
    ["hang-body", { kind: "hang-body", operations: OPERATIONS }, 504, "http_response_timeout"],
  ];

  test.each(rows)("%s", async (kind, fault, status, type) => {
    const { registry, url } = await startWith();
    await registry.faults.set(fault);
    const headers = kind.startsWith("hang") ? SOON : {};
    for (const request of [GET, POST]) {
      const answer = await send(url, { ...request, headers });
      expectOwnError(answer, status);
      expect(answer.headers["proxy-status"]).toBe(`registry-gateway;error=${type}`);
      // Whoever waits for somebody else's fetch knows no more than that it is a registry.
      expect(errorOf(answer)).toMatch(request === POST ? /"amulet"/ : /"amulet"|the registry/);
      const cacheStatus = request === GET ? "registry-gateway;fwd=uri-miss" : undefined;
      expect(answer.headers["cache-status"]).toBe(cacheStatus);
    }
  });

  test.each(rows.filter(([kind]) => !["not-json", "html-404", "truncate", "hang-body"].includes(kind)))(
    "%s, on what passes through",
    async (kind, fault, status, type) => {
      const { registry, url } = await startWith();
      await registry.faults.set(fault);
      const answer = await send(url, { ...DRAFT, headers: kind === "hang" ? SOON : {} });
      expectOwnError(answer, status);
      expect(answer.headers["proxy-status"]).toBe(`registry-gateway;error=${type}`);
    },
  );

  test("how far a request went that failed", async () => {
    const keys = {
      cache: { honorClient: true, ttl: { instruments: "0s" }, staleIfError: "0s", staleWhileRevalidate: "0s" },
    };
    const { registry, url } = await startWith(ONE_TRY, keys);
    const offline = await send(url, { ...GET, headers: { "cache-control": "only-if-cached" } });
    expectOwnError(offline, 504);
    expect(offline.headers["cache-status"]).toBe("registry-gateway;detail=refused");
    expect(offline.headers["proxy-status"]).toBe("registry-gateway;error=proxy_internal_response");
    registry.script(({ operation }) =>
      operation === "instruments"
        ? { status: 200, headers: ["Cache-Control", "max-age=0", "ETag", '"1"'], body: '{"instruments":[]}' }
        : undefined,
    );
    expect((await send(url, GET)).status).toBe(200);
    registry.script(({ operation }) => (operation === "instruments" ? { status: 200, body: "no JSON" } : undefined));
    const failed = await send(url, GET);
    expectOwnError(failed, 502);
    expect(failed.headers["cache-status"]).toBe("registry-gateway;fwd=stale");
  });

  test("an answer that is too large", async () => {
    const { registry, url } = await startWith(ONE_TRY, { limits: { responseBody: "64KiB" } });
    for (const announced of [true, false]) {
      await registry.faults.set({ kind: "oversize", bytes: 100_000, announced, operations: OPERATIONS });
      for (const request of [GET, POST]) {
        const answer = await send(url, request);
        expectOwnError(answer, 502);
        expect(answer.headers["proxy-status"]).toBe("registry-gateway;error=http_response_body_size");
      }
    }
    await registry.faults.set({ kind: "oversize", bytes: 100_000, announced: true, operations: OPERATIONS });
    expectOwnError(await send(url, DRAFT), 502);
  });

  test.each([401, 403])("%i to credentials of ours", async (status) => {
    const credentials = { ...ONE_TRY, auth: { bearerToken: "of-the-gateway" } };
    const { registry, url } = await startWith(credentials);
    await registry.faults.set({ kind: "status", status, operations: OPERATIONS });
    for (const request of [GET, POST, DRAFT]) {
      const answer = await send(url, request);
      expectOwnError(answer, 502);
      expect(answer.headers["proxy-status"]).toBe("registry-gateway;error=http_request_denied");
      expect(answer.text).not.toContain("of-the-gateway");
    }
    expect(registry.calls.last!.headers.authorization).toBe("Bearer of-the-gateway");
  });

  test("a deadline of the client's own", async () => {
    const { registry, url } = await startWith({});
    await registry.faults.set({ kind: "hang", operations: OPERATIONS });
    for (const request of [GET, POST, DRAFT]) {
      expectOwnError(await send(url, { ...request, headers: SOON }), 504);
    }
  });

  test("an open breaker says when to come back, and nothing reaches the registry", async () => {
    const { registry, url } = await startWith();
    // Its info too: a registry that tells it goes on being asked, whatever else fails.
    await registry.faults.set({ kind: "html-502" });
    let answer = await send(url, POST);
    for (let i = 0; i < 200 && answer.status !== 503; i++) answer = await send(url, POST);
    expectOwnError(answer, 503);
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
    registry.calls.clear();
    expectOwnError(await send(url, POST), 503);
    expect(registry.calls.count("allocation_cancel")).toBe(0);
  });

  test("our own rate limit says when to come back", async () => {
    const { url } = await startWith({ ...ONE_TRY, rateLimit: { requests: 3, per: "1m", maxWait: "0s" } });
    let answer = await send(url, POST);
    for (let i = 0; i < 5 && answer.status === 200; i++) answer = await send(url, POST);
    expectOwnError(answer, 429);
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
  });
});

describe("an upstream's own error", () => {
  test.each([400, 404, 409, 413, 415, 422, 429, 500, 501])(
    "%i in the API's form is passed on as it is",
    async (status) => {
      const { registry, url } = await startWith();
      const body = '{ "error":"in its own words", "code":17}';
      await registry.faults.set({ kind: "status", status, body, operations: OPERATIONS });
      for (const request of [GET, POST]) {
        const answer = await send(url, request);
        expect([answer.status, answer.text]).toEqual([status, body]);
        expect(answer.headers["content-type"]).toBe("application/json");
        expect(answer.headers["access-control-allow-origin"]).toBe("*");
        expect(answer.headers["proxy-status"]).toBeUndefined();
      }
    },
  );

  test.each<[string, CallFault, number, string]>([
    ["text/plain of an overload", { kind: "429" }, 429, "Server is busy"],
    ["an HTML 502", { kind: "html-502" }, 502, "502 Bad Gateway"],
    ["no body", { kind: "status", status: 500, body: "" }, 500, "500"],
    ["JSON of another form", { kind: "status", status: 422, body: '{"message":"no"}' }, 422, "no"],
    ["an error that is no string", { kind: "status", status: 400, body: '{"error":{"code":1}}' }, 400, "code"],
    ["a list", { kind: "status", status: 400, body: '["error"]' }, 400, "error"],
    [
      "text with control characters",
      { kind: "status", status: 400, body: "caf\u00e9 \u0000\u0007", contentType: "text/plain" },
      400,
      "caf",
    ],
  ])("in another form keeps its status and its text: %s", async (_what, fault, status, text) => {
    const { registry, url } = await startWith();
    await registry.faults.set({ ...fault, operations: OPERATIONS });
    for (const request of [GET, POST]) {
      const answer = await send(url, request);
      expect(answer.status).toBe(status);
      expect(answer.headers["content-type"]).toBe("application/json");
      expectErrorBody(answer);
      expect(errorOf(answer)).toMatch(/^registry-gateway: /);
      expect(errorOf(answer)).toContain(text);
      expect(errorOf(answer)).not.toMatch(/[<\p{Cc}]/u);
      expectNoAddress(answer);
    }
  });

  test("in another form is kept as others are, and names each request that gets it", async () => {
    const { registry, url } = await startWith({}, { cache: { ttl: { notFound: "1m" } } });
    const page = "<html><head><title>404 Not Found</title></head><body><h1>404 Not Found</h1><hr>nginx</body></html>";
    const fault = { kind: "status", status: 404, contentType: "text/plain", operations: ["instrument"] } as const;
    await registry.faults.set({ ...fault, body: page.replace("<html>", "oops: <html>") });
    const request = { path: "/registry/metadata/v1/instruments/none" };
    registry.calls.clear();
    for (const id of ["first", "second", "third"]) {
      const answer = await send(url, { ...request, headers: { "x-request-id": id } });
      expectErrorBody(answer);
      expect([answer.status, answer.headers["x-request-id"]]).toEqual([404, id]);
      expect(answer.headers["proxy-status"]).toBe("registry-gateway;received-status=404");
      expect(errorOf(answer)).toMatch(/answered 404: oops: 404 Not Found nginx$/);
    }
    expect(registry.calls.count("instrument")).toBe(1);
  });

  test("in another form is shortened", async () => {
    const { registry, url } = await startWith();
    await registry.faults.set({
      kind: "status",
      status: 500,
      body: "very ".repeat(5_000),
      contentType: "text/plain",
      operations: OPERATIONS,
    });
    const answer = await send(url, POST);
    expect(answer.status).toBe(500);
    expect(answer.text.length).toBeLessThan(500);
  });

  test("its Retry-After is passed on", async () => {
    const { registry, url } = await startWith();
    await registry.faults.set({ kind: "429", retryAfter: "7", operations: OPERATIONS });
    for (const request of [GET, POST, DRAFT]) {
      const answer = await send(url, request);
      expect([answer.status, answer.headers["retry-after"]]).toEqual([429, "7"]);
    }
  });

  test("401 and 403 without credentials of ours are the registry's", async () => {
    const { registry, url } = await startWith();
    for (const status of [401, 403]) {
      await registry.faults.set({ kind: "status", status, body: '{"error":"who?"}', operations: OPERATIONS });
      for (const request of [GET, POST, DRAFT]) {
        const answer = await send(url, request);
        expect([answer.status, answer.text]).toEqual([status, '{"error":"who?"}']);
      }
    }
  });

  test("that passes through is untouched, HTML too", async () => {
    const { registry, url } = await startWith();
    await registry.faults.set({ kind: "html-404", operations: OPERATIONS });
    const answer = await send(url, DRAFT);
    expect([answer.status, answer.headers["content-type"]]).toEqual([404, "text/html"]);
    expect(answer.text).toBe(sampleText("err-404.nginx.html"));
    expect(answer.headers["access-control-allow-origin"]).toBe("*");
  });

  test("the page of a wrong URL becomes one that says so", async () => {
    const { registry, url } = await startWith();
    await registry.faults.set({ kind: "html-404", operations: OPERATIONS });
    expect(errorOf(await send(url, GET))).toContain("URL is probably wrong");
  });
});

describe("a request that addresses nothing", () => {
  test.each<[SentRequest, number, string | undefined]>([
    [{ path: "/", body: "{}" }, 405, "GET, HEAD, OPTIONS"],
    [{ path: "//" }, 404, undefined],
    [{ path: "/nothing/here" }, 404, undefined],
    [{ path: INFO, method: "POST" }, 405, "GET, HEAD, OPTIONS"],
    [{ path: INFO, method: "DELETE" }, 405, "GET, HEAD, OPTIONS"],
    [{ path: LIST, body: "{}" }, 405, "GET, HEAD, OPTIONS"],
    [{ path: CANCEL }, 405, "POST, OPTIONS"],
    [{ path: CANCEL, method: "PUT" }, 405, "POST, OPTIONS"],
    [{ path: "/registry/transfer-instruction/v1/transfer-factory" }, 405, "POST, OPTIONS"],
    [{ path: DRAFT.path, method: "DELETE" }, 405, "GET, POST, OPTIONS"],
    [{ path: DRAFT.path, method: "PUT" }, 405, "GET, POST, OPTIONS"],
    [{ path: INFO, method: "TRACE" }, 405, "GET, HEAD, OPTIONS"],
    [{ path: INFO, method: "PROPFIND" }, 405, "GET, HEAD, OPTIONS"],
    [{ path: INFO, method: "QUERY" }, 405, "GET, HEAD, OPTIONS"],
    [{ path: INFO, method: "PUT", body: "x", headers: { "content-type": "foo" } }, 405, "GET, HEAD, OPTIONS"],
    [{ path: "/nothing", body: "x", headers: { "content-type": "foo" } }, 404, undefined],
    [{ path: `/${"x".repeat(9_000)}` }, 414, undefined],
    [{ path: `${LIST}?pageToken=${"x".repeat(9_000)}` }, 414, undefined],
  ])("%j: %i", async (request, status, allow) => {
    const { url } = await startWith();
    const answer = await send(url, request);
    expectOwnError(answer, status);
    expect(answer.headers.allow).toBe(allow);
    expect(answer.headers["proxy-status"]).toBeUndefined();
  });
});

describe("HEAD and OPTIONS", () => {
  test("HEAD has the head of GET and no body", async () => {
    const { url } = await startWith();
    for (const path of [INFO, LIST, `${LIST}/nothing`]) {
      const [got, head] = [await send(url, { path }), await send(url, { path, method: "HEAD" })];
      expect(head.status).toBe(got.status);
      expect(head.text).toBe("");
      for (const name of ["content-type", "content-length", "etag", "cache-control", "access-control-allow-origin"]) {
        expect([name, head.headers[name]]).toEqual([name, got.headers[name]]);
      }
    }
    const refused = await send(url, { path: "/nothing", method: "HEAD" });
    expect([refused.status, refused.text]).toEqual([404, ""]);
  });

  test("what anybody may send has a body that nobody reads", async () => {
    const { url } = await startWith({}, { limits: { requestBody: "64KiB" } });
    const body = Buffer.alloc(100 * 1024, " ");
    expect((await send(url, { path: INFO, method: "OPTIONS", body })).status).toBe(204);
    expectOwnError(await send(url, { path: "/docs", method: "PUT", body }), 405);
    expectOwnError(await send(url, { path: INFO, method: "PUT", body }), 413);
  });

  test.each([INFO, CANCEL, DRAFT.path, "/", "/registry/metadata/v1/instruments/%00", "*"])(
    "a preflight of %s is answered without asking anybody",
    async (path) => {
      const { registry, url } = await startWith();
      registry.calls.clear();
      const answer = await send(url, {
        path,
        method: "OPTIONS",
        headers: {
          origin: "https://wallet.example",
          "access-control-request-method": "POST",
          "access-control-request-headers": "authorization,content-type",
        },
      });
      expect([answer.status, answer.text]).toEqual([204, ""]);
      const allowed = answer.rawHeaders.filter((name) => name.toLowerCase() === "access-control-allow-origin");
      expect(allowed).toHaveLength(1);
      expect(answer.headers["access-control-allow-origin"]).toBe("*");
      expect(answer.headers["access-control-allow-methods"]).toContain("POST");
      expect(answer.headers["access-control-allow-headers"]).toContain("authorization");
      expect(answer.headers["access-control-max-age"]).toBe("7200");
      expect(answer.headers["access-control-allow-credentials"]).toBeUndefined();
      expect(registry.calls.total).toBe(0);
    },
  );

  test("CORS for chosen origins names the one that asks on every answer, a stored one too", async () => {
    const { url } = await startWith(ONE_TRY, { cors: { origins: ["https://a.example", "https://b.example"] } });
    for (const [origin, allowed] of [
      ["https://a.example", "https://a.example"],
      ["https://b.example", "https://b.example"],
      ["https://c.example", undefined],
    ] as const) {
      for (const path of [INFO, "/nothing"]) {
        const answer = await send(url, { path, headers: { origin } });
        expect(answer.headers["access-control-allow-origin"]).toBe(allowed);
        expect(answer.headers.vary?.toLowerCase()).toContain("origin");
      }
    }
  });
});

test("a mistake of ours says nothing but that", async () => {
  const { registry, url, lines, gateway } = await startWith();
  const upstream = gateway.upstreams().all[0]!;
  upstream.call = () => Promise.reject(new Error("secret detail"));
  const answer = await send(url, POST);
  expectOwnError(answer, 500);
  expect(JSON.parse(answer.text)).toEqual(ownError(/internal server error$/, { code: "internal_error" }));
  expect(registry.calls.count("allocation_cancel")).toBe(0);
  expect(lines.filter(({ level }) => level === "error")).toHaveLength(1);
  // The log is where the cause belongs.
  expect(JSON.stringify(lines.at(-1))).toContain("secret detail");
});

test("a fault of the gateway's own in a memory hit is 500 and ends nothing else", async () => {
  const gateway = await startWith();
  expect((await send(gateway.url, GET)).status).toBe(200);
  const hit = vi.spyOn(HttpCache.prototype, "hit").mockImplementation(() => {
    throw new Error("a bug");
  });
  const answer = await send(gateway.url, GET);
  hit.mockRestore();
  expectOwnError(answer, 500);
  expect(JSON.parse(answer.text)).toEqual(ownError(/internal server error$/, { code: "internal_error" }));
  expect((await send(gateway.url, GET)).headers["cache-status"]).toContain("hit");
});
