import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { CANCEL, DRAFT, expecting, FACTORY, INFO, LIST, PREFIX } from "../../support/endpoints.ts";
import { RawConnection, sendAndReset, sendRaw } from "../../support/raw.ts";
import { partyOf, STRANGER } from "../../support/registry.ts";
import { useThree } from "../../support/three.ts";
import { until } from "../../support/until.ts";

const three = useThree();

const BASE = `${PREFIX}/amulet`;
const BODY = expecting(partyOf("amulet"));
const HOST = "Host: gateway";
const JSON_TYPE = "Content-Type: application/json";
const CHUNKED = "Transfer-Encoding: chunked";
const SIZE = BODY.length.toString(16);
const CHUNKS = `${SIZE}\r\n${BODY}\r\n0\r\n\r\n`;
/** What a smuggler wants to get through: a request of its own behind another one's. */
const SMUGGLED = `POST ${BASE}${FACTORY} HTTP/1.1\r\nHost: g\r\n${JSON_TYPE}\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`;
/** Ends a conversation, so that nobody has to wait for the connection. */
const LAST = "GET /nothing HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n";

const raw = (line: string, fields: readonly string[], body = ""): string =>
  `${[line, ...fields].join("\r\n")}\r\n\r\n${body}`;

/** Each kind of route: what is in memory, what is called, what passes through. */
const ROUTES = [`GET ${BASE}${INFO}`, `POST ${BASE}${FACTORY}`, `POST ${BASE}${DRAFT}`];

beforeAll(async () => {
  // So that requests for it are hits.
  expect((await three().gateway.get(BASE + INFO)).status).toBe(200);
});

beforeEach(() => {
  for (const registry of Object.values(three().registries)) registry.calls.length = 0;
});

const REFUSED = [400, 405, 408, 411, 413, 414, 415, 417, 431, 501, 505];

/** Refused in the gateway's form, with a status that says that it was the request's fault; nobody was asked. */
async function expectRefused(request: string | readonly string[], statuses = REFUSED): Promise<void> {
  const answer = await sendRaw(three().gateway.url, request);
  expect(answer.statuses.length).toBeGreaterThan(0);
  for (const status of answer.statuses) expect(statuses).toContain(status);
  expect(three().asked()).toEqual([]);
  expect(answer.head).toContain("content-type: application/json");
  expect(answer.head).toContain("access-control-allow-origin: *");
  expect(answer.head).toContain("connection: close");
  expect(answer.isClosed).toBe(true);
  expect(JSON.parse(answer.body)).toMatchObject({
    error: expect.stringMatching(/^registry-gateway: /) as string,
    code: expect.stringMatching(/^[a-z_]+$/) as string,
    requestId: expect.stringMatching(/./) as string,
  });
}

describe("framing that two servers could read differently is refused:", () => {
  const rows: readonly [string, readonly string[], string][] = [
    ["a length and chunks", ["Content-Length: 2", CHUNKED], CHUNKS],
    ["chunks and a length", [CHUNKED, "Content-Length: 2"], CHUNKS],
    ["CL.TE with a request behind", ["Content-Length: 6", CHUNKED], `0\r\n\r\n${SMUGGLED}`],
    ["two lengths", ["Content-Length: 2", "Content-Length: 4"], "{}{}"],
    ["the same length twice", ["Content-Length: 2", "Content-Length: 2"], "{}"],
    ["two lengths in one field", ["Content-Length: 2, 2"], "{}"],
    ["a length with a sign", ["Content-Length: +2"], "{}"],
    ["a negative length", ["Content-Length: -2"], "{}"],
    ["a hexadecimal length", ["Content-Length: 0x2"], "{}"],
    ["a length that is no number", ["Content-Length: two"], "{}"],
    ["an empty length", ["Content-Length: "], "{}"],
    ["a length beyond all numbers", ["Content-Length: 99999999999999999999"], "{}"],
    ["a length with a space within", ["Content-Length: 2 2"], "{}"],
    ["a length with a unit", ["Content-Length: 2B"], "{}"],
    ["a space before the colon", ["Content-Length : 2"], "{}"],
    ["a space before the coding's colon", ["Transfer-Encoding : chunked"], CHUNKS],
    ["an unknown coding", ["Transfer-Encoding: x"], CHUNKS],
    ["an empty coding", ["Transfer-Encoding:"], CHUNKS],
    ["chunked that is not last", ["Transfer-Encoding: chunked, identity"], CHUNKS],
    ["chunked twice", ["Transfer-Encoding: chunked, chunked"], CHUNKS],
    ["chunked in two fields", [CHUNKED, CHUNKED], CHUNKS],
    ["gzip, chunked", ["Transfer-Encoding: gzip, chunked"], CHUNKS],
    ["xchunked", ["Transfer-Encoding: xchunked"], CHUNKS],
    ["chunked in quotes", ['Transfer-Encoding: "chunked"'], CHUNKS],
    ["chunked with parameters", ["Transfer-Encoding: chunked;q=1"], CHUNKS],
    ["a folded coding", ["Transfer-Encoding:", " chunked"], CHUNKS],
    ["a chunk size that is no number", [CHUNKED], "x\r\n{}\r\n0\r\n\r\n"],
    ["a negative chunk size", [CHUNKED], "-2\r\n{}\r\n0\r\n\r\n"],
    ["a chunk size with 0x", [CHUNKED], "0x2\r\n{}\r\n0\r\n\r\n"],
    ["an empty chunk size", [CHUNKED], "\r\n{}\r\n0\r\n\r\n"],
    ["a chunk size beyond all numbers", [CHUNKED], "fffffffffffffffff\r\n{}\r\n0\r\n\r\n"],
    ["a chunk longer than its size", [CHUNKED], "2\r\n{}{}\r\n0\r\n\r\n"],
    ["chunks that end in LF alone", [CHUNKED], "2\n{}\n0\n\n"],
    ["a chunk size with a space before", [CHUNKED], " 2\r\n{}\r\n0\r\n\r\n"],
    ["a chunk extension with a bare LF", [CHUNKED], "2;x=y\n{}\r\n0\r\n\r\n"],
    ["a trailer that is folded", [CHUNKED], "2\r\n{}\r\n0\r\nX: a\r\n b\r\n\r\n"],
    ["a trailer with a NUL", [CHUNKED], "2\r\n{}\r\n0\r\nX: a\u0000\r\n\r\n"],
  ];
  test.each(rows)("%s", async (_what, fields, body) => {
    for (const route of ROUTES) {
      const method = route.replace(/^GET/, "POST").replace(INFO, CANCEL);
      const request = raw(`${method} HTTP/1.1`, [HOST, JSON_TYPE, ...fields], body);
      await expectRefused(request);
    }
  });

  test("chunks in HTTP/1.0", () =>
    expectRefused(raw(`POST ${BASE}${CANCEL} HTTP/1.0`, [HOST, JSON_TYPE, CHUNKED], CHUNKS)));
});

describe("a Host that is none, or two, is refused:", () => {
  test.each([
    [["X: none"]],
    [["Host:"]],
    [["Host:   "]],
    [["Host: g", "Host: g"]],
    [["Host: g", "hOST: elsewhere"]],
    [["Host: g, elsewhere"]],
    [["Host: g,elsewhere"]],
    [["Host: u@g"]],
    [["Host: g/"]],
    [["Host: g?x"]],
    [["Host: http://g"]],
    [["Host: g:x"]],
    [["Host: [::1"]],
    [["Host: a b"]],
  ])("%j", async (fields) => {
    for (const route of ROUTES) {
      await expectRefused(
        raw(`${route} HTTP/1.1`, [...fields, JSON_TYPE, `Content-Length: ${BODY.length}`], BODY),
        [400],
      );
    }
  });
});

describe("a head that is none is refused:", () => {
  test.each([
    ["a folded field", "X: a\r\n b"],
    ["a value that begins on the next line", "X:\r\n a"],
    ["a NUL in a value", "X: a\u0000b"],
    ["a NUL in a name", "X\u0000Y: a"],
    ["a space in a name", "X Y: a"],
    ["a tab before the colon", "X\t: a"],
    ["an empty name", ": a"],
    ["a field without a colon", "garbage"],
    ["a bare CR in a value", "X: a\rContent-Length: 9"],
    ["non-ASCII in a name", "X\u00e9: a"],
    ["DEL in a value", "X: a\u007fb"],
  ])("%s", async (_what, field) => {
    for (const route of ROUTES) {
      await expectRefused(
        raw(`${route} HTTP/1.1`, [HOST, JSON_TYPE, field, `Content-Length: ${BODY.length}`], BODY),
        [400],
      );
    }
  });

  test.each([
    ["a space in the path", "GET /registry/metadata /v1/info HTTP/1.1"],
    ["a tab", `GET\t${INFO}\tHTTP/1.1`],
    ["no version", `GET ${INFO}`],
    ["HTTP/0.9", `GET ${INFO} HTTP/0.9`],
    ["HTTP/1.2", `GET ${INFO} HTTP/1.2`],
    ["HTTP/2.0", `GET ${INFO} HTTP/2.0`],
    ["another protocol", `GET ${INFO} ICE/1.0`],
    ["an unknown method", `GE ${INFO} HTTP/1.1`],
    ["a method in small letters", `get ${INFO} HTTP/1.1`],
    ["a NUL in the path", `GET ${INFO}\u0000 HTTP/1.1`],
    ["a control character in the path", `GET ${INFO}\u0001 HTTP/1.1`],
    ["raw UTF-8 in the path", `GET ${INFO}/\u00c3\u00a9 HTTP/1.1`],
    ["the preface of HTTP/2", "PRI * HTTP/2.0"],
    ["a TLS handshake", "\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003"],
    ["a target without a slash", `GET ${INFO.slice(1)} HTTP/1.1`],
    ["CONNECT", "CONNECT 127.0.0.1:9 HTTP/1.1"],
    ["an unknown expectation", `GET ${BASE}${LIST} HTTP/1.1\r\nExpect: 200-ok`],
  ])("%s in its first line", (_what, line) => expectRefused(`${line}\r\nHost: g\r\n\r\n`));

  test("a URL or fields that never end are 414 or 431", async () => {
    await expectRefused(`GET /${"x".repeat(40_000)} HTTP/1.1\r\nHost: g\r\n\r\n`, [414, 431]);
    for (const fields of [`X: ${"x".repeat(40_000)}`, "X: yyyyyyyy\r\n".repeat(6_000).trimEnd()]) {
      await expectRefused(`GET ${BASE}${INFO} HTTP/1.1\r\nHost: g\r\n${fields}\r\n\r\n`, [431]);
    }
  });
});

test("a field behind thousands of others counts as any other", async () => {
  const many = "A:\r\n".repeat(2_500);
  for (const field of [`x-instrument-admin: ${STRANGER}`, "Host: elsewhere"]) {
    const { statuses } = await sendRaw(
      three().gateway.url,
      `GET ${BASE}${LIST} HTTP/1.1\r\nHost: g\r\n${many}${field}\r\nConnection: close\r\n\r\n`,
    );
    expect(statuses).toHaveLength(1);
    expect([400, 404, 431]).toContain(statuses[0]);
    expect(three().asked()).toEqual([]);
  }
});

describe("what follows a request on its connection", () => {
  const url = (): string => three().gateway.url;
  const hit = `GET ${BASE}${INFO} HTTP/1.1\r\nHost: g\r\n\r\n`;

  test("is the body that its length says, be it what it may", async () => {
    const hidden = `GET ${BASE}${LIST} HTTP/1.1\r\nHost: g\r\n\r\n`;
    const fields = [HOST, JSON_TYPE, "Connection: close", `Content-Length: ${2 + hidden.length}`];
    expect((await sendRaw(url(), raw(`POST ${BASE}${CANCEL} HTTP/1.1`, fields, `{}${hidden}`))).statuses).toEqual([
      400,
    ]);
    expect(three().asked()).toEqual([]);
  });

  test("is nobody's request where a GET announced a body", async () => {
    for (const path of [INFO, DRAFT]) {
      const request = raw(`GET ${BASE}${path} HTTP/1.1`, [HOST, `Content-Length: ${SMUGGLED.length}`], SMUGGLED);
      await sendRaw(url(), request + LAST);
    }
    expect(three().asked()).not.toContain("amulet transfer_factory");
  });

  test.each([
    ["POST /nothing", 404],
    [`OPTIONS ${BASE}${CANCEL}`, 204],
    [`DELETE ${BASE}${DRAFT}`, 405],
    [`PUT ${BASE}${INFO}`, 405],
    [`POST ${BASE}${CANCEL}`, 415],
  ])("is not taken for the next request where nobody reads the body: %s", async (line, status) => {
    const request = raw(`${line} HTTP/1.1`, [HOST, `Content-Length: ${SMUGGLED.length}`], SMUGGLED);
    const { statuses } = await sendRaw(url(), request + LAST);
    // Either the connection was closed, or the body was left out and the last request answered.
    expect([[status], [status, 404]]).toContainEqual(statuses);
    expect(three().asked()).toEqual([]);
  });

  test("is answered in order, whichever takes longer", async () => {
    const miss = `GET ${BASE}${LIST}?pageSize=7 HTTP/1.1\r\nHost: g\r\n\r\n`;
    const answer = await sendRaw(url(), `${hit}${miss}${hit}${LAST}`);
    expect(answer.statuses).toEqual([200, 200, 200, 404]);
    expect(answer.text.indexOf("adminId")).toBeLessThan(answer.text.indexOf('"instruments":'));
  });

  test.each([
    ["what is no HTTP", "GET /\u0000 HTTP/1.1\r\nHost: g\r\n\r\n", [400]],
    ["a head that never ends", `GET ${BASE}${INFO} HTTP/1.1\r\nX: ${"x".repeat(40_000)}`, [431]],
    ["CONNECT", "CONNECT g:1 HTTP/1.1\r\nHost: g\r\n\r\n", [400, 405]],
  ])("is refused behind the answers of good ones, and never in their place: %s", async (_what, behind, refusals) => {
    const answer = await sendRaw(url(), `${hit}${hit}${behind}`);
    expect(answer.isClosed).toBe(true);
    expect(answer.statuses.slice(0, 2)).toEqual([200, 200]);
    for (const status of answer.statuses.slice(2)) expect(refusals).toContain(status);
  });

  test("has no refusal in the place of the answer to a call that still runs", async () => {
    const { amulet } = three().registries;
    const call = raw(`POST ${BASE}${CANCEL} HTTP/1.1`, [HOST, JSON_TYPE, "Content-Length: 2"], "{}");
    const release = amulet.hold("allocation_cancel");
    const connection = await RawConnection.open(url());
    connection.write(call);
    await amulet.reached(1);
    connection.write("no HTTP\r\n\r\n");
    release();
    await until(() => connection.isClosed);
    // The broken connection may cost the answer; it never gets another's.
    if (connection.statuses.length > 0) expect([200, 400]).toContain(connection.statuses[0]);
    if (connection.statuses[0] === 400) expect(connection.statuses).toEqual([400]);
  });

  test("has no refusal of a later body in the place of the answer to an earlier request", async () => {
    const { amulet } = three().registries;
    const release = amulet.hold("allocation_cancel");
    const connection = await RawConnection.open(url());
    connection.write(raw(`POST ${BASE}${CANCEL} HTTP/1.1`, [HOST, JSON_TYPE, "Content-Length: 2"], "{}"));
    await amulet.reached(1);
    connection.write(raw(`POST ${BASE}${CANCEL} HTTP/1.1`, [HOST, JSON_TYPE, CHUNKED], "no chunk\r\n"));
    // It is answered behind those bytes.
    await three().gateway.get(BASE + INFO);
    expect(connection.text).toBe("");
    release();
    await until(() => connection.isClosed);
    expect(connection.statuses).toEqual([200, 400]);
  });

  test("is ignored where the request closes the connection", async () => {
    const miss = `GET ${BASE}${LIST}?pageSize=9 HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n`;
    expect((await sendRaw(url(), `${miss}${hit}`)).statuses).toEqual([200]);
  });
});

describe("an offer to upgrade", () => {
  const fields = [HOST, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"];

  test("is answered as HTTP/1.1, and the connection stays, as the JDK's client needs it", async () => {
    const connection = await RawConnection.open(three().gateway.url);
    for (let round = 1; round <= 3; round += 1) {
      connection.write(raw(`GET ${BASE}${INFO} HTTP/1.1`, fields));
      await until(() => connection.statuses.length === round);
    }
    connection.write(raw(`POST ${BASE}${CANCEL} HTTP/1.1`, [...fields, JSON_TYPE, "Content-Length: 2"], "{}"));
    await until(() => connection.statuses.length === 4);
    expect(connection.statuses).toEqual([200, 200, 200, 200]);
    expect(connection.isClosed).toBe(false);
    expect(connection.text).not.toMatch(/ 101 /);
    expect(three().asked()).toEqual(["amulet allocation_cancel"]);
  });

  test("makes no tunnel, and what is behind it in its packet is answered or left out", async () => {
    const connection = await RawConnection.open(three().gateway.url);
    connection.write(raw(`GET ${BASE}${INFO} HTTP/1.1`, fields) + LAST);
    await until(() => connection.statuses.length > 0);
    connection.write(LAST);
    await until(() => connection.isClosed || connection.statuses.length > 1);
    expect([[200], [200, 404]]).toContainEqual(connection.statuses);
  });
});

test("a body that is too large is refused while it comes, read to its end, and costs no connection", async () => {
  const connection = await RawConnection.open(three().gateway.url);
  connection.write(raw(`POST ${BASE}${CANCEL} HTTP/1.1`, [HOST, JSON_TYPE, `Content-Length: ${40 * 65_536}`]));
  for (let sent = 0; sent < 40; sent += 1) {
    await new Promise((resolve) => connection.socket.write("x".repeat(65_536), resolve));
  }
  await until(() => connection.statuses.length > 0);
  connection.write(LAST);
  await until(() => connection.isClosed);
  expect(connection.statuses).toEqual([413, 404]);
});

test("100-continue is continued", async () => {
  const fields = [HOST, JSON_TYPE, "Expect: 100-continue", "Content-Length: 2", "Connection: close"];
  const { statuses } = await sendRaw(three().gateway.url, [raw(`POST ${BASE}${CANCEL} HTTP/1.1`, fields), "{}"]);
  expect(statuses).toEqual([100, 200]);
});

test.each<[string, string]>([
  ["empty lines before it", `\r\n\r\n${raw(`GET ${BASE}${INFO} HTTP/1.1`, [HOST, "Connection: close"])}`],
  ["names in any letters", raw(`GET ${BASE}${INFO} HTTP/1.1`, ["hOsT: g", "CONNECTION: CLOSE"])],
  ["white space around values", raw(`GET ${BASE}${INFO} HTTP/1.1`, ["Host: \t g \t ", "Connection:\tclose "])],
  ["HTTP/1.0", raw(`GET ${BASE}${INFO} HTTP/1.0`, [HOST])],
  ["chunks", raw(`POST ${BASE}${FACTORY} HTTP/1.1`, [HOST, JSON_TYPE, CHUNKED, "Connection: close"], CHUNKS)],
  [
    "chunk extensions",
    raw(
      `POST ${BASE}${FACTORY} HTTP/1.1`,
      [HOST, JSON_TYPE, CHUNKED, "Connection: close"],
      `${SIZE};a;b=c\r\n${BODY}\r\n0;x\r\n\r\n`,
    ),
  ],
  [
    "many chunks",
    raw(
      `POST ${BASE}${FACTORY} HTTP/1.1`,
      [HOST, JSON_TYPE, CHUNKED, "Connection: close"],
      `${BODY.replaceAll(/./g, "1\r\n$&\r\n")}0\r\n\r\n`,
    ),
  ],
])("a request is taken as it is meant: %s", async (_what, request) => {
  const answer = await sendRaw(three().gateway.url, request);
  expect([answer.statuses, answer.isClosed]).toEqual([[200], true]);
});

test("what trailers say counts for nothing", async () => {
  for (const trailer of [`x-instrument-admin: ${STRANGER}`, "Content-Type: text/plain"]) {
    for (const path of [FACTORY, DRAFT]) {
      const fields = [HOST, JSON_TYPE, CHUNKED, "Connection: close"];
      const request = raw(`POST ${BASE}${path} HTTP/1.1`, fields, `${SIZE}\r\n${BODY}\r\n0\r\n${trailer}\r\n\r\n`);
      expect((await sendRaw(three().gateway.url, request)).statuses).toEqual([200]);
      const { headers, body } = three().registries.amulet.last;
      expect([headers["content-type"], body.toString()]).toEqual(["application/json", BODY]);
    }
  }
});

test.each([
  ["a body shorter than its length", [`Content-Length: ${BODY.length + 1}`], BODY],
  ["chunks without the last one", [CHUNKED], `${SIZE}\r\n${BODY}\r\n`],
])("a body that the client never ends reaches nobody: %s", async (_what, fields, body) => {
  for (const path of [FACTORY, CANCEL, DRAFT]) {
    const request = raw(`POST ${BASE}${path} HTTP/1.1`, [HOST, JSON_TYPE, ...fields], body);
    const { text } = await sendRaw(three().gateway.url, request, { isHalfClosed: true });
    expect(text).not.toMatch(/^HTTP\/1\.1 2/);
    expect(three().asked()).toEqual([]);
  }
});

describe("what a client writes into fields", () => {
  test("does not become a field of a request to a registry or of an answer", async () => {
    for (const value of ["a%0d%0aX-Evil: 1", "a\\r\\nX-Evil: 1", "a\tb", "\u00e9\u00ff"]) {
      const fields = [HOST, JSON_TYPE, `X-Request-Id: ${value}`, `Traceparent: ${value}`, `Origin: ${value}`];
      const request = raw(
        `POST ${BASE}${CANCEL} HTTP/1.1`,
        [...fields, "Content-Length: 2", "Connection: close"],
        "{}",
      );
      const answer = await sendRaw(three().gateway.url, request);
      expect(answer.statuses).toEqual([200]);
      expect(answer.head).not.toMatch(/^x-evil/m);
      expect(three().registries.amulet.last.headers).not.toHaveProperty("x-evil");
    }
  });

  test("does not break out of an error's text", async () => {
    const hostile = '"}],<script>alert(1)</script>\u2028\\';
    const answer = await three().gateway.get(`${PREFIX}/${encodeURIComponent(hostile)}${INFO}`);
    expect(answer.status).toBe(404);
    expect(answer.headers["content-type"]).toMatch(/^application\/json/);
    expect(answer.error).not.toContain("\u2028");
  });

  test.each([
    ["X-Forwarded-Host", "evil.example"],
    ["X-Original-URL", LIST],
    ["X-Rewrite-URL", LIST],
    ["X-HTTP-Method-Override", "POST"],
    ["Forwarded", "host=evil.example"],
    ["X-Forwarded-Prefix", `${PREFIX}/bonds`],
    ["x_instrument_admin", STRANGER],
    ["x-instrument-admin2", STRANGER],
  ])("does not change where it goes: %s", async (name, value) => {
    const answer = await three().gateway.get(BASE + INFO, { [name]: value });
    expect(answer.json).toHaveProperty("adminId", partyOf("amulet"));
    expect(answer.text + answer.rawHeaders.join()).not.toContain("evil.example");
  });
});

test("a client that half-closes at once, or resets, gets its answer or harms nobody", async () => {
  const { url } = three().gateway;
  const hit = `GET ${BASE}${INFO} HTTP/1.1\r\nHost: g\r\n\r\n`;
  expect((await sendRaw(url, hit, { isHalfClosed: true })).statuses).toEqual([200]);
  for (const text of ["CONNECT g:1 HTTP/1.1\r\nHost: g\r\n\r\n", "GET /\u0000 HTTP/1.1\r\n\r\n", hit]) {
    for (let round = 0; round < 20; round += 1) await sendAndReset(url, text);
  }
  expect((await three().gateway.get(BASE + INFO)).status).toBe(200);
});
