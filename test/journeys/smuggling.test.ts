import { connect } from "node:net";
import { describe, expect, test } from "vitest";
import { ownError } from "../support/own-error.ts";
import { firstAnswer, sendAndHalfClose, sendAndReset, sendRaw } from "../support/raw-connection.ts";
import { send } from "../support/send.ts";
import { ADMINS, STRANGER, useThreeRegistries } from "../support/three-registries.ts";

const running = useThreeRegistries();

const BASE = "/api/token-standard/v0/registrars/amulet/registry";
const INFO = `${BASE}/metadata/v1/info`;
const CANCEL = `${BASE}/allocations/v1/00ab/choice-contexts/cancel`;
const FACTORY = `${BASE}/transfer-instruction/v1/transfer-factory`;
const DRAFT = `${BASE}/drafts/v1/x`;

/** What a smuggler wants to get through: a request of its own behind another one's. */
const SMUGGLED = `POST ${FACTORY} HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: 22\r\n\r\n{"choiceArguments":{}}`;

interface Attack {
  /** The request line of a good request, or another one. */
  readonly line?: string;
  readonly fields: readonly string[];
  readonly body?: string;
}

/** The whole request; every attack is tried on each kind of route. */
function rawRequest({ line, fields, body = "" }: Attack, path: string): string {
  return `${line ?? `POST ${path} HTTP/1.1`}\r\n${fields.join("\r\n")}\r\n\r\n${body}`;
}

const HOST = "Host: gateway";
const JSON_TYPE = "Content-Type: application/json";

const CHUNKED = "Transfer-Encoding: chunked";
const CHUNKS = "2\r\n{}\r\n0\r\n\r\n";

const FRAMING: readonly [string, Attack][] = [
  ["Content-Length and Transfer-Encoding", { fields: [HOST, JSON_TYPE, "Content-Length: 2", CHUNKED], body: CHUNKS }],
  ["Transfer-Encoding and Content-Length", { fields: [HOST, JSON_TYPE, CHUNKED, "Content-Length: 2"], body: CHUNKS }],
  [
    "CL.TE with a request behind",
    { fields: [HOST, JSON_TYPE, "Content-Length: 6", CHUNKED], body: `0\r\n\r\n${SMUGGLED}` },
  ],
  ["two lengths", { fields: [HOST, JSON_TYPE, "Content-Length: 2", "Content-Length: 4"], body: "{}{}" }],
  ["the same length twice", { fields: [HOST, JSON_TYPE, "Content-Length: 2", "Content-Length: 2"], body: "{}" }],
  ["two lengths in one field", { fields: [HOST, JSON_TYPE, "Content-Length: 2, 2"], body: "{}" }],
  ["a length with a sign", { fields: [HOST, JSON_TYPE, "Content-Length: +2"], body: "{}" }],
  ["a negative length", { fields: [HOST, JSON_TYPE, "Content-Length: -2"], body: "{}" }],
  ["a hexadecimal length", { fields: [HOST, JSON_TYPE, "Content-Length: 0x2"], body: "{}" }],
  ["a length that is no number", { fields: [HOST, JSON_TYPE, "Content-Length: two"], body: "{}" }],
  ["an empty length", { fields: [HOST, JSON_TYPE, "Content-Length: "], body: "{}" }],
  ["a length beyond all numbers", { fields: [HOST, JSON_TYPE, "Content-Length: 99999999999999999999"], body: "{}" }],
  ["a length with a space within", { fields: [HOST, JSON_TYPE, "Content-Length: 2 2"], body: "{}" }],
  ["a space before the colon", { fields: [HOST, JSON_TYPE, "Content-Length : 2"], body: "{}" }],
  [
    "a space before Transfer-Encoding's colon",
    { fields: [HOST, JSON_TYPE, "Transfer-Encoding : chunked"], body: CHUNKS },
  ],
  ["an unknown coding", { fields: [HOST, JSON_TYPE, "Transfer-Encoding: x"], body: CHUNKS }],
  ["chunked that is not last", { fields: [HOST, JSON_TYPE, "Transfer-Encoding: chunked, identity"], body: CHUNKS }],
  ["chunked twice", { fields: [HOST, JSON_TYPE, "Transfer-Encoding: chunked, chunked"], body: CHUNKS }],
  ["chunked in two fields", { fields: [HOST, JSON_TYPE, CHUNKED, CHUNKED], body: CHUNKS }],
  ["gzip, chunked", { fields: [HOST, JSON_TYPE, "Transfer-Encoding: gzip, chunked"], body: CHUNKS }],
  ["xchunked", { fields: [HOST, JSON_TYPE, "Transfer-Encoding: xchunked"], body: CHUNKS }],
  ["chunked in quotes", { fields: [HOST, JSON_TYPE, 'Transfer-Encoding: "chunked"'], body: CHUNKS }],
  ["chunked behind a tab", { fields: [HOST, JSON_TYPE, "Transfer-Encoding:\tchunked\t, x"], body: CHUNKS }],
  ["chunked in HTTP/1.0", { line: "1.0", fields: [HOST, JSON_TYPE, CHUNKED], body: CHUNKS }],
  ["a chunk size that is no number", { fields: [HOST, JSON_TYPE, CHUNKED], body: "x\r\n{}\r\n0\r\n\r\n" }],
  ["a negative chunk size", { fields: [HOST, JSON_TYPE, CHUNKED], body: "-2\r\n{}\r\n0\r\n\r\n" }],
  ["a chunk size with 0x", { fields: [HOST, JSON_TYPE, CHUNKED], body: "0x2\r\n{}\r\n0\r\n\r\n" }],
  [
    "a chunk size beyond all numbers",
    { fields: [HOST, JSON_TYPE, CHUNKED], body: "fffffffffffffffff\r\n{}\r\n0\r\n\r\n" },
  ],
  ["a chunk that is longer than its size", { fields: [HOST, JSON_TYPE, CHUNKED], body: "2\r\n{}{}\r\n0\r\n\r\n" }],
  ["a chunk that ends in LF alone", { fields: [HOST, JSON_TYPE, CHUNKED], body: "2\n{}\n0\n\n" }],
  ["a chunk size with a space before", { fields: [HOST, JSON_TYPE, CHUNKED], body: " 2\r\n{}\r\n0\r\n\r\n" }],
];

const HEADS: readonly [string, Attack][] = [
  ["no Host", { fields: [JSON_TYPE, "Content-Length: 2"], body: "{}" }],
  ["two Hosts", { fields: [HOST, "Host: elsewhere", JSON_TYPE, "Content-Length: 2"], body: "{}" }],
  ["the same Host twice", { fields: [HOST, HOST, JSON_TYPE, "Content-Length: 2"], body: "{}" }],
  ...["", "user@gateway", "gateway/path", "gateway, elsewhere", "gateway,elsewhere", "[::1", "a b"].map(
    (host): [string, Attack] => [
      `a Host that is ${JSON.stringify(host)}`,
      { fields: [`Host: ${host}`, JSON_TYPE, "Content-Length: 2"], body: "{}" },
    ],
  ),
  ["a folded field", { fields: [HOST, JSON_TYPE, "X-Folded: a", " b", "Content-Length: 2"], body: "{}" }],
  ["a folded Transfer-Encoding", { fields: [HOST, JSON_TYPE, "Transfer-Encoding:", " chunked"], body: CHUNKS }],
  ["a first field that is folded", { fields: [" X: a", HOST, JSON_TYPE, "Content-Length: 2"], body: "{}" }],
  ["a NUL in a value", { fields: [HOST, JSON_TYPE, "X: a\u0000b", "Content-Length: 2"], body: "{}" }],
  ["a NUL in a name", { fields: [HOST, JSON_TYPE, "X\u0000Y: a", "Content-Length: 2"], body: "{}" }],
  ["a space in a name", { fields: [HOST, JSON_TYPE, "X Y: a", "Content-Length: 2"], body: "{}" }],
  ["an empty name", { fields: [HOST, JSON_TYPE, ": a", "Content-Length: 2"], body: "{}" }],
  ["a field without a colon", { fields: [HOST, JSON_TYPE, "garbage", "Content-Length: 2"], body: "{}" }],
  ["a bare CR in a value", { fields: [HOST, JSON_TYPE, "X: a\rContent-Length: 9", "Content-Length: 2"], body: "{}" }],
  ["a CR CR LF", { fields: [HOST, JSON_TYPE, "X: a\r", "Content-Length: 2"], body: "{}" }],
  ["non-ASCII in a name", { fields: [HOST, JSON_TYPE, "X\u00e9: a", "Content-Length: 2"], body: "{}" }],
];

const PATHS = { metadata: INFO, "choice-context": CANCEL, "pass-through": DRAFT };

/** Statuses with which a request may be refused before anybody is asked. */
const REFUSED = [400, 405, 408, 413, 414, 415, 417, 431, 501, 505];

async function expectRefused(request: string | readonly string[]): Promise<void> {
  running().clearCalls();
  const answer = await sendRaw(running().url, request);
  expect(running().called()).toEqual([]);
  expect(answer.statuses.length).toBeGreaterThan(0);
  for (const status of answer.statuses) expect(REFUSED).toContain(status);
  const { head, body } = firstAnswer(answer);
  expect(head).toContain("content-type: application/json");
  expect(head).toContain("access-control-allow-origin: *");
  expect(head).toContain("connection: close");
  expect(JSON.parse(body)).toEqual(ownError());
  expect(answer.isClosed).toBe(true);
}

describe.each(Object.entries(PATHS))("on a %s route", (_kind, path) => {
  test.each([...FRAMING, ...HEADS])(
    "%s is refused, the connection closed, and nothing reaches a registry",
    async (_what, attack) => {
      const line = attack.line === "1.0" ? `POST ${path} HTTP/1.0` : undefined;
      await expectRefused(rawRequest({ ...attack, ...(line === undefined ? {} : { line }) }, path));
    },
  );
});

describe("a request line that is none", () => {
  test.each([
    ["a space in the path", "GET /registry/metadata /v1/info HTTP/1.1"],
    ["a tab", `GET\t${INFO}\tHTTP/1.1`],
    ["no version", `GET ${INFO}`],
    ["HTTP/0.9", `GET ${INFO} HTTP/0.9`],
    ["HTTP/1.2", `GET ${INFO} HTTP/1.2`],
    ["HTTP/2.0", `GET ${INFO} HTTP/2.0`],
    ["HTTP/11", `GET ${INFO} HTTP/11`],
    ["another protocol", `GET ${INFO} ICE/1.0`],
    ["an unknown method", `GE ${INFO} HTTP/1.1`],
    ["a method in small letters", `get ${INFO} HTTP/1.1`],
    ["a method of symbols", `{} ${INFO} HTTP/1.1`],
    ["a NUL in the path", `GET ${INFO}\u0000 HTTP/1.1`],
    ["raw UTF-8 in the path", `GET ${INFO}/\u00c3\u00a9 HTTP/1.1`],
    ["the preface of HTTP/2", "PRI * HTTP/2.0"],
    ["a TLS handshake", "\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003"],
    ["CONNECT", "CONNECT 127.0.0.1:9 HTTP/1.1"],
    ["CONNECT to a path", `CONNECT ${INFO} HTTP/1.1`],
    ["an unknown expectation", `GET ${INFO} HTTP/1.1\r\nExpect: 200-ok`],
  ])("%s", async (_what, line) => {
    await expectRefused(`${line}\r\nHost: g\r\n\r\n`);
  });
});

describe("too much of a head", () => {
  test("a URL that never ends is 414", async () => {
    const answer = await sendRaw(running().url, `GET /${"x".repeat(40_000)} HTTP/1.1\r\nHost: g\r\n\r\n`);
    expect(answer.statuses[0]).toBe(414);
    expect(firstAnswer(answer).body).toMatch(/^\{"error":"registry-gateway: /);
  });

  test("fields that never end are 431", async () => {
    for (const fields of [`X: ${"x".repeat(40_000)}`, "X: y\r\n".repeat(6_000).trimEnd()]) {
      const answer = await sendRaw(running().url, `GET ${INFO} HTTP/1.1\r\nHost: g\r\n${fields}\r\n\r\n`);
      expect(answer.statuses[0]).toBe(431);
      expect(firstAnswer(answer).body).toMatch(/^\{"error":"registry-gateway: /);
      expect(firstAnswer(answer).head).toContain("access-control-allow-origin: *");
    }
  });
});

// The first line was looked for in the last packet: of a short URL and a field without end, that is a 414.
test.each([
  ["a field that never ends", `GET ${INFO} HTTP/1.1\r\nHost: g\r\nX: `, "x".repeat(40_000)],
  ["a URL that never ends", "GET /", "x".repeat(40_000)],
])("%s is 431 where its beginning came in another packet", async (_what, beginning, rest) => {
  const client = connect(Number(new URL(running().url).port), "127.0.0.1");
  client.setEncoding("latin1").on("error", () => undefined);
  let text = "";
  client.on("data", (chunk: string) => (text += chunk));
  // Its answer says that the beginning was read.
  const earlier = `GET ${INFO} HTTP/1.1\r\nHost: g\r\n\r\n`;
  client.write(earlier + beginning);
  await expect.poll(() => text).toContain("HTTP/1.1 200 ");
  client.write(`${rest}\r\n\r\n`);
  await expect.poll(() => text).toMatch(/ 431 [^]*URL and header fields are too large together/);
  client.destroy();
});

test("a field behind thousands of others counts as any other", async () => {
  const many = "A:\r\n".repeat(2_500);
  const misrouted = `GET ${INFO} HTTP/1.1\r\nHost: g\r\n${many}x-instrument-admin: ${STRANGER}\r\n\r\n`;
  await expectRefusedOnce(misrouted);
  await expectRefusedOnce(`GET ${INFO} HTTP/1.1\r\nHost: g\r\n${many}Host: elsewhere\r\n\r\n`);
});

async function expectRefusedOnce(request: string): Promise<void> {
  running().clearCalls();
  const { statuses } = await sendRaw(running().url, request);
  expect(statuses).toHaveLength(1);
  expect([400, 404, 431]).toContain(statuses[0]);
  expect(running().called()).toEqual([]);
}

/** Ends a conversation, so that nobody has to wait for the connection. */
const LAST = "GET /nothing HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n";

describe("what follows a good request on its connection", () => {
  test("a request behind a body that is shorter than its length is taken as the body it is", async () => {
    running().clearCalls();
    const hidden = `GET ${INFO} HTTP/1.1\r\nHost: g\r\n\r\n`;
    const request = `POST ${CANCEL} HTTP/1.1\r\nHost: g\r\nConnection: close\r\n${JSON_TYPE}\r\nContent-Length: ${2 + hidden.length}\r\n\r\n{}${hidden}`;
    const { statuses } = await sendRaw(running().url, request);
    expect(statuses).toEqual([400]);
    expect(running().called()).toEqual([]);
  });

  test("a body that a GET announces is nobody's request", async () => {
    running().clearCalls();
    const hidden = `POST ${CANCEL} HTTP/1.1\r\nHost: g\r\n\r\n`;
    for (const path of [INFO, DRAFT]) {
      const request = `GET ${path} HTTP/1.1\r\nHost: g\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`;
      const { statuses } = await sendRaw(running().url, request + LAST);
      expect(statuses).toEqual([200, 404]);
    }
    expect(running().called()).not.toContain("amulet allocation_cancel");
  });

  test("two requests sent at once are two requests, answered in their order", async () => {
    const one = `GET ${INFO} HTTP/1.1\r\nHost: g\r\n\r\n`;
    const other = `GET ${BASE}/metadata/v1/instruments/nothing HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n`;
    expect((await sendRaw(running().url, one + other)).statuses).toEqual([200, 404]);
  });

  test("a body that nobody reads is not taken for the next request", async () => {
    running().clearCalls();
    for (const [line, status] of [
      ["POST /nothing", 404],
      [`OPTIONS ${CANCEL}`, 204],
      [`DELETE ${DRAFT}`, 405],
      [`PUT ${INFO}`, 405],
      [`POST ${CANCEL}?x`, 415],
    ] as const) {
      const request = `${line} HTTP/1.1\r\nHost: g\r\nContent-Length: ${SMUGGLED.length}\r\n\r\n${SMUGGLED}`;
      const { statuses } = await sendRaw(running().url, request + LAST);
      // Either the connection was closed, or the body was left out and the last request answered.
      expect([[status], [status, 404]]).toContainEqual(statuses);
      expect(running().called()).toEqual([]);
    }
  });

  test("an upgrade is not made, and nothing behind it is a tunnel", async () => {
    const request = `GET ${INFO} HTTP/1.1\r\nHost: g\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n`;
    const { statuses } = await sendRaw(running().url, request);
    // None of them 101.
    expect(statuses).toEqual([200]);
  });

  const UPGRADE = "Host: g\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n";
  const SMUGGLED_GET = `GET ${DRAFT}/SMUGGLED HTTP/1.1\r\nHost: g\r\n\r\n`;

  test.each([
    ["a GET", `GET ${INFO} HTTP/1.1\r\n${UPGRADE}\r\n`, 200],
    ["a call", `POST ${CANCEL} HTTP/1.1\r\n${UPGRADE}${JSON_TYPE}\r\nContent-Length: 2\r\n\r\n{}`, 404],
    [
      "a call in chunks",
      `POST ${CANCEL} HTTP/1.1\r\n${UPGRADE}${JSON_TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
      404,
    ],
  ])("nothing behind %s with Upgrade becomes a request, whole or cut", async (_what, request, status) => {
    for (const behind of [
      ["GET /cut", SMUGGLED_GET],
      [SMUGGLED_GET, SMUGGLED_GET],
      ["", SMUGGLED_GET],
    ]) {
      running().clearCalls();
      const answer = await sendRaw(running().url, [request + behind[0]!, behind[1]!]);
      expect([answer.statuses, answer.isClosed]).toEqual([[status], true]);
      expect(firstAnswer(answer).head.toLowerCase()).toContain("connection: close");
      expect(running().called()).not.toContain("amulet pass_through");
    }
  });

  test("no refusal of what is behind a running call stands in the place of its answer", async () => {
    const { registries, url } = running();
    const call = `POST ${CANCEL} HTTP/1.1\r\nHost: g\r\n${JSON_TYPE}\r\nContent-Length: 2\r\n\r\n{}`;
    registries.amulet.slow(200);
    try {
      for (const parts of [[`${call}no HTTP\r\n\r\n`], [call, "no HTTP\r\n\r\n"], [`${call}${call}no HTTP\r\n\r\n`]]) {
        const { statuses, isClosed } = await sendRaw(url, parts);
        const calls = parts.join("").split("POST ").length - 1;
        expect([statuses, isClosed]).toEqual([[...Array.from({ length: calls }, () => 404), 400], true]);
      }
    } finally {
      registries.amulet.slow(0);
    }
  });

  test("100-continue is continued", async () => {
    const request = `POST ${CANCEL} HTTP/1.1\r\nHost: g\r\n${JSON_TYPE}\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n`;
    const { statuses } = await sendRaw(running().url, [request, "{}"]);
    expect([100, statuses.at(-1)]).toEqual([statuses[0], 404]);
  });
});

describe("what a client writes into fields", () => {
  test("does not become a field of a request to a registry or of an answer", async () => {
    const values = ["a%0d%0aX-Evil: 1", "a\\r\\nX-Evil: 1", "a\tb", "\u00e9\u00ff"];
    for (const value of values) {
      running().clearCalls();
      const raw = `POST ${CANCEL} HTTP/1.1\r\nHost: g\r\n${JSON_TYPE}\r\nX-Request-Id: ${value}\r\nTraceparent: ${value}\r\nOrigin: ${value}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`;
      const answer = await sendRaw(running().url, raw);
      expect(firstAnswer(answer).head).not.toMatch(/^x-evil/m);
      const { rawHeaders = [] } = running().registries.amulet.calls.last ?? {};
      expect(rawHeaders.map((text) => text.toLowerCase())).not.toContain("x-evil");
    }
  });

  test("does not break out of an error's text", async () => {
    const hostile = '"}],<script>alert(1)</script>\u2028\\';
    const answer = await send(running().url, {
      path: `/api/token-standard/v0/registrars/${encodeURIComponent(hostile)}/registry/metadata/v1/info`,
    });
    expect(answer.status).toBe(404);
    expect(answer.headers["content-type"]).toBe("application/json");
    expect((JSON.parse(answer.text) as { error: string }).error).toContain("<script>");
  });

  test.each([
    ["Host", "evil.example"],
    ["X-Forwarded-Host", "evil.example"],
    ["X-Original-URL", "/registry/metadata/v1/instruments"],
    ["X-Rewrite-URL", "/registry/metadata/v1/instruments"],
    ["X-HTTP-Method-Override", "POST"],
    ["Forwarded", "host=evil.example"],
    ["X-Forwarded-Prefix", "/api/token-standard/v0/registrars/bonds"],
  ])("does not change where it goes: %s", async (name, value) => {
    const answer = await send(running().url, { path: INFO, headers: { [name]: value } });
    expect(JSON.parse(answer.text)).toHaveProperty("adminId", ADMINS.amulet);
    expect(answer.text + answer.rawHeaders.join()).not.toContain("evil.example");
  });

  test("names an admin by the header's name alone, not by one that looks like it", async () => {
    for (const name of ["x_instrument_admin", "x-instrument-admin2", "xx-instrument-admin"]) {
      const answer = await send(running().url, { path: INFO, headers: { [name]: STRANGER } });
      expect(answer.status).toBe(200);
    }
  });
});

test("a hit whose Host is none is refused as any other request is", async () => {
  expect((await send(running().url, { path: INFO })).status).toBe(200);
  for (const host of ["", "user@gateway", "gateway/path", "gateway, elsewhere"]) {
    await expectRefused(`GET ${INFO} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
  }
});

describe("several requests in one packet", () => {
  const hit = `GET ${INFO} HTTP/1.1\r\nHost: g\r\n\r\n`;
  const refused = "GET /\u0000 HTTP/1.1\r\nHost: g\r\n\r\n";

  test("are answered in order, whichever takes longer", async () => {
    await send(running().url, { path: INFO });
    const miss = `GET ${BASE}/metadata/v1/instruments?pageSize=7 HTTP/1.1\r\nHost: g\r\n\r\n`;
    const closing = `GET /nowhere HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n`;
    const answer = await sendRaw(running().url, `${hit}${miss}${hit}${closing}`);
    expect(answer.statuses).toEqual([200, 200, 200, 404]);
    const cacheStatus = [...answer.text.matchAll(/^cache-status: [^;]+;([a-z]+)/gim)].map(([, what]) => what);
    expect(cacheStatus).toEqual(["hit", "fwd", "hit"]);
  });

  test.each([
    ["what is no HTTP", refused, 400],
    ["a head that never ends", `GET ${INFO} HTTP/1.1\r\nX: ${"x".repeat(40_000)}`, 431],
    ["CONNECT", "CONNECT g:1 HTTP/1.1\r\nHost: g\r\n\r\n", 405],
  ])("%s behind good ones is refused after their answers", async (_what, behind, status) => {
    await send(running().url, { path: INFO });
    const unknown = "GET /nowhere HTTP/1.1\r\nHost: g\r\n\r\n";
    expect((await sendRaw(running().url, `${hit}${hit}${hit}${behind}`)).statuses).toEqual([200, 200, 200, status]);
    const answer = await sendRaw(running().url, `${unknown}${behind}`);
    expect(answer.statuses).toEqual([404, status]);
    expect(answer.isClosed).toBe(true);
  });

  test("what follows a request that closes the connection is ignored", async () => {
    const miss = `GET ${BASE}/metadata/v1/instruments?pageSize=9 HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n`;
    expect((await sendRaw(running().url, `${miss}${hit}`)).statuses).toEqual([200]);
  });
});

describe("clients that go", () => {
  const JSON_POST = `POST ${FACTORY} HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\n`;

  test.each([
    ["a hit", `GET ${INFO} HTTP/1.1\r\nHost: g\r\n\r\n`, 200],
    [
      "a hit that a header names",
      `GET /registry/metadata/v1/info HTTP/1.1\r\nHost: g\r\nX-Instrument-Admin: ${ADMINS.amulet}\r\n\r\n`,
      200,
    ],
    ["a preflight", `OPTIONS ${INFO} HTTP/1.1\r\nHost: g\r\n\r\n`, 204],
    ["a page of ours", "GET /openapi.json HTTP/1.1\r\nHost: g\r\n\r\n", 200],
    ["an unknown path", "GET /nowhere HTTP/1.1\r\nHost: g\r\n\r\n", 404],
    ["a bad body", `${JSON_POST}Content-Length: 2\r\n\r\n[]`, 400],
    ["a body of another type", `POST ${FACTORY} HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}`, 415],
  ])("%s is answered though the client half-closes at once", async (_what, request, status) => {
    await send(running().url, { path: INFO });
    for (let i = 0; i < 10; i += 1) {
      expect(await sendAndHalfClose(running().url, request)).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    }
  });

  test.each([
    ["CONNECT", "CONNECT g:1 HTTP/1.1\r\nHost: g\r\n\r\n"],
    ["what is no HTTP", "GET /\u0000 HTTP/1.1\r\n\r\n"],
    ["a request", `GET ${INFO} HTTP/1.1\r\nHost: g\r\n\r\n`],
  ])("a reset right after %s harms nobody", async (_what, request) => {
    for (let i = 0; i < 200; i += 1) await sendAndReset(running().url, request);
    expect((await send(running().url, { path: INFO })).status).toBe(200);
  });
});
