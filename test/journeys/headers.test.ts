import { describe, expect, test } from "vitest";
import { NOTHING_KEPT } from "../support/gateway.ts";
import { gzipSync } from "node:zlib";
import type { Call } from "../../src/sandbox/call-log.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import type { SampleRegistry, Script } from "../support/sample-registry.ts";
import { DSO, sampleText } from "../support/sample.ts";
import type { GatewayTestOptions } from "../support/gateway.ts";
import { ShiftedClock } from "../support/shifted-clock.ts";
import { useGateways } from "../support/gateways.ts";
import { errorOf, type ReceivedAnswer, type SentRequest, send } from "../support/send.ts";

const startRegistry = useSampleRegistries();
const startGateway = useGateways();

const INFO = "/registry/metadata/v1/info";
const LIST = "/registry/metadata/v1/instruments";
const CANCEL = "/registry/allocations/v1/00ab/choice-contexts/cancel";
const FACTORY = "/registry/transfer-instruction/v1/transfer-factory";

const GET: SentRequest = { path: LIST };
const POST: SentRequest = { path: CANCEL, body: "{}" };
const DRAFT_GET: SentRequest = { path: "/registry/drafts/v1/x" };
const DRAFT_POST: SentRequest = { path: "/registry/drafts/v1/x", body: "{}" };

async function startWith(
  upstreamKeys: object = {},
  keys: Record<string, unknown> = {},
  options: GatewayTestOptions = {},
) {
  const registry = await startRegistry();
  const gateway = await startGateway(
    {
      ...NOTHING_KEPT,
      ...keys,
      upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url], ...upstreamKeys }],
    },
    options,
  );
  expect((await send(gateway.url, { path: INFO })).status).toBe(200);
  return { registry, ...gateway };
}

/** Everything that a browser, a proxy or an attacker may send along. */
const CLIENT_FIELDS = {
  accept: "application/vnd.x+json",
  "accept-encoding": "gzip, br",
  "accept-language": "de",
  authorization: "Bearer of-the-client",
  cookie: "session=1",
  "cache-control": "no-cache",
  forwarded: "for=10.0.0.1",
  "if-none-match": '"x"',
  "if-modified-since": "Fri, 20 Nov 2026 10:00:00 GMT",
  origin: "https://wallet.example",
  pragma: "no-cache",
  "proxy-authorization": "Basic eA==",
  range: "bytes=0-1",
  referer: "https://wallet.example/page",
  te: "trailers",
  traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  tracestate: "a=b",
  "user-agent": "wallet/1",
  via: "1.1 elsewhere",
  "x-forwarded-for": "10.0.0.1",
  "x-forwarded-host": "evil.example",
  "x-http-method-override": "DELETE",
  "x-instrument-admin": DSO,
  "x-private": "1",
  "x-request-id": "request-17",
  "x-custom": "named-by-connection",
  connection: "x-custom, keep-alive",
};

/** What the registry was sent, but for the fields that every HTTP client sends. */
function sentFields(call: Call | undefined): Record<string, unknown> {
  const { host, connection, "content-length": length, "transfer-encoding": coding, ...rest } = call!.headers;
  expect(host).toMatch(/^127\.0\.0\.1:/);
  expect([connection, coding]).toEqual(["keep-alive", undefined]);
  expect(length).toBe(call!.body.length > 0 || call!.method === "POST" ? String(call!.body.length) : undefined);
  return rest;
}

/** The gateway's own (RFC 9110 §7.6.3); by which way a client's request came is nobody's business. */
const VIA = "1.1 registry-gateway";

const TRACING = { traceparent: CLIENT_FIELDS.traceparent, tracestate: CLIENT_FIELDS.tracestate };

describe("a registry is sent", () => {
  test("on cached routes nothing of a client's but the trace", async () => {
    const { registry, url } = await startWith();
    expect(
      (await send(url, { ...GET, headers: { ...CLIENT_FIELDS, "content-type": "application/json" } })).status,
    ).toBe(200);
    expect(sentFields(registry.calls.last)).toEqual({
      accept: "application/json",
      "accept-encoding": "identity",
      via: VIA,
      ...TRACING,
    });
  });

  test("on cached routes also the fields that are configured, which are part of the key", async () => {
    const { registry, url } = await startWith(
      {},
      { cache: { forwardRequestHeaders: ["accept-language", "X-Private"] } },
    );
    expect((await send(url, { ...GET, headers: CLIENT_FIELDS })).status).toBe(200);
    expect(sentFields(registry.calls.last)).toEqual({
      accept: "application/json",
      "accept-encoding": "identity",
      via: VIA,
      "accept-language": "de",
      "x-private": "1",
      ...TRACING,
    });
    registry.calls.clear();
    await send(url, { ...GET, headers: CLIENT_FIELDS });
    await send(url, { ...GET, headers: { ...CLIENT_FIELDS, "accept-language": "en" } });
    expect(registry.calls.recent.map(({ headers }) => headers["accept-language"])).toEqual(["en"]);
  });

  test("nothing that the client's Connection names, and what comes of that is not another's", async () => {
    const { registry, url } = await startWith({}, { cache: { forwardRequestHeaders: "*" } });
    registry.script(({ operation, headers }) =>
      operation === "info"
        ? undefined
        : {
            status: 200,
            headers: ["Vary", "X-Tenant, constructor", "Cache-Control", "max-age=60"],
            body: JSON.stringify({ instruments: [], of: headers["x-tenant"] ?? "nobody" }),
          },
    );
    const of = async (headers: Record<string, string>) => JSON.parse((await send(url, { ...GET, headers })).text).of;
    expect(await of({ "x-tenant": "a", connection: "close, x-tenant" })).toBe("nobody");
    expect(await of({ "x-tenant": "a" })).toBe("a");
    expect(await of({})).toBe("nobody");
    expect(await of({ "x-tenant": "a", connection: "close, X-Tenant" })).toBe("nobody");
    expect(registry.calls.count("instruments")).toBe(2);
  });

  test("otherwise also type, accepted types and the request id", async () => {
    const { registry, url } = await startWith();
    for (const request of [POST, DRAFT_POST, DRAFT_GET]) {
      // A range and conditions are for whoever stores answers; here nobody does.
      expect((await send(url, { ...request, headers: CLIENT_FIELDS })).status).toBe(200);
      expect(sentFields(registry.calls.last)).toEqual({
        accept: CLIENT_FIELDS.accept,
        "accept-encoding": "identity",
        via: VIA,
        "x-request-id": "request-17",
        ...(request.body === undefined ? {} : { "content-type": "application/json" }),
        ...TRACING,
      });
    }
  });

  test("no trace in bad form", async () => {
    const { registry, url } = await startWith(
      {},
      { cache: { ttl: { instruments: "0s" }, forwardRequestHeaders: ["tracestate"] } },
    );
    for (const request of [GET, POST, DRAFT_POST, DRAFT_GET]) {
      const sent = async (traceparent: string, tracestate: string) => {
        await send(url, { ...request, headers: { traceparent, tracestate } });
        const { headers } = registry.calls.last!;
        return [headers.traceparent, headers.tracestate];
      };
      expect(await sent(TRACING.traceparent, "a=b")).toEqual([TRACING.traceparent, "a=b"]);
      expect(await sent(`${TRACING.traceparent}-x`, "a=b")).toEqual([undefined, undefined]);
      expect(await sent("x".repeat(4_000), "a=b")).toEqual([undefined, undefined]);
      expect(await sent(TRACING.traceparent, "=;'\"<script>")).toEqual([TRACING.traceparent, undefined]);
      expect(await sent(TRACING.traceparent, `a=${"x".repeat(4_000)}`)).toEqual([TRACING.traceparent, undefined]);
    }
  });

  test("the id that the gateway made where the client's is not safe", async () => {
    const { registry, url } = await startWith();
    const answer = await send(url, { ...POST, headers: { "x-request-id": "a b" } });
    expect(answer.headers["x-request-id"]).not.toBe("a b");
    expect(registry.calls.last!.headers["x-request-id"]).toBe(answer.headers["x-request-id"]);
  });

  test("each field once, whatever a client repeats", async () => {
    const { registry, url } = await startWith();
    const headers: Record<string, string[]> = {
      accept: ["application/json", "text/plain"],
      "content-type": ["application/json", "text/plain"],
      traceparent: [TRACING.traceparent, TRACING.traceparent],
      tracestate: ["a=b", "c=d"],
    };
    for (const request of [POST, DRAFT_POST]) {
      await send(url, { ...request, headers });
      const { rawHeaders = [] } = registry.calls.last ?? {};
      const names = rawHeaders.filter((_field, i) => i % 2 === 0).map((name) => name.toLowerCase());
      expect(names.toSorted()).toEqual([...new Set(names)].toSorted());
    }
  });

  test("the client's Authorization only where that is configured", async () => {
    const { registry, url } = await startWith({ forwardAuthorization: true });
    for (const request of [GET, POST, DRAFT_GET, DRAFT_POST]) {
      expect((await send(url, { ...request, headers: CLIENT_FIELDS })).status).toBe(200);
      expect(registry.calls.last!.headers.authorization).toBe("Bearer of-the-client");
      expect(registry.calls.last!.headers.cookie).toBeUndefined();
    }
  });

  test("nothing that the client's Connection names, but the type of a body", async () => {
    const { registry, url } = await startWith({ forwardAuthorization: true });
    const headers = { ...CLIENT_FIELDS, connection: "close, Authorization, accept, Content-Type" };
    for (const request of [GET, POST, DRAFT_GET, DRAFT_POST]) {
      expect((await send(url, { ...request, headers })).status).toBe(200);
      const sent = registry.calls.last!.headers;
      expect(sent.authorization).toBeUndefined();
      expect(sent.accept).not.toBe(CLIENT_FIELDS.accept);
      expect(sent["content-type"]).toBe("body" in request ? "application/json" : undefined);
    }
  });

  test("the gateway's own credentials and never the client's instead", async () => {
    const { registry, url } = await startWith({ auth: { bearerToken: "of-the-gateway" } });
    for (const request of [GET, POST, DRAFT_GET, DRAFT_POST]) {
      await send(url, { ...request, headers: CLIENT_FIELDS });
      expect(registry.calls.last!.headers.authorization).toBe("Bearer of-the-gateway");
    }
    const named = await startWith({ auth: { header: { name: "x-api-key", value: "of-the-gateway" } } });
    for (const request of [GET, POST, DRAFT_POST]) {
      await send(named.url, { ...request, headers: { ...CLIENT_FIELDS, "x-api-key": "of-the-client" } });
      expect(named.registry.calls.last!.headers["x-api-key"]).toBe("of-the-gateway");
    }
  });

  test("of the query what the endpoint knows, and all of it on what passes through", async () => {
    const { registry, url } = await startWith();
    await send(url, { path: `${LIST}?x=1&pageToken=${encodeURIComponent("a/b=")}&pageSize=05&y=%ff` });
    expect(registry.calls.last!.url).toBe(`${LIST}?pageSize=5&pageToken=a%2Fb%3D`);
    await send(url, { path: `${INFO}?x=1` });
    expect(registry.calls.last!.url).toBe(INFO);
    await send(url, { path: `${CANCEL}?x=1`, body: "{}" });
    expect(registry.calls.last!.url).toBe(CANCEL);
    await send(url, { path: `${DRAFT_GET.path}?x=1&y=%ff&&z` });
    expect(registry.calls.last!.url).toBe(`${DRAFT_GET.path}?x=1&y=%ff&&z`);
  });
});

/** Field by field what a registry may answer with, and whether a client gets it. */
const STOPPED: readonly [string, string][] = [
  ["Set-Cookie", "session=1"],
  ["Set-Cookie2", "session=1"],
  ["Server", "nginx/1.2 (internal-host-7)"],
  ["X-Powered-By", "Express"],
  ["X-Request-Id", "of-the-registry"],
  ["Access-Control-Allow-Origin", "https://only.example"],
  ["Access-Control-Allow-Credentials", "true"],
  ["Access-Control-Expose-Headers", "x"],
  ["X-RateLimit-Remaining", "1"],
  ["X-Rate-Limit-Reset", "1"],
  ["RateLimit", "limit=1"],
  ["RateLimit-Policy", "1;w=1"],
  ["Strict-Transport-Security", "max-age=1"],
  ["Clear-Site-Data", '"*"'],
  ["Alt-Svc", 'h2="evil.example:443"'],
  ["NEL", "{}"],
  ["Report-To", "{}"],
  ["Reporting-Endpoints", 'x="https://x"'],
  ["Service-Worker-Allowed", "/"],
  ["Refresh", "0"],
  ["Keep-Alive", "timeout=5"],
  ["Proxy-Authenticate", "Basic"],
  ["Proxy-Connection", "close"],
  ["Upgrade", "h2c"],
  ["TE", "trailers"],
  ["Via", "1.1 inner (internal-host-7)"],
  ["Forwarded", "for=10.0.0.7"],
  ["X-Forwarded-For", "10.0.0.7"],
  ["X-Forwarded-Host", "internal-host-7"],
  ["CDN-Loop", "inner"],
  ["X-Accel-Redirect", "/internal/secret"],
  ["X-Accel-Expires", "86400"],
  ["X-Accel-Limit-Rate", "1"],
  ["X-Accel-Buffering", "no"],
  ["X-Accel-Charset", "utf-7"],
  ["X-Sendfile", "/etc/passwd"],
  ["X-Sendfile2", "/etc/passwd 0-"],
  ["X-Sendfile-Temporary", "/etc/passwd"],
  ["X-LIGHTTPD-send-file", "/etc/passwd"],
  ["X-LIGHTTPD-send-tempfile", "/etc/passwd"],
  ["X-LIGHTTPD-KBytes-per-second", "1"],
  ["X-LiteSpeed-Location", "/internal/secret"],
  ["X-LiteSpeed-Cache-Control", "public,max-age=86400"],
  ["X-Reproxy-URL", "http://internal-host-7/secret"],
  ["X-Reproxy-File", "/etc/passwd"],
  ["X-Compress-Hint", "on"],
  ["PageSpeedFilters", "+all"],
  ["X-Envoy-Immediate-Health-Check-Fail", "true"],
  ["Endpoint-Load-Metrics", "TEXT cpu=1"],
  ["l5d-retryable", "true"],
  ["Surrogate-Control", "max-age=86400"],
  ["Surrogate-Key", "all"],
  ["Edge-Control", "max-age=1d"],
  ["Edge-Cache-Tag", "all"],
  ["Akamai-Cache-Control", "max-age=86400"],
  ["CF-Edge-Cache", "cache,platform=wordpress"],
  ["Cloudflare-CDN-Cache-Control", "max-age=86400"],
  ["Fastly-Restarts", "1"],
  ["Netlify-CDN-Cache-Control", "max-age=86400"],
  ["Vercel-CDN-Cache-Control", "max-age=86400"],
  ["Cache-Tag", "all"],
  ["xkey", "all"],
  ["Set-Login", "logged-in"],
  ["Origin-Agent-Cluster", "?1"],
  ["Accept-CH", "Sec-CH-UA-Model"],
  ["Critical-CH", "Sec-CH-UA-Model"],
  ["Speculation-Rules", '"/rules.json"'],
  ["No-Vary-Search", "params"],
  ["Use-As-Dictionary", 'match="/*"'],
  ["Attribution-Reporting-Register-Source", "{}"],
  ["Attribution-Reporting-Register-Trigger", "{}"],
  ["Secure-Session-Registration", '(ES256);path="/x"'],
  ["Shared-Storage-Write", "clear"],
  ["Observe-Browsing-Topics", "?1"],
  ["Public-Key-Pins", "max-age=1"],
  ["Proxy-Status", "registry-gateway;error=destination_unavailable"],
  ["X-Registry-Partial", "amulet"],
  ["Registry-Gateway-Error", "admin_disagreement"],
  ["Registry-Gateway-Cache-Control", "max-age=30"],
  ["X-Named", "by Connection"],
  ["X-Also-Named", "by Connection"],
];

/** Of the fields that stop, those that pass where the configuration says that all may. */
const FURTHER: readonly [string, string][] = [
  ["Warning", '199 - "x"'],
  ["X-Unknown", "kept"],
  ["X-Latin1", "caf\u00e9"],
  ["X-Acceleration", "kept"],
  ["Cached-By", "kept"],
  ["X-Edge", "kept"],
  ["CDN-Cache-Control", "max-age=7"],
];

const PASSED: readonly [string, string][] = [
  ["Date", "Fri, 20 Nov 2026 10:00:00 GMT"],
  ["Link", '</next>; rel="next"'],
  ["Content-Language", "en"],
  ["Deprecation", "@1700000000"],
  ["Sunset", "Fri, 20 Nov 2026 10:00:00 GMT"],
  ["Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
  ["Allow", "GET"],
];

/** What no configuration lets through. */
const NEVER =
  /^(set-cookie|x-request-id|access-control|ratelimit|x-rate-?limit|strict|clear-site|alt-svc|nel$|report|service-worker|refresh|keep|proxy-|upgrade|te$|forwarded|x-forwarded|x-accel|x-sendfile|x-lighttpd|x-reproxy|surrogate|edge-|server|via|x-powered|x-registry|registry-gateway)/i;

/** The fields of {@link STOPPED} that an answer has as the registry wrote them. */
const stoppedIn = (answer: ReceivedAnswer): string[] =>
  [...STOPPED, ...FURTHER]
    .filter(([name, value]) => answer.headers[name.toLowerCase()] === value)
    .map(([name]) => name);

/** Some of these fields end the connection, and the next one is asked whose it is. */
function scriptAllButInfos(registry: SampleRegistry, answer: Script): void {
  registry.script((call) => (call.operation === "info" ? undefined : answer(call)));
}

describe("a client gets a registry's fields", () => {
  const headers = [...STOPPED, ...FURTHER, ...PASSED].flat();
  const BODIES: Readonly<Record<string, string>> = {
    [LIST]: '{"instruments":[]}',
    [CANCEL]: '{"choiceContextData":{},"disclosedContracts":[]}',
    [DRAFT_GET.path]: "{}",
  };

  test("end to end, and no others", async () => {
    const { registry, url } = await startWith();
    for (const request of [GET, POST, DRAFT_GET, DRAFT_POST]) {
      scriptAllButInfos(registry, () => ({
        status: 200,
        headers: ["Content-Type", "application/json", "Connection", "X-Named, x-also-named", ...headers],
        // As bytes: Node writes the head in UTF-8 together with a body that is a string.
        body: Buffer.from(BODIES[request.path]!),
      }));
      const answer = await send(url, request);
      expect(answer.status).toBe(200);
      for (const [name, value] of PASSED) expect([name, answer.headers[name.toLowerCase()]]).toEqual([name, value]);
      expect(stoppedIn(answer)).toEqual([]);
      const names = answer.rawHeaders.filter((_field, i) => i % 2 === 0).map((name) => name.toLowerCase());
      expect(names.toSorted()).toEqual([...new Set(names)].toSorted());
      expect(answer.headers["x-content-type-options"]).toBe("nosniff");
      expect(answer.headers["access-control-allow-origin"]).toBe("*");
      expect(answer.headers["access-control-allow-credentials"]).toBeUndefined();
      expect(answer.headers["x-request-id"]).not.toBe("of-the-registry");
    }
  });

  test("that the configuration names as well", async () => {
    const { registry, url } = await startWith({ cache: { forwardResponseHeaders: ["x-unknown"] } });
    for (const request of [GET, POST, DRAFT_GET, DRAFT_POST]) {
      scriptAllButInfos(registry, () => ({ status: 200, headers, body: Buffer.from(BODIES[request.path]!) }));
      const answer = await send(url, request);
      expect([answer.status, answer.headers["x-unknown"]]).toEqual([200, "kept"]);
      expect(stoppedIn(answer)).toEqual(["X-Unknown"]);
    }
  });

  test("but those that never pass, where all may", async () => {
    const { registry, url } = await startWith({ cache: { forwardResponseHeaders: "*" } });
    for (const request of [GET, POST, DRAFT_GET, DRAFT_POST]) {
      scriptAllButInfos(registry, () => ({ status: 200, headers, body: Buffer.from(BODIES[request.path]!) }));
      const answer = await send(url, request);
      const all = request.body === undefined ? FURTHER : FURTHER.filter(([name]) => !name.startsWith("CDN"));
      for (const [name, value] of all) expect([name, answer.headers[name.toLowerCase()]]).toEqual([name, value]);
      for (const name of stoppedIn(answer)) if (name !== "X-Acceleration") expect(name).not.toMatch(NEVER);
    }
  });

  test("and Cache-Status of other caches where it is named, but nothing that claims to be of the gateway's cache", async () => {
    const { registry, url } = await startWith({ cache: { forwardResponseHeaders: ["cache-status", "proxy-status"] } });
    const forged = ["Cache-Status", "inner;hit, registry-gateway;hit;ttl=9", "Proxy-Status", "inner, registry-gateway"];
    scriptAllButInfos(registry, ({ method }) => ({
      status: 200,
      headers: forged,
      body: Buffer.from(BODIES[method === "GET" ? LIST : CANCEL]!),
    }));
    const [first, second] = [await send(url, GET), await send(url, POST)];
    expect(first.headers["cache-status"]).toMatch(/^inner;hit, registry-gateway;fwd=uri-miss/);
    expect(first.headers["proxy-status"]).toBe("inner, registry-gateway;received-status=200");
    expect(second.headers["cache-status"]).toBe("inner;hit");
  });

  test.each<[string, number, string, string]>([
    ["an error of the registry's own", 400, "application/json", '{"error":"no"}'],
    ["an instrument that is not there", 404, "application/json", '{"error":"no"}'],
    ["an error that is put into our form", 500, "text/plain", "oops"],
    ["a refusal to be asked so often", 429, "text/plain", "slow down"],
  ])("end to end, and no others, with %s", async (_what, status, type, body) => {
    const { registry, url } = await startWith({ retry: { attempts: 1 } });
    scriptAllButInfos(registry, () => ({
      status,
      headers: ["Content-Type", type, "Connection", "X-Named, x-also-named", ...headers],
      body,
    }));
    for (const request of [GET, { path: `${LIST}/A` }, POST, DRAFT_GET, DRAFT_POST]) {
      const answer = await send(url, request);
      expect([answer.status, answer.headers.deprecation]).toEqual([status, "@1700000000"]);
      expect(stoppedIn(answer)).toEqual([]);
    }
  });

  test("end to end, and no others, from the cache and after a 304", async () => {
    const clock = new ShiftedClock();
    const { registry, url } = await startWith({}, { cache: { staleWhileRevalidate: "0s" } }, { clock });
    const undated = [...STOPPED, ...FURTHER, ...PASSED.filter(([name]) => name !== "Date")].flat();
    scriptAllButInfos(registry, ({ headers: asked }) => ({
      status: asked["if-none-match"] === undefined ? 200 : 304,
      headers: ["Content-Type", "application/json", "ETag", '"v1"', "Connection", "X-Named, x-also-named", ...undated],
      body: asked["if-none-match"] === undefined ? BODIES[LIST]! : "",
    }));
    const outcomes: string[] = [];
    for (const shift of [0, 0, 60_000, 0]) {
      clock.advance(shift);
      const answer = await send(url, GET);
      outcomes.push(/;\s*(hit|fwd=[a-z-]+)/.exec(String(answer.headers["cache-status"]))![1]!);
      expect([answer.status, answer.headers.deprecation]).toEqual([200, "@1700000000"]);
      expect(stoppedIn(answer)).toEqual([]);
    }
    expect(outcomes).toEqual(["fwd=uri-miss", "hit", "fwd=stale", "hit"]);
    expect(registry.calls.last!.headers["if-none-match"]).toBe('"v1"');
  });

  test("and no field by which a cache in front would keep the answer to a POST", async () => {
    const { registry, url } = await startWith({ cache: { forwardResponseHeaders: ["cdn-cache-control"] } });
    registry.script(({ url: asked }) => ({
      status: 200,
      headers: ["Cache-Control", "max-age=60", "CDN-Cache-Control", "max-age=60", "Expires", "0", "Pragma", "x"],
      body: BODIES[asked]!,
    }));
    for (const request of [POST, DRAFT_POST]) {
      const answer = await send(url, request);
      expect(answer.headers["cache-control"]).toBe("no-store");
      for (const name of ["cdn-cache-control", "expires", "pragma"]) expect(answer.headers[name]).toBeUndefined();
    }
    expect((await send(url, GET)).headers["cdn-cache-control"]).toBe("max-age=60");
  });

  test("and passed-through pages with a policy by which nothing in them runs, not the registry's", async () => {
    const { registry, url } = await startWith();
    for (const type of ["text/html", "image/svg+xml", "text/xml", "application/xhtml+xml", undefined]) {
      registry.script(() => ({
        status: 200,
        headers: ["Content-Security-Policy", "script-src *", ...(type === undefined ? [] : ["Content-Type", type])],
        body: "<script>alert(1)</script>",
      }));
      for (const request of [DRAFT_GET, DRAFT_POST]) {
        const answer = await send(url, request);
        expect([answer.status, answer.headers["content-type"]]).toEqual([200, type]);
        expect(answer.headers["content-security-policy"]).toMatch(/^default-src 'none';.* sandbox$/);
        expect(answer.headers["x-content-type-options"]).toBe("nosniff");
      }
    }
  });

  test.each<[string, string[]]>([
    ["more fields than clients take", Array.from({ length: 99 }, (_, i) => [`X-${i}`, "x"]).flat()],
    [
      "more bytes of fields than clients take",
      Array.from({ length: 4 }, (_, i) => [`X-${i}`, "x".repeat(4_050)]).flat(),
    ],
    ["one field as long as all may be", ["X-Long", "x".repeat(16 * 1024)]],
    ["more than can be read", ["X-Long", "x".repeat(40 * 1024)]],
  ])("and a 502 for %s", async (_what, many) => {
    const { registry, url } = await startWith({}, { cache: {} });
    registry.script(() => ({ status: 200, headers: ["Content-Type", "application/json", ...many], body: "{}" }));
    for (const request of [GET, { path: `${LIST}/A` }, POST, DRAFT_GET, DRAFT_POST]) {
      const answer = await send(url, request);
      expect([answer.status, answer.headers["proxy-status"]]).toEqual([
        502,
        "registry-gateway;error=http_response_header_section_size",
      ]);
      expect(errorOf(answer)).toContain("more header fields than clients take");
    }
  });

  test("and never more than 100 fields and 16 KiB, our own included", async () => {
    const cache = { forwardResponseHeaders: "*" };
    const { registry, url } = await startWith({ cache }, { cors: { origins: ["https://wallet.example"] } });
    const many = Array.from({ length: 70 }, (_, i) => [`X-Field-${i}`, "x".repeat(190)]).flat();
    registry.script(({ url: asked }) => ({
      status: 200,
      headers: ["Content-Type", "application/json", "Vary", "Accept", ...many],
      body: BODIES[asked]!,
    }));
    for (const request of [GET, POST, DRAFT_GET, DRAFT_POST]) {
      const answer = await send(url, { ...request, headers: { origin: "https://wallet.example" } });
      expect([answer.status, answer.headers["x-field-69"]?.length]).toEqual([200, 190]);
      expect(answer.rawHeaders.length / 2).toBeLessThanOrEqual(100);
      expect(answer.rawHeaders.join("----").length).toBeLessThan(16 * 1024);
    }
  });

  test("a head does not grow 304 by 304", async () => {
    const clock = new ShiftedClock();
    const { registry, url } = await startWith(
      { cache: { forwardResponseHeaders: "*" } },
      { cache: { staleWhileRevalidate: "0s" } },
      { clock },
    );
    let calls = 0;
    registry.script(({ headers: asked }) => {
      calls += 1;
      const many = Array.from({ length: 30 }, (_, i) => [`X-${calls}-${i}`, "x"]).flat();
      const isFirst = asked["if-none-match"] === undefined;
      return { status: isFirst ? 200 : 304, headers: ["ETag", '"v1"', ...many], body: isFirst ? BODIES[LIST]! : "" };
    });
    for (let i = 0; i < 6; i += 1) {
      const answer = await send(url, GET);
      expect([answer.status, answer.text]).toEqual([200, BODIES[LIST]]);
      expect(answer.rawHeaders.length / 2).toBeLessThanOrEqual(100);
      clock.advance(60_000);
    }
  });

  test("and their caching rules where they are stored, but POST answers are nobody's to keep", async () => {
    const { registry, url } = await startWith();
    registry.script(({ url: asked }) => ({
      status: 200,
      headers: ["Content-Type", "text/plain", "Cache-Control", "max-age=60", "ETag", '"v1"', "Expires", "0"],
      body: BODIES[asked]!,
    }));
    const got = await send(url, GET);
    expect(got.headers).toMatchObject({
      "cache-control": "max-age=60",
      etag: '"v1"',
      "content-type": "application/json",
    });
    const posted = await send(url, POST);
    expect(posted.headers).toMatchObject({ "cache-control": "no-store", "content-type": "application/json" });
    expect(posted.headers["cache-status"]).toBeUndefined();
    const drafted = await send(url, DRAFT_GET);
    expect(drafted.headers).toMatchObject({ "cache-control": "max-age=60", "content-type": "text/plain" });
  });

  test.each(["text/plain", "text/html", "application/octet-stream", undefined])(
    "and JSON's content type, whatever the registry says: %s",
    async (type) => {
      const { registry, url } = await startWith();
      const body = sampleText("09-withdraw-allocation.response.amulet.json");
      registry.script(({ method }) => ({
        status: 200,
        headers: type === undefined ? [] : ["Content-Type", type],
        body: method === "POST" ? body : BODIES[LIST]!,
      }));
      expect((await send(url, GET)).headers["content-type"]).toBe("application/json");
      const answer = await send(url, POST);
      expect([answer.headers["content-type"], answer.text]).toEqual(["application/json", body]);
    },
  );

  test("without a content coding, which is undone, and its bytes are the decoded ones", async () => {
    const { registry, url } = await startWith();
    for (const request of [GET, POST, DRAFT_GET]) {
      const plain = await send(url, request);
      await registry.faults.set({ kind: "gzip" });
      const answer = await send(url, request);
      await registry.faults.clear();
      expect([answer.status, answer.headers["content-encoding"]]).toEqual([200, undefined]);
      expect(answer.text).toBe(plain.text);
    }
    registry.script(() => ({ status: 200, headers: ["Content-Encoding", "compress"], body: "{}" }));
    for (const request of [GET, POST, DRAFT_GET]) expect((await send(url, request)).status).toBe(502);
    registry.script(() => ({ status: 200, headers: ["Content-Encoding", "gzip"], body: "{}" }));
    for (const request of [GET, POST]) expect((await send(url, request)).status).toBe(502);
  });

  test("and no more of a decoded body than the limit allows", async () => {
    const { registry, url } = await startWith({}, { limits: { responseBody: "64KiB" } });
    const bomb = gzipSync(Buffer.from(`{"x":"${" ".repeat(5_000_000)}"}`));
    registry.script(() => ({ status: 200, headers: ["Content-Encoding", "gzip"], body: bomb }));
    for (const request of [GET, POST]) {
      const answer = await send(url, request);
      expect([answer.status, answer.headers["proxy-status"]]).toEqual([
        502,
        "registry-gateway;error=http_response_body_size",
      ]);
    }
  });
});

describe("the request id", () => {
  test("is the client's on every kind of answer", async () => {
    const { url } = await startWith({}, { cache: {} });
    const requests = [
      GET,
      GET,
      POST,
      DRAFT_GET,
      { path: "/nothing" },
      { path: `${LIST}?pageSize=0` },
      { path: FACTORY, body: "[]" },
    ];
    for (const request of requests) {
      const answer = await send(url, { ...request, headers: { "x-request-id": "trace-me.17" } });
      expect(answer.headers["x-request-id"]).toBe("trace-me.17");
    }
  });
});

describe("a cache in front keeps the answers of registries apart", () => {
  const PREFIXED = "/api/token-standard/v0/registrars/amulet";

  test.each([
    ["metadata", LIST],
    ["what is passed through", DRAFT_GET.path],
    ["what is refused", "/registry/metadata/v1/instruments?pageSize=x"],
  ])("%s of a URL that names none depends on the admin header", async (_what, path) => {
    const { url } = await startWith({}, { cache: { ttl: { instruments: "1h" } } });
    // The second time from memory, where it may be.
    for (const headers of [{}, {}, { "x-instrument-admin": DSO }])
      expect((await send(url, { path, headers })).headers.vary).toMatch(/^x-instrument-admin\b/);
    for (let i = 0; i < 2; i += 1)
      expect((await send(url, { path: PREFIXED + path })).headers.vary ?? "").not.toContain("admin");
  });

  test("with the header's own name, in one line with what the registry and CORS say", async () => {
    const { registry, url } = await startWith(
      {},
      { routing: { adminHeader: "x-other" }, cors: { origins: ["https://a.example"] } },
    );
    registry.script(({ operation }) =>
      operation === "instruments"
        ? { status: 200, headers: ["Vary", "Accept-Language"], body: '{"instruments":[]}' }
        : undefined,
    );
    for (let i = 0; i < 2; i += 1) expect((await send(url, GET)).headers.vary).toBe("x-other, origin, Accept-Language");
  });
});

test.each([
  ["a URL that names none", "", "x-instrument-admin, origin, Accept-Encoding"],
  ["one that names it", "/api/token-standard/v0/registrars/amulet", "origin, Accept-Encoding"],
])("an answer for a listed origin has one line of Vary, at %s", async (_what, base, vary) => {
  const origin = "https://a.example";
  const { registry, url } = await startWith({}, { cache: { ttl: { instruments: "1h" } }, cors: { origins: [origin] } });
  const body = JSON.stringify({ instruments: [], note: "x".repeat(2_000) });
  registry.script(({ operation }) => (operation === "instruments" ? { status: 200, body } : undefined));
  for (let i = 0; i < 2; i += 1) {
    const { rawHeaders } = await send(url, { path: base + LIST, headers: { origin } });
    const lines = rawHeaders.filter((_value, at) => at % 2 === 1 && rawHeaders[at - 1]!.toLowerCase() === "vary");
    expect(lines).toEqual([vary]);
    expect(rawHeaders).toContain(origin);
  }
});

test("a registry's error keeps its bytes, whatever names its fields have as values", async () => {
  const { registry, url } = await startWith({}, { cache: { ttl: { notFound: "1h" } } });
  const body = '{"error":"no such instrument"}';
  registry.script(({ operation }) =>
    operation === "instrument" ? { status: 404, headers: ["Vary", "registry-gateway-error"], body } : undefined,
  );
  for (let i = 0; i < 2; i += 1) {
    const answer = await send(url, { path: `${LIST}/nothing` });
    expect([answer.status, answer.text]).toEqual([404, body]);
  }
});
