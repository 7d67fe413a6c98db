import { describe, expect, test } from "vitest";
import { TestClock } from "../../support/clock.ts";
import { ADMIN_HEADER, CANCEL, DRAFT, FACTORY, LIST, OPERATOR } from "../../support/endpoints.ts";
import { load, NOTHING_KEPT, startGateway, useGateway } from "../../support/gateway.ts";
import { type Answer, fieldNames, type Request } from "../../support/http.ts";
import { newKey } from "../../support/keys.ts";
import { type Call, partyOf, startRegistry } from "../../support/registry.ts";

const GET: Request = { path: LIST };
const POST: Request = { path: CANCEL, body: "{}" };
const PASSED: Request = { path: DRAFT };
const PASSED_POST: Request = { path: DRAFT, body: "{}" };
const ALL = [GET, POST, PASSED, PASSED_POST];

const clock = TestClock.running();
const serve = useGateway(clock);

async function start(upstream: object = {}, keys: object = {}, begin: typeof serve = serve) {
  const amulet = await startRegistry("amulet");
  const gateway = await begin({ ...NOTHING_KEPT, ...keys, upstreams: [amulet.upstream(upstream)] });
  expect((await gateway.post(FACTORY, '{"choiceArguments":{}}')).status).toBe(200);
  return { amulet, gateway };
}

const TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

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
  traceparent: TRACE,
  "user-agent": "wallet/1",
  via: "1.1 elsewhere",
  "x-forwarded-for": "10.0.0.1",
  "x-forwarded-host": "evil.example",
  "x-forwarded-proto": "gopher",
  "x-real-ip": "10.0.0.1",
  "x-envoy-external-address": "10.0.0.1",
  "x-http-method-override": "DELETE",
  [ADMIN_HEADER]: partyOf("amulet"),
  "x-private": "1",
  "x-request-id": "request-17",
  "x-custom": "named-by-connection",
  connection: "x-custom, keep-alive",
};

/** What the registry was sent, but for framing and the fields of its connection. */
function sentFields(call: Call): Record<string, unknown> {
  const { host, connection: _connection, "content-length": length, ...rest } = call.headers;
  expect(host).toMatch(/^127\.0\.0\.1:/);
  if (call.body.length > 0) expect(length).toBe(String(call.body.length));
  expect(rest).not.toHaveProperty("transfer-encoding");
  return rest;
}

/** Fields that name the gateway itself say nothing of a client. */
const withoutOwn = ({ via: _via, "user-agent": agent, ...rest }: Record<string, unknown>): object => {
  expect(agent).not.toBe("wallet/1");
  return rest;
};

describe("a registry is sent", () => {
  test("of a client nothing but its trace, its request id and the type of a body", async () => {
    const { amulet, gateway } = await start();
    for (const request of ALL) {
      expect(
        (await gateway.send({ ...request, headers: { ...CLIENT_FIELDS, "content-type": "application/json" } })).status,
      ).toBe(200);
      const sent = withoutOwn(sentFields(amulet.last));
      expect(sent).toEqual({
        accept: expect.stringContaining("application/json") as string,
        "accept-encoding": "identity",
        traceparent: expect.stringMatching(/^00-0af7651916cd43dd8448eb211c80319c-/) as string,
        "x-request-id": "request-17",
        ...(request.body !== undefined && { "content-type": "application/json" }),
      });
    }
  });

  test("each field once, whatever a client repeats", async () => {
    const { amulet, gateway } = await start();
    const headers = {
      accept: ["application/json", "text/plain"],
      traceparent: [TRACE, TRACE],
      "x-request-id": ["a", "b"],
    };
    for (const request of ALL) {
      await gateway.send({ ...request, headers });
      const names = fieldNames(amulet.last);
      expect(names.toSorted()).toEqual([...new Set(names)].toSorted());
    }
  });

  test("no trace in bad form, and the id of ours where the client's is not safe", async () => {
    const { amulet, gateway } = await start();
    for (const request of ALL) {
      for (const bad of [`${TRACE}-x`, "x".repeat(4_000), "00-0-0-0", `ff${TRACE.slice(2)}`]) {
        await gateway.send({ ...request, headers: { traceparent: bad } });
        expect(amulet.last.headers.traceparent ?? "").not.toContain(bad);
      }
      for (const bad of ["a b", "x".repeat(129), "a\u00e9", 'a"b', ""]) {
        const answer = await gateway.send({ ...request, headers: { "x-request-id": bad } });
        const id = answer.headers["x-request-id"];
        expect(id).toMatch(/^[\w.-]{1,128}$/);
        expect(amulet.last.headers["x-request-id"]).toBe(id);
      }
    }
  });

  test("the client's Authorization with calls alone, and only where that is configured", async () => {
    const { amulet, gateway } = await start({ forwardAuthorization: "calls", extraPaths: [OPERATOR] });
    for (const request of [POST, PASSED, PASSED_POST, { path: OPERATOR }]) {
      expect((await gateway.send({ ...request, headers: CLIENT_FIELDS })).status).toBe(200);
      expect(amulet.last.headers.authorization).toBe("Bearer of-the-client");
      expect(amulet.last.headers.cookie).toBeUndefined();
    }
    expect((await gateway.send({ ...GET, headers: CLIENT_FIELDS })).status).toBe(200);
    expect(amulet.last.headers.authorization).toBeUndefined();
  });

  test("nothing that the client's Connection names", async () => {
    const { amulet, gateway } = await start({ forwardAuthorization: "calls" });
    const headers = { ...CLIENT_FIELDS, connection: "close, Authorization, traceparent" };
    for (const request of [POST, PASSED]) {
      expect((await gateway.send({ ...request, headers })).status).toBe(200);
      expect(amulet.last.headers.authorization).toBeUndefined();
    }
  });

  test("never a credential of ours, by its form, with or without clients", async () => {
    const { amulet, gateway } = await start({ forwardAuthorization: "calls", extraPaths: [OPERATOR] });
    for (const key of [newKey(), "rgk_mistyped"]) {
      for (const headers of [
        { authorization: `Bearer ${key}` },
        { "x-api-key": key },
        { authorization: `bearer  ${key}` },
      ]) {
        for (const request of [POST, PASSED, { path: OPERATOR }]) {
          amulet.calls.length = 0;
          await gateway.send({ ...request, headers });
          expect(JSON.stringify(amulet.calls.map(({ rawHeaders, url }) => [rawHeaders, url]))).not.toContain("rgk_");
        }
      }
    }
  });

  test("the gateway's own credentials, and never the client's in their place", async () => {
    for (const [auth, name, value] of [
      [{ bearer: "of-the-gateway" }, "authorization", "Bearer of-the-gateway"],
      [{ header: { name: "X-Their-Key", value: "of-the-gateway" } }, "x-their-key", "of-the-gateway"],
    ] as const) {
      const { amulet, gateway } = await start({ auth });
      for (const request of ALL) {
        await gateway.send({ ...request, headers: { ...CLIENT_FIELDS, "x-their-key": "of-the-client" } });
        expect(amulet.last.headers[name]).toBe(value);
      }
      expect(amulet.of("info").every(({ headers }) => headers[name] === value)).toBe(true);
    }
  });

  test("the client's address only where that is configured, and never what the client says it is", async () => {
    const { amulet, gateway } = await start({ forwardClientAddress: true });
    for (const request of [POST, PASSED]) {
      await gateway.send({ ...request, headers: CLIENT_FIELDS });
      const sent = JSON.stringify(amulet.last.headers);
      expect(sent).toContain("127.0.0.1");
      expect(sent).not.toContain("10.0.0.1");
    }
  });

  test("the address that a trusted proxy names", async () => {
    const { amulet, gateway } = await start(
      { forwardClientAddress: true },
      { listen: { trustedProxies: ["127.0.0.0/8"] } },
      startGateway,
    );
    await gateway.send({ ...POST, headers: { "x-forwarded-for": "6.6.6.6, 192.0.2.7" } });
    expect(amulet.last.headers["x-forwarded-for"]).toBe("192.0.2.7");
    await gateway.send({ ...POST, headers: { "x-forwarded-for": "192.0.2.8:61234" } });
    expect(amulet.last.headers["x-forwarded-for"]).toBe("192.0.2.8");
    await gateway.send({ ...POST, headers: { "x-forwarded-for": "192.0.2.9:61234, 127.0.0.1:443" } });
    expect(amulet.last.headers["x-forwarded-for"]).toBe("192.0.2.9");
  });

  test("of the query what the endpoint knows, and all of it on what passes through", async () => {
    const { amulet, gateway } = await start({ pageSize: "off" });
    amulet.on("instruments", { body: { instruments: [] } });
    await gateway.get(`${LIST}?x=1&pageToken=${encodeURIComponent("a/b=")}&pageSize=5&y=%ff`);
    const sent = new URL(amulet.last.url, "http://x").searchParams;
    expect(Object.fromEntries(sent)).toEqual({ pageSize: "5", pageToken: "a/b=" });
    await gateway.post(`${CANCEL}?x=1`);
    expect(amulet.last.url).toBe(CANCEL);
    await gateway.get(`${DRAFT}?x=1&y=%ff&&z`);
    expect(amulet.last.url).toBe(`${DRAFT}?x=1&y=%ff&&z`);
  });
});

/** Fields that no configuration lets pass. */
const NEVER: readonly [string, string][] = [
  ["Set-Cookie", "session=1"],
  ["Server", "nginx/1.2 (internal-host-7)"],
  ["X-Powered-By", "Express"],
  ["X-Request-Id", "of-the-registry"],
  ["Access-Control-Allow-Credentials", "true"],
  ["RateLimit", "limit=1"],
  ["Strict-Transport-Security", "max-age=1"],
  ["Clear-Site-Data", '"*"'],
  ["Alt-Svc", 'h2="evil.example:443"'],
  ["Service-Worker-Allowed", "/"],
  ["Refresh", "0"],
  ["Keep-Alive", "timeout=5"],
  ["Proxy-Authenticate", "Basic"],
  ["Upgrade", "h2c"],
  ["Via", "1.1 inner (internal-host-7)"],
  ["X-Accel-Redirect", "/internal/secret"],
  ["X-Sendfile", "/etc/passwd"],
  ["X-Reproxy-URL", "http://internal-host-7/secret"],
  ["X-LIGHTTPD-send-file", "/etc/passwd"],
  ["Proxy-Status", "registry-gateway;error=destination_unavailable"],
  ["Cache-Status", "registry-gateway;hit"],
  ["X-Registry-Partial", "amulet"],
  ["Registry-Gateway-Error", "admin_disagreement"],
];

/** Those that stop unless the configuration names them. */
const FURTHER: readonly [string, string][] = [
  ["X-Unknown", "kept"],
  ["NEL", "{}"],
  ["X-Named", "by Connection"],
  ["CDN-Cache-Control", "max-age=7"],
];

const PASSES: readonly [string, string][] = [
  ["Content-Language", "en"],
  ["Date", "Fri, 20 Nov 2026 10:00:00 GMT"],
  ["Link", '</next>; rel="next"'],
  ["Deprecation", "@1700000000"],
  ["Sunset", "Fri, 20 Nov 2026 10:00:00 GMT"],
  ["Last-Modified", "Fri, 20 Nov 2026 09:00:00 GMT"],
  ["Traceparent", TRACE],
  ["Allow", "GET"],
  ["Content-Digest", "sha-256=:AAAA:"],
];

const BODIES: Readonly<Record<string, string>> = {
  [LIST]: '{"instruments":[]}',
  [CANCEL]: '{"choiceContextData":{},"disclosedContracts":[]}',
  [DRAFT]: "{}",
};

const received = (answer: Answer, fields: readonly [string, string][]): string[] =>
  fields.filter(([name, value]) => [answer.headers[name.toLowerCase()]].flat().includes(value)).map(([name]) => name);

describe("a client gets a registry's fields", () => {
  const everything = ["Connection", "X-Named, keep-alive", ...[...NEVER, ...FURTHER, ...PASSES].flat()];
  const script = (amulet: Awaited<ReturnType<typeof start>>["amulet"], status = 200): void => {
    amulet.on("*", ({ url }) => ({
      status,
      fields: everything,
      body: status === 200 ? BODIES[url.split("?")[0]!]! : '{"error":"no"}',
    }));
  };

  test.each([200, 400, 500])("by an allowlist, each once, with the status %i", async (status) => {
    const { amulet, gateway } = await start({ retries: 0 });
    script(amulet, status);
    for (const request of ALL) {
      const answer = await gateway.send(request);
      expect(answer.status).toBe(status);
      expect(received(answer, NEVER)).toEqual([]);
      expect(received(answer, FURTHER)).toEqual([]);
      expect(received(answer, PASSES)).toEqual(PASSES.map(([name]) => name));
      const names = fieldNames(answer);
      expect(names.toSorted()).toEqual([...new Set(names)].toSorted());
      expect(answer.headers["x-content-type-options"]).toBe("nosniff");
      expect(answer.headers["access-control-allow-origin"]).toBe("*");
      expect(answer.headers["access-control-allow-credentials"]).toBeUndefined();
    }
  });

  test("that forwardResponseHeaders names, too, but none that never passes", async () => {
    const names = [...FURTHER, ...NEVER].map(([name]) => name);
    let gateway: Awaited<ReturnType<typeof start>> | undefined;
    try {
      gateway = await start({ cache: { forwardResponseHeaders: names } });
    } catch {
      // Naming one that never passes may be bad configuration.
      gateway = await start({ cache: { forwardResponseHeaders: FURTHER.map(([name]) => name) } });
    }
    script(gateway.amulet);
    for (const request of ALL) {
      const answer = await gateway.gateway.send(request);
      expect(received(answer, NEVER)).toEqual([]);
      expect(received(answer, FURTHER)).toContain("X-Unknown");
      expect(received(answer, FURTHER)).not.toContain("X-Named");
    }
  });

  test("and JSON's type with a success body, whatever the registry says", async () => {
    const { amulet, gateway } = await start();
    for (const type of ["text/plain", "text/html", "application/octet-stream"]) {
      amulet.on("*", ({ url }) => ({ fields: ["Content-Type", type], body: BODIES[url.split("?")[0]!]! }));
      for (const request of [GET, POST]) {
        const answer = await gateway.send(request);
        expect([answer.status, answer.headers["content-type"]]).toEqual([200, "application/json"]);
      }
      expect((await gateway.send(PASSED)).headers["content-type"]).toBe(type);
    }
  });

  test("Content-Disposition of what passes through, and a policy by which nothing in it runs", async () => {
    const { amulet, gateway } = await start();
    amulet.on("*", {
      fields: [
        "Content-Type",
        "text/html",
        "Content-Disposition",
        "attachment",
        "Content-Security-Policy",
        "script-src *",
      ],
      body: "<script>alert(1)</script>",
    });
    for (const request of [PASSED, PASSED_POST]) {
      const answer = await gateway.send(request);
      expect(answer.headers["content-disposition"]).toBe("attachment");
      expect(answer.headers["content-security-policy"]).toMatch(/\bsandbox\b/);
      expect(answer.headers["content-security-policy"]).not.toContain("script-src *");
    }
  });
});

describe("Vary", () => {
  test("names the admin header on answers of the plain base alone", async () => {
    const { gateway } = await start();
    for (const path of [LIST, DRAFT, `${LIST}?pageSize=x`]) {
      expect((await gateway.get(path)).headers.vary?.toLowerCase()).toContain(ADMIN_HEADER);
      const { vary = "" } = (await gateway.get(gateway.base("amulet") + path)).headers;
      expect(vary.toLowerCase()).not.toContain(ADMIN_HEADER);
    }
  });

  test("keeps what the registry says beside it, in one line", async () => {
    const { amulet, gateway } = await start();
    amulet.on("instruments", { fields: ["Vary", "Accept-Language"], body: BODIES[LIST] });
    const answer = await gateway.get(LIST);
    expect(fieldNames(answer).filter((name) => name === "vary")).toHaveLength(1);
    expect(answer.headers.vary).toMatch(/Accept-Language/i);
  });
});

describe("auth by OAuth 2 client credentials", () => {
  test("asks for one token for all calls, and for another when the registry refuses it", async () => {
    const amulet = await startRegistry("amulet");
    const login = await startRegistry("login");
    let issued = 0;
    login.on("/token", () => {
      issued += 1;
      return { body: { access_token: `token-${issued}`, token_type: "Bearer", expires_in: 3_600 } };
    });
    const oauth2 = { tokenUrl: `${login.url}/token`, clientId: "gateway", clientSecret: "s3cret", scope: "registry" };
    const upstreams = [amulet.upstream({ auth: { oauth2 } })];
    const gateway = await serve({ ...NOTHING_KEPT, upstreams });
    const answers = await Promise.all(Array.from({ length: 5 }, () => gateway.post(CANCEL)));
    for (const { status } of answers) expect(status).toBe(200);
    expect(issued).toBe(1);
    expect(new Set(amulet.of().map(({ headers }) => headers.authorization))).toEqual(new Set(["Bearer token-1"]));
    expect(login.calls[0]!.body.toString()).toContain("grant_type=client_credentials");
    amulet.on("*", ({ headers }) =>
      headers.authorization === "Bearer token-1" ? { status: 401, body: { error: "expired" } } : undefined,
    );
    // One that was fresh a moment ago is not asked for again for each refusal.
    clock.advance("11s");
    await gateway.post(CANCEL);
    expect((await gateway.post(CANCEL)).status).toBe(200);
    expect(amulet.last.headers.authorization).toBe("Bearer token-2");
  });

  test("that cannot be had is 502, without a secret in the error or a call to the registry", async () => {
    const amulet = await startRegistry("amulet");
    const login = await startRegistry("login");
    login.on("/token", { status: 401, body: { error: "invalid_client" } });
    const oauth2 = { tokenUrl: `${login.url}/token`, clientId: "gateway", clientSecret: "s3cret" };
    const gateway = await serve({ upstreams: [amulet.upstream({ auth: { oauth2 } })] });
    const answer = await gateway.post(CANCEL);
    expect(answer.outcome).toBe("502 upstream_credentials");
    expect(answer.text + JSON.stringify(gateway.lines)).not.toContain("s3cret");
    expect(amulet.calls).toEqual([]);
  });
});

test("auth together with forwardAuthorization is bad configuration", () => {
  const upstream = { name: "a", urls: ["http://127.0.0.1:1"], auth: { bearer: "x" }, forwardAuthorization: "calls" };
  expect(() => load({ upstreams: [upstream] })).toThrow(/forwardAuthorization|auth/);
});
