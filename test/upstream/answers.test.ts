import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { type Fields, fieldValue, retryAfter } from "../../src/fields.ts";
import type { UpstreamAnswer, UpstreamCall } from "../../src/upstream/call.ts";
import { BOMBS, BROKEN_CODINGS } from "../support/broken-codings.ts";
import type { ScriptedAnswer } from "../support/sample-registry.ts";
import {
  acceptCall,
  ANSWER_KINDS,
  askWhole,
  inTime,
  listCall,
  openUpstream,
  startRegistry,
  type WholeAnswer,
} from "../support/upstream-registries.ts";

/** Lets the registry answer everything but its info with `answer`. */
async function ask(
  answer: ScriptedAnswer,
  { call = listCall(), keys = {} }: { call?: UpstreamCall; keys?: Record<string, unknown> } = {},
): Promise<UpstreamAnswer> {
  const registry = await startRegistry();
  registry.script(({ operation }) => (operation === "info" ? undefined : answer));
  const { upstream } = openUpstream([registry], keys);
  return upstream.call(call);
}

/** As {@link ask}, for a call whose answer is taken this way. */
async function askFor(
  kind: (typeof ANSWER_KINDS)[number],
  answer: ScriptedAnswer,
  { keys = {}, fields }: { keys?: Record<string, unknown>; fields?: Fields } = {},
): Promise<WholeAnswer> {
  const registry = await startRegistry();
  registry.script(({ operation }) => (operation === "info" ? undefined : answer));
  const { upstream } = openUpstream([registry], keys);
  return askWhole(upstream, kind, fields === undefined ? {} : { fields });
}

function json(status: number, body: string, headers: string[] = []): ScriptedAnswer {
  return { status, headers: ["Content-Type", "application/json", ...headers], body };
}

const html = (status: number): ScriptedAnswer => ({
  status,
  headers: ["Content-Type", "text/html; charset=utf-8"],
  body: "<html><head><title>x</title><style>b{}</style></head><body><h1>Bad  Gateway</h1>\n<hr>nginx</body></html>",
});

describe("an answer of 200", () => {
  test("keeps its bytes and is parsed", async () => {
    const body = '{ "n": 12345678901234567890.10, "a":1, "a":2 }\n';
    const answer = await ask(json(200, body));
    expect(answer.status).toBe(200);
    expect(answer.body.toString()).toBe(body);
    expect(answer.content).toMatchObject({ isJson: true, isError: false });
    expect(answer.node).toBe(0);
    expect(answer.receivedAt).toBeGreaterThanOrEqual(answer.requestedAt);
  });

  test("may have any content type", async () => {
    const answer = await ask({ status: 200, headers: ["Content-Type", "text/plain"], body: '{"a":1}' });
    expect(answer.content).toMatchObject({ isJson: true });
  });

  test.each<[string, ScriptedAnswer, RegExp]>([
    ["text", json(200, "hello"), /something that is not JSON/],
    ["nothing", json(200, ""), /something that is not JSON/],
    ["cut JSON", json(200, '{"a":'), /something that is not JSON/],
    ["a byte order mark", json(200, '\ufeff{"a":1}'), /something that is not JSON/],
    ["invalid UTF-8", { status: 200, body: Buffer.from([0x22, 0xff, 0x22]) }, /something that is not JSON/],
    ["an HTML page", html(200), /an HTML page/],
    ["202 without JSON", json(202, "ok"), /202 with something that is not JSON/],
  ])("that is %s is 502", async (_what, answer, text) => {
    await expect(ask(answer)).rejects.toMatchObject({
      status: 502,
      proxyError: "http_protocol_error",
      message: expect.stringMatching(text),
    });
  });

  test("204 has no body and passes", async () => {
    expect(await ask({ status: 204 })).toMatchObject({ status: 204, content: undefined });
  });

  test("201 with JSON keeps its status", async () => {
    expect(await ask(json(201, "{}"))).toMatchObject({ status: 201, content: { isJson: true } });
  });
});

describe("an answer to a POST", () => {
  test("that is not JSON is 502, however many good ones its node gave before", async () => {
    const registry = await startRegistry();
    let body = '{"choiceContextData":{"values":{}},"disclosedContracts":[]}';
    registry.script(({ operation }) => (operation === "info" ? undefined : json(200, body)));
    const { upstream } = openUpstream([registry], {}, { random: () => 0.5 });
    for (let i = 0; i < 60; i += 1) await upstream.call(acceptCall());
    body = ' {"choiceContextData": oops}\n';
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({ status: 502 });
  });
});

describe.each(ANSWER_KINDS)("a %s error of the upstream", (kind) => {
  test.each([600, 999])("that is no HTTP status (%i) is 502", async (status) => {
    await expect(askFor(kind, json(status, "{}"))).rejects.toMatchObject({
      status: 502,
      message: expect.stringContaining(`answered with the status ${status}, which HTTP does not have`),
    });
  });

  test.each([301, 302, 303, 307, 308, 300, 304])(
    "that is a redirect (%i) is 502 and is not followed",
    async (status) => {
      await expect(askFor(kind, { status, headers: ["Location", "http://127.0.0.1:1/"] })).rejects.toMatchObject({
        status: 502,
        message: expect.not.stringContaining("127.0.0.1"),
      });
    },
  );

  test.each([401, 403])("%i passes when the gateway sent no credentials", async (status) => {
    const body = '{"error":"no"}';
    expect(await askFor(kind, json(status, body))).toMatchObject({ status, body: Buffer.from(body) });
  });

  test.each([401, 403])("%i is 502 when the gateway sent credentials", async (status) => {
    await expect(
      askFor(kind, json(status, '{"error":"no"}'), { keys: { auth: { bearerToken: "s3cret" } } }),
    ).rejects.toMatchObject({
      status: 502,
      proxyError: "http_request_denied",
      message: expect.not.stringContaining("s3cret"),
    });
  });
});

describe("an error of the upstream", () => {
  test("that is a JSON object with a string error keeps status and bytes", async () => {
    const body = '{ "error":"No such \\u0061llocation" , "code": 7}';
    const answer = await ask(json(404, body));
    expect(answer.status).toBe(404);
    expect(answer.body.toString()).toBe(body);
    expect(answer.content).toMatchObject({ isError: true });
  });

  test.each<[string, ScriptedAnswer, number, string]>([
    [
      "plain text",
      { status: 429, headers: ["Content-Type", "text/plain"], body: "Too  many\n requests" },
      429,
      "Too many requests",
    ],
    ["JSON without error", json(400, '{"message":"bad"}'), 400, '{"message":"bad"}'],
    ["JSON with an error that is no string", json(422, '{"error":{"a":1}}'), 422, '{"error":{"a":1}}'],
    ["a JSON array", json(409, "[1]"), 409, "[1]"],
    ["HTML", html(502), 502, "x Bad Gateway nginx"],
    ["nothing", { status: 503 }, 503, "Service Unavailable"],
    [
      "a plain 404",
      { status: 404, headers: ["Content-Type", "text/plain"], body: "404 page not found" },
      404,
      "404 page not found",
    ],
    ["control characters", json(500, "a\u0000\u001b[31mb"), 500, String.raw`a\u0000\u001b[31mb`],
  ])("that is %s keeps its status and becomes our JSON", async (_what, answer, status, text) => {
    const got = await ask(answer);
    expect(got.status).toBe(status);
    const error = `registry-gateway: upstream "amulet" answered ${status}: ${text}`;
    expect(JSON.parse(got.body.toString())).toEqual({ error, code: "upstream_error" });
    expect(got.content).toBeUndefined();
    expect(fieldValue(got.fields, "content-type")).toBe("application/json");
  });

  test("that is long is shortened", async () => {
    const got = await ask({ status: 500, body: "x".repeat(100_000) });
    expect(got.body.length).toBeLessThan(400);
    expect(got.body.toString()).toContain("xxx…");
  });

  test("that is 404 with an HTML page is 502: the URL is probably wrong", async () => {
    await expect(ask(html(404))).rejects.toMatchObject({
      status: 502,
      proxyError: "proxy_configuration_error",
      message: expect.stringMatching(
        /upstream "amulet" answered 404 with an HTML page: its registry URL is probably wrong/,
      ),
    });
  });
});

test("304 to a conditional request is an answer without a body", async () => {
  const call = listCall({ fields: ["accept", "application/json", "if-none-match", '"a"'] });
  const answer = await ask({ status: 304, headers: ["ETag", '"a"'] }, { call });
  expect(answer).toMatchObject({ status: 304, content: undefined });
  expect(answer.body).toHaveLength(0);
  expect(fieldValue(answer.fields, "etag")).toBe('"a"');
});

test.each(ANSWER_KINDS)("interim responses are skipped (%s)", async (kind) => {
  const answer = await askFor(kind, {
    raw: 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{"a":1}',
  });
  expect(answer).toMatchObject({ status: 200, body: Buffer.from('{"a":1}') });
  expect(fieldValue(answer.fields, "link")).toBeUndefined();
});

describe.each(ANSWER_KINDS)("fields of a %s answer", (kind) => {
  test("that caches decide by stay, though Connection names them", async () => {
    const decides = ["cache-control", "no-store", "vary", "x-a", "age", "9", "expires", "0"];
    const answer = await askFor(kind, {
      status: 200,
      headers: [
        "content-type",
        "application/json",
        "connection",
        "x-b, Cache-Control, vary, age, expires",
        "x-b",
        "1",
        ...decides,
      ],
      body: "{}",
    });
    expect(answer.fields).toEqual(expect.arrayContaining(decides));
    expect(answer.fields).not.toContain("x-b");
  });

  test.each([
    ["Connection", "x-hop"],
    ["X-Hop", "1"],
    ["Keep-Alive", "timeout=9"],
    ["Proxy-Authenticate", "Basic"],
    ["Upgrade", "h2c"],
    ["Trailer", "x"],
    ["Set-Cookie", "a=b"],
    ["Set-Cookie2", "a=b"],
    ["Server", "nginx"],
    ["X-Powered-By", "Express"],
    ["Access-Control-Allow-Origin", "*"],
    ["Access-Control-Anything", "*"],
    ["X-Request-Id", "1"],
    ["RateLimit", "limit=1"],
    ["RateLimit-Remaining", "1"],
    ["X-RateLimit-Limit", "1"],
    ["X-Rate-Limit-Reset", "1"],
    ["Strict-Transport-Security", "max-age=1"],
    ["Clear-Site-Data", "*"],
    ["Alt-Svc", "h3"],
    ["NEL", "{}"],
    ["Report-To", "{}"],
    ["Reporting-Endpoints", "a"],
    ["Service-Worker-Allowed", "/"],
    ["Refresh", "1"],
  ])("%s ends here", async (name, value) => {
    const answer = await askFor(kind, json(200, "{}", ["Connection", "x-hop", name, value]));
    expect(fieldValue(answer.fields, name.toLowerCase())).toBeUndefined();
  });

  test("others pass in order, repeated ones apart, unknown ones too", async () => {
    const sent = [
      "Cache-Control",
      "max-age=5",
      "ETag",
      '"x"',
      "Vary",
      "a",
      "Vary",
      "b",
      "X-Made-Up",
      "\u00e9",
      "Retry-After",
      "3",
    ];
    // With a body of text, node sends the head as UTF-8.
    const answer = await askFor(kind, {
      status: 200,
      headers: ["Content-Type", "application/json", ...sent],
      body: Buffer.from("{}"),
    });
    expect(answer.fields).toEqual([
      "content-type",
      "application/json",
      ...sent.map((text, i) => (i % 2 === 0 ? text.toLowerCase() : text)),
    ]);
  });
});

test.each<[Fields, number | undefined]>([
  [["retry-after", "30"], 30],
  [["date", "Wed, 01 Mar 2000 23:59:45 GMT", "retry-after", "Thu, 02 Mar 2000 00:00:15 GMT"], 30],
  [["date", "Wed, 01 Mar 2000 23:59:45 GMT", "retry-after", "Wed, 01 Mar 2000 23:59:15 GMT"], 0],
  [["date", "Wed, 01 Mar 2000 23:59:45 GMT", "retry-after", "Fri, 31 Dec 9999 23:59:59 GMT"], 999_999_999],
  [["retry-after", "Thu, 02 Mar 2000 00:00:15 GMT"], undefined],
  [["date", "Wed, 01 Mar 2000 23:59:45 GMT", "retry-after", "-5"], undefined],
  [["date", "Wed, 01 Mar 2000 23:59:45 GMT"], undefined],
])("%j asks for a pause of %s s", (fields, seconds) => {
  expect(retryAfter(fields)).toBe(seconds);
});

test("fields that described a body that was replaced are dropped", async () => {
  const answer = await ask({
    status: 503,
    headers: ["ETag", '"x"', "Content-Language", "de", "Retry-After", "7"],
    body: "busy",
  });
  expect(answer.fields).toEqual([
    "content-type",
    "application/json",
    "retry-after",
    "7",
    "proxy-status",
    "registry-gateway;received-status=503",
    "registry-gateway-error",
    "upstream_error",
  ]);
});

describe.each(ANSWER_KINDS)("content codings of a %s answer:", (kind) => {
  const body = JSON.stringify({ text: "a".repeat(5_000) });

  test.each<[string, Buffer]>([
    ["gzip", gzipSync(body)],
    ["x-gzip", gzipSync(body)],
    ["deflate", deflateSync(body)],
    ["br", brotliCompressSync(body)],
    ["zstd", zstdCompressSync(body)],
    ["deflate, gzip", gzipSync(deflateSync(body))],
    ["identity", Buffer.from(body)],
    ["GZIP, identity", gzipSync(body)],
  ])("%s is decoded", async (coding, bytes) => {
    const answer = await askFor(kind, { status: 200, headers: ["Content-Encoding", coding], body: bytes });
    expect(answer.body.toString()).toBe(body);
    expect(fieldValue(answer.fields, "content-encoding")).toBeUndefined();
    expect(fieldValue(answer.fields, "content-length")).toBeUndefined();
  });

  const OF_THE_CODED = ["ETag", '"x"', "Content-Digest", "sha-256=:AA==:", "Repr-Digest", "sha-256=:AA==:"];

  test("what was said of the coded body is not said of the decoded one", async () => {
    const headers = [...OF_THE_CODED, "Digest", "SHA-256=AA==", "Content-MD5", "AA=="];
    const coded = ["Content-Encoding", "gzip", ...headers];
    const answer = await askFor(kind, { status: 200, headers: coded, body: gzipSync(body) });
    expect(fieldValue(answer.fields, "etag")).toBe('W/"x"');
    for (const name of ["content-digest", "repr-digest", "digest", "content-md5"])
      expect(fieldValue(answer.fields, name)).toBeUndefined();
  });

  test.each([[["Content-Encoding", "identity"]], [[]]])(
    "what was said of a body without coding stays",
    async (coding) => {
      const answer = await askFor(kind, { status: 200, headers: [...coding, ...OF_THE_CODED], body });
      expect(fieldValue(answer.fields, "etag")).toBe('"x"');
      expect(fieldValue(answer.fields, "content-digest")).toBe("sha-256=:AA==:");
      expect(fieldValue(answer.fields, "repr-digest")).toBe("sha-256=:AA==:");
    },
  );

  test.each(["foo, chunked", "gzip, chunked", "chunked, chunked"])("a transfer coding %s is 502", async (coding) => {
    const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: ${coding}\r\n\r\n`;
    const answer = askFor(kind, { raw: `${head}2\r\n{}\r\n0\r\n\r\n` });
    await expect(answer).rejects.toMatchObject({ status: 502 });
  });

  test("a transfer coding that changes nothing is none", async () => {
    const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: Chunked\r\n\r\n";
    const answer = await askFor(kind, { raw: `${head}2\r\n{}\r\n0\r\n\r\n` });
    expect(answer).toMatchObject({ status: 200, body: Buffer.from("{}") });
  });

  test.each(BROKEN_CODINGS)("%s is 502", async (_what, coding, bytes) => {
    const answer = askFor(kind, { status: 200, headers: ["Content-Encoding", coding], body: bytes });
    await expect(answer).rejects.toMatchObject({ status: 502, proxyError: "http_response_content_coding" });
  });

  test.each(BOMBS)("%s is 502", async (_what, coding, bytes) => {
    const answer = askFor(kind, { status: 200, headers: ["Content-Encoding", coding], body: bytes });
    await expect(answer).rejects.toMatchObject({ status: 502, proxyError: "http_response_body_size" });
  });
});

test.each([204, 404, 409, 500])("a coding named with an empty %i is no coding of anything", async (status) => {
  const answer = await ask({ status, headers: ["Content-Encoding", "gzip"], body: "" });
  expect(answer.status).toBe(status);
});

test("a 304 may name the coding of the body that it stands for", async () => {
  const registry = await startRegistry();
  const { upstream } = openUpstream([registry]);
  await upstream.learnAdmin(inTime(5_000));
  registry.script(() => ({ status: 304, headers: ["Content-Encoding", "gzip", "ETag", '"x"'], body: "" }));
  const answer = await upstream.call(listCall({ fields: ["if-none-match", '"x"'] }));
  expect(answer.status).toBe(304);
});

describe("the text of an error that is not of the API's form", () => {
  test.each<[string, string]>([
    ["connect ECONNREFUSED db.internal:5432 at /srv/app/index.js:10:99", "connect ECONNREFUSED <address> at <address>"],
    ["see https://10.0.0.1:8080/x?y=1, please", "see <address>=1, please"],
    ["cannot reach 10.1.2.3:80 or fe80::1", "cannot reach <address> or <address>"],
    ["registry-api.prod.svc.cluster.local failed (localhost:80)", "<address> failed (<address>)"],
    ["java.lang.Error at com.foo.Bar(Bar.java:10)", "java.lang.Error at com.foo.Bar(<address>)"],
    ['{"message":"connect ECONNREFUSED 10.0.3.7:5432"}', '{"message":"connect ECONNREFUSED <address>"}'],
    ["host=10.0.0.5 url:http://10.2.2.2/ {host:10.0.0.9}", "host=<address> url:<address> {host:<address>}"],
    ["peer:[::1]:80 addr:fe80::2.", "peer:<address> addr:<address>."],
    ["at Foo.bar (file:///app/x.js:1:2)", "at Foo.bar (<address>)"],
    ["transfer.instrumentId must be given, 10.5 is more than 9.25", ""],
    ["party DSO::1220ab knows no Amulet/USD in version 1.2.3 at 12:30:45", ""],
  ])("%s tells no address", async (text, told) => {
    const answer = await ask({ status: 500, headers: ["Content-Type", "text/plain"], body: text });
    expect(JSON.parse(answer.body.toString())).toEqual({
      error: `registry-gateway: upstream "amulet" answered 500: ${told === "" ? text : told}`,
      code: "upstream_error",
    });
  });

  test("is read in no time, whatever it is", async () => {
    for (const part of ["a.", "a-", "a/", "a:", "[", "1:", "a"]) {
      const answer = await ask({ status: 500, headers: ["Content-Type", "text/plain"], body: part.repeat(8_000) });
      expect(answer.body.length).toBeLessThan(1_000);
    }
  });
});

test("a request asks for identity coding, and framing fields of the caller are not sent", async () => {
  const registry = await startRegistry({ basePath: "/api/v0" });
  const { upstream } = openUpstream([registry]);
  await upstream.call(
    acceptCall({ fields: ["accept-encoding", "gzip", "content-length", "99", "expect", "100-continue", "x-a", "1"] }),
  );
  const { headers, url, body } = registry.calls.last!;
  expect(headers).toMatchObject({ "accept-encoding": "identity", "content-length": "2", "x-a": "1" });
  expect(headers).not.toHaveProperty("expect");
  expect(url).toBe("/api/v0/registry/transfer-instruction/v1/00aa/choice-contexts/accept");
  expect(body.toString()).toBe("{}");
});
