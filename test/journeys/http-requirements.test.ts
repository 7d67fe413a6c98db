import { beforeAll, describe, expect, test } from "vitest";
import { ownError } from "../support/own-error.ts";
import { firstAnswer, type RawAnswer, sendAndHalfClose, sendRaw } from "../support/raw-connection.ts";
import { send } from "../support/send.ts";
import { ADMINS, STRANGER, useThreeRegistries } from "../support/three-registries.ts";

/**
 * What RFC 9110 and 9112 demand of a server and a proxy ("MUST"), probed byte by byte over raw connections. Bodies that
 * are framed in two ways, and most of what smugglers try, are in smuggling.test.ts.
 */
const running = useThreeRegistries();

const BASE = "/api/token-standard/v0/registrars/amulet/registry";
const INFO = `${BASE}/metadata/v1/info`;
const LIST = `${BASE}/metadata/v1/instruments?pageSize=3`;
const CANCEL = `${BASE}/allocations/v1/00ab/choice-contexts/cancel`;
const FACTORY = `${BASE}/transfer-instruction/v1/transfer-factory`;
const DRAFT = `${BASE}/drafts/v1/x`;

const BODY = `{"choiceArguments":{"expectedAdmin":"${ADMINS.amulet}"}}`;

beforeAll(async () => {
  // So that requests for it are hits, which are served before anything else looks at them.
  expect((await send(running().url, { path: INFO })).status).toBe(200);
});

/** A head and, behind it, a body as it is. */
const raw = (line: string, fields: readonly string[], body = ""): string =>
  `${[line, ...fields].join("\r\n")}\r\n\r\n${body}`;

/** The same fault in a request for what is in memory, for a call, and for what passes through. */
const onEveryRoute = (fields: readonly string[]): string[] => [
  raw(`GET ${INFO} HTTP/1.1`, fields),
  raw(
    `POST ${FACTORY} HTTP/1.1`,
    [...fields, "Content-Type: application/json", `Content-Length: ${BODY.length}`],
    BODY,
  ),
  raw(`POST ${DRAFT} HTTP/1.1`, [...fields, "Content-Type: application/json", `Content-Length: ${BODY.length}`], BODY),
];

/** The same chunked body to both kinds of route that take one. */
const chunked = (body: string, fields: readonly string[] = ["Transfer-Encoding: chunked"]): string[] =>
  [FACTORY, DRAFT].map((path) =>
    raw(`POST ${path} HTTP/1.1`, ["Host: g", "Content-Type: application/json", ...fields], body),
  );

const size = BODY.length.toString(16);
const CHUNKS = `${size}\r\n${BODY}\r\n0\r\n\r\n`;

/** Refused in our form, with a status that says that it was the request's fault, and nobody was asked. */
async function expectRefused(request: string, status: readonly number[] = [400]): Promise<void> {
  running().clearCalls();
  const answer = await sendRaw(running().url, request);
  expect([request, answer.statuses]).toEqual([request, [expect.toBeOneOf(status)]]);
  expect(running().called()).toEqual([]);
  expect(JSON.parse(firstAnswer(answer).body)).toEqual(ownError());
  expect(firstAnswer(answer).head).toContain("connection: close");
  expect(answer.isClosed).toBe(true);
}

/** All that is no token character (RFC 9110 §5.6.2), but what ends a field's name or line. */
const NO_TOKEN = [
  ...Array.from({ length: 33 }, (_, code) => code),
  ...Buffer.from('"(),/;<=>?@[\\]{}'),
  0x7f,
  0x80,
  0xff,
]
  .map((code) => String.fromCharCode(code))
  .filter((char) => char !== "\n" && char !== "\r");

describe("a request line is refused", () => {
  test.each<[string, string]>([
    // §3: method, target and version; §2.3: the version's letters and digits.
    ["a space behind the version", `GET ${INFO} HTTP/1.1 `],
    ["a space before the method", ` GET ${INFO} HTTP/1.1`],
    ["a version in small letters", `GET ${INFO} http/1.1`],
    ["a version with more digits", `GET ${INFO} HTTP/1.10`],
    ["a version with fewer digits", `GET ${INFO} HTTP/1`],
    ["a version with a sign", `GET ${INFO} HTTP/+1.1`],
    ["a version with a comma", `GET ${INFO} HTTP/1,1`],
    ["a version of the future", `GET ${INFO} HTTP/3.0`],
    ["no target", "GET  HTTP/1.1"],
    ["no method", `${INFO} HTTP/1.1`],
    // §3.2: the four forms, each where it belongs.
    ["the asterisk for a method other than OPTIONS", "GET * HTTP/1.1"],
    ["an authority for a method other than CONNECT", "GET gateway:8080 HTTP/1.1"],
    ["a target without a slash", `GET ${INFO.slice(1)} HTTP/1.1`],
    ["a fragment", `GET ${INFO}#x HTTP/1.1`],
    ["an absolute target without a host", `GET http://${INFO} HTTP/1.1`],
    ["an absolute target with user information", `GET http://u:p@gateway${INFO} HTTP/1.1`],
    ["an absolute target with a host that is none", `GET http://[::1${INFO} HTTP/1.1`],
    ["an absolute target of another scheme", `GET file://gateway${INFO} HTTP/1.1`],
    ["half an escape", `GET ${BASE}/drafts/v1/%2 HTTP/1.1`],
    ["a control character in the target", `GET ${INFO}\u0001 HTTP/1.1`],
    ["DEL in the target", `GET ${INFO}\u007f HTTP/1.1`],
  ])("for %s", async (_what, line) => {
    await expectRefused(raw(line, ["Host: g", "Connection: close"]));
  });

  test("for every character in a method that no token has", async () => {
    for (const char of NO_TOKEN) await expectRefused(raw(`GE${char}T ${INFO} HTTP/1.1`, ["Host: g"]));
  });
});

describe("a field is refused", () => {
  test("for every character in its name that no token has", async () => {
    for (const char of [...NO_TOKEN, " :"]) {
      for (const request of onEveryRoute(["Host: g", `X${char}Y: a`])) await expectRefused(request);
    }
  });

  // §5.5: CR, LF and NUL are dangerous; the other control characters have no meaning here.
  test.each(["\u0000", "\r", "\r\r", "\u0001", "\u0008", "\u000b", "\u001f", "\u007f"])(
    "for %j in its value",
    async (char) => {
      for (const request of onEveryRoute(["Host: g", `X: a${char}b`])) await expectRefused(request);
    },
  );

  test.each([
    ["a line that is folded with a space", "X: a\r\n b"],
    ["a line that is folded with a tab", "X: a\r\n\tb"],
    ["a value that begins on the next line", "X:\r\n a"],
    ["a tab before the colon", "X\t: a"],
    ["no name", ": a"],
    ["no colon", "X"],
    ["a colon alone", ":"],
  ])("for %s", async (_what, field) => {
    for (const request of onEveryRoute(["Host: g", field])) await expectRefused(request);
    for (const request of onEveryRoute([field, "Host: g"])) await expectRefused(request);
  });

  test("that stands behind white space at the very beginning", async () => {
    for (const space of [" ", "\t"]) {
      for (const request of onEveryRoute([`${space}X: a`, "Host: g"])) await expectRefused(request);
    }
  });
});

describe("a Host is refused", () => {
  test.each([
    ["none", []],
    ["an empty one", ["Host:"]],
    ["one of spaces", ["Host:   "]],
    ["two", ["Host: g", "Host: g"]],
    ["two in different letters", ["Host: g", "hOST: elsewhere"]],
    ["an empty one and a good one", ["Host:", "Host: g"]],
    ["a list", ["Host: g, elsewhere"]],
    ["a list without spaces", ["Host: g,elsewhere"]],
    ["user information", ["Host: u@g"]],
    ["a path", ["Host: g/"]],
    ["a query", ["Host: g?x"]],
    ["a whole URL", ["Host: http://g"]],
    ["a port without a host", ["Host: :80"]],
    ["two ports", ["Host: g:80:80"]],
    ["a port that is no number", ["Host: g:x"]],
    ["an IPv6 address without brackets", ["Host: ::1"]],
    ["brackets around a name", ["Host: [g]"]],
    ["a bracket too few", ["Host: [::1"]],
    ["half an escape", ["Host: g%2"]],
    ["bytes beyond ASCII", ["Host: g\u00e9"]],
  ])("when it is %s", async (_what, fields) => {
    for (const request of onEveryRoute(fields)) await expectRefused(request);
    if (fields.length > 0) {
      await expectRefused(raw(`GET ${INFO} HTTP/1.0`, fields));
      await expectRefused(raw(`GET http://gateway${INFO} HTTP/1.1`, fields));
    }
  });
});

describe("a body is refused", () => {
  test.each<[string, string[]]>([
    ["a chunk size with white space behind it", chunked(`${size} \r\n${BODY}\r\n0\r\n\r\n`)],
    ["a chunk size with white space within", chunked(`0 ${size}\r\n${BODY}\r\n0\r\n\r\n`)],
    ["an empty chunk size", chunked(`\r\n${BODY}\r\n0\r\n\r\n`)],
    ["a chunk size with a sign", chunked(`+${size}\r\n${BODY}\r\n0\r\n\r\n`)],
    ["a chunk size with an underscore", chunked(`0_${size}\r\n${BODY}\r\n0\r\n\r\n`)],
    ["a chunk extension with a bare LF", chunked(`${size};x=y\n${BODY}\r\n0\r\n\r\n`)],
    ["a chunk extension with a bare CR", chunked(`${size};x\ry\r\n${BODY}\r\n0\r\n\r\n`)],
    ["a chunk extension with a NUL", chunked(`${size};x\u0000\r\n${BODY}\r\n0\r\n\r\n`)],
    ["a quoted chunk extension with a line break", chunked(`${size};x="\r\n"\r\n${BODY}\r\n0\r\n\r\n`)],
    ["a chunk that ends without CRLF", chunked(`${size}\r\n${BODY}0\r\n\r\n`)],
    ["a chunk that ends in CR alone", chunked(`${size}\r\n${BODY}\r0\r\n\r\n`)],
    ["a chunk that is shorter than its size", chunked(`ff\r\n${BODY}\r\n0\r\n\r\n${"x".repeat(250)}`)],
    [
      "far too many chunks",
      chunked(`${"1\r\n \r\n".repeat(2_000)}${CHUNKS}`, ["Transfer-Encoding: chunked", "Connection: close"]),
    ],
    ["a trailer with a space before its colon", chunked(`${size}\r\n${BODY}\r\n0\r\nX : a\r\n\r\n`)],
    ["a trailer that is folded", chunked(`${size}\r\n${BODY}\r\n0\r\nX: a\r\n b\r\n\r\n`)],
    ["a trailer with a NUL", chunked(`${size}\r\n${BODY}\r\n0\r\nX: a\u0000\r\n\r\n`)],
    ["a length in its trailer", chunked(`${size}\r\n${BODY}\r\n0\r\nContent-Length: 1\r\n\r\n`)],
    ["a coding in its trailer", chunked(`${size}\r\n${BODY}\r\n0\r\nTransfer-Encoding: x\r\n\r\n`)],
    ["a trailer without a name", chunked(`${size}\r\n${BODY}\r\n0\r\n: a\r\n\r\n`)],
    ["a coding with parameters", chunked(CHUNKS, ["Transfer-Encoding: chunked;q=1"])],
    ["an empty coding", chunked(CHUNKS, ["Transfer-Encoding:"])],
    ["a coding and an empty one", chunked(CHUNKS, ["Transfer-Encoding: , chunked"])],
    ["identity before chunked", chunked(CHUNKS, ["Transfer-Encoding: identity, chunked"])],
    ["two codings in two fields", chunked(CHUNKS, ["Transfer-Encoding: identity", "Transfer-Encoding: chunked"])],
    ["a length with a unit", chunked(BODY, [`Content-Length: ${BODY.length}B`])],
    ["a length with an underscore", chunked(BODY, ["Content-Length: 1_0"])],
    ["a length with a fraction", chunked(BODY, [`Content-Length: ${BODY.length}.0`])],
    ["a length of other digits", chunked(BODY, ["Content-Length: \u00b2"])],
    ["a length and an empty one", chunked(BODY, [`Content-Length: ${BODY.length}`, "Content-Length:"])],
  ])("for %s", async (_what, requests) => {
    for (const request of requests) {
      running().clearCalls();
      const answer = await sendRaw(running().url, request);
      expect([request, answer.statuses.length > 0 && answer.statuses.every((status) => status === 400)]).toEqual([
        request,
        true,
      ]);
      // A body that passes through is on its way when it breaks: the registry never gets its end.
      expect(
        running()
          .called()
          .filter((call) => call !== "amulet pass_through"),
      ).toEqual([]);
      expect(running().registries.amulet.calls.recent.map(({ body }) => body.toString())).not.toContain(BODY);
      expect(answer.isClosed).toBe(true);
    }
  });

  test.each([
    ["a body shorter than its length", [`Content-Length: ${BODY.length + 1}`], BODY],
    ["chunks without the last one", ["Transfer-Encoding: chunked"], `${size}\r\n${BODY}\r\n`],
    ["a last chunk without the line that ends it", ["Transfer-Encoding: chunked"], `${size}\r\n${BODY}\r\n0\r\n`],
  ])("when the client ends the connection within it: %s", async (_what, fields, body) => {
    for (const path of [FACTORY, CANCEL, DRAFT]) {
      running().clearCalls();
      const request = raw(`POST ${path} HTTP/1.1`, ["Host: g", "Content-Type: application/json", ...fields], body);
      const answer = await sendAndHalfClose(running().url, request);
      expect(answer).not.toMatch(/^HTTP\/1\.1 2/);
      expect(running().registries.amulet.calls.recent.map((call) => call.body.toString())).not.toContain(BODY);
    }
  });
});

describe("a request is taken as it is meant", () => {
  test.each<[string, string]>([
    ["empty lines before it", `\r\n\r\n${raw(`GET ${INFO} HTTP/1.1`, ["Host: g", "Connection: close"])}`],
    ["names in any letters", raw(`GET ${INFO} HTTP/1.1`, ["hOsT: g", "CONNECTION: CLOSE"])],
    ["no white space behind colons", raw(`GET ${INFO} HTTP/1.1`, ["Host:g", "Connection:close"])],
    ["white space around values", raw(`GET ${INFO} HTTP/1.1`, ["Host: \t g \t ", "Connection:\tclose "])],
    ["an empty value", raw(`GET ${INFO} HTTP/1.1`, ["Host: g", "X:", "Connection: close"])],
    ["bytes beyond ASCII in a value", raw(`GET ${INFO} HTTP/1.1`, ["Host: g", "X: \u00e9\u00ff", "Connection: close"])],
    ["close among other options", raw(`GET ${INFO} HTTP/1.1`, ["Host: g", "Connection: x, Close"])],
    ["an absolute target", raw(`GET http://elsewhere.example:81${INFO} HTTP/1.1`, ["Host: g", "Connection: close"])],
    ["an absolute target in capitals", raw(`GET HTTP://ELSEWHERE${INFO} HTTP/1.1`, ["Host: g", "Connection: close"])],
    ["HTTP/1.0 without a Host", raw(`GET ${INFO} HTTP/1.0`, [])],
    ["HTTP/1.0 with one", raw(`GET ${INFO} HTTP/1.0`, ["Host: g"])],
    ["a chunked body", chunked(CHUNKS, ["Transfer-Encoding: chunked", "Connection: close"])[0]!],
    ["chunked in any letters", chunked(CHUNKS, ["Transfer-Encoding: cHuNkEd", "Connection: close"])[0]!],
    [
      "chunk extensions",
      chunked(`${size};a;b=c;d="e;f"\r\n${BODY}\r\n0;x\r\n\r\n`, [
        "Transfer-Encoding: chunked",
        "Connection: close",
      ])[0]!,
    ],
    [
      "sizes of chunks in capitals, with zeros before",
      chunked(`000${size.toUpperCase()}\r\n${BODY}\r\n000\r\n\r\n`, [
        "Transfer-Encoding: chunked",
        "Connection: close",
      ])[0]!,
    ],
    [
      "many chunks",
      chunked(`${BODY.replaceAll(/./g, "1\r\n$&\r\n")}0\r\n\r\n`, [
        "Transfer-Encoding: chunked",
        "Connection: close",
      ])[0]!,
    ],
    ["a length with zeros before", chunked(BODY, [`Content-Length: 000${BODY.length}`, "Connection: close"])[0]!],
  ])("with %s", async (_what, request) => {
    const answer = await sendRaw(running().url, request);
    expect(answer.statuses).toEqual([200]);
    expect(answer.isClosed).toBe(true);
  });

  test("without what its trailers say", async () => {
    for (const trailer of [
      `x-instrument-admin: ${STRANGER}`,
      "Host: u@elsewhere",
      "Content-Type: text/plain",
      "Connection: keep-alive",
    ]) {
      for (const request of chunked(`${size}\r\n${BODY}\r\n0\r\n${trailer}\r\n\r\n`, [
        "Transfer-Encoding: chunked",
        "Connection: close",
      ])) {
        running().clearCalls();
        const { statuses } = await sendRaw(running().url, request);
        expect(statuses).toEqual([200]);
        const { headers, body } = running().registries.amulet.calls.last!;
        expect([headers["content-type"], body.toString()]).toEqual(["application/json", BODY]);
        expect(Object.keys(headers)).not.toContain("x-instrument-admin");
      }
    }
  });

  test("with 100-continue in HTTP/1.1, and without it in HTTP/1.0", async () => {
    for (const [version, statuses] of [
      ["1.1", [100, 200]],
      ["1.0", [200]],
    ] as const) {
      const request = raw(
        `POST ${FACTORY} HTTP/${version}`,
        [
          "Host: g",
          "Content-Type: application/json",
          `Content-Length: ${BODY.length}`,
          "Expect: 100-Continue",
          "Connection: close",
        ],
        BODY,
      );
      expect((await sendRaw(running().url, request)).statuses).toEqual(statuses);
    }
  });

  test("with the final answer instead of 100 where that is known already", async () => {
    const { statuses } = await sendRaw(
      running().url,
      raw(`POST ${FACTORY} HTTP/1.1`, ["Host: u@g", "Content-Length: 5", "Expect: 100-continue"]),
    );
    expect(statuses.at(-1)).toBe(400);
  });

  test("with the asterisk for OPTIONS", async () => {
    const answer = await sendRaw(running().url, raw("OPTIONS * HTTP/1.1", ["Host: g", "Connection: close"]));
    expect(answer.statuses).toEqual([204]);
    expect(firstAnswer(answer).head).toMatch(/^allow: get, head, post, options$/m);
  });
});

interface FramedAnswer {
  readonly status: number;
  readonly names: readonly string[];
  readonly fields: ReadonlyMap<string, string>;
  readonly body: string;
}

/** Takes answers apart as a client has to that knows what it asked for (RFC 9112 §6.3). */
function takeApart({ text }: RawAnswer, methods: readonly string[]): FramedAnswer[] {
  const answers: FramedAnswer[] = [];
  let rest = text;
  for (const method of methods) {
    const end = rest.indexOf("\r\n\r\n");
    const [line = "", ...lines] = rest.slice(0, end).split("\r\n");
    expect(line).toMatch(/^HTTP\/1\.1 [1-5][0-9][0-9] [\x20-\x7e]*$/);
    // oxlint-disable-next-line no-control-regex -- what a value may hold (RFC 9110 §5.5)
    for (const each of lines) expect(each).toMatch(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e\x80-\xff]*$/);
    const fields = new Map(
      lines.map((each) => [each.slice(0, each.indexOf(":")).toLowerCase(), each.slice(each.indexOf(":") + 2)]),
    );
    const status = Number(line.slice(9, 12));
    const hasBody = method !== "HEAD" && status !== 204 && status !== 304 && status >= 200;
    const length = hasBody ? Number(fields.get("content-length")) : 0;
    rest = rest.slice(end + 4);
    answers.push({ status, names: [...fields.keys()], fields, body: rest.slice(0, length) });
    rest = rest.slice(length);
  }
  expect(rest).toBe("");
  return answers;
}

describe("answers", () => {
  const CLOSE = "Connection: close";
  test("are framed so that a client that knows its requests can tell them apart", async () => {
    const etag = String((await send(running().url, { path: INFO })).headers.etag);
    const requests: readonly [string, string, number, ...string[]][] = [
      ["GET", INFO, 200],
      ["HEAD", INFO, 200],
      ["GET", INFO, 304, `If-None-Match: ${etag}`],
      ["HEAD", INFO, 304, `If-None-Match: ${etag}`],
      ["HEAD", LIST, 200],
      ["GET", LIST, 200],
      ["OPTIONS", INFO, 204],
      ["HEAD", "/nothing", 404],
      ["GET", "/nothing", 404],
      ["HEAD", DRAFT, 405],
      ["HEAD", `${BASE}/metadata/v1/instruments/nothing`, 404],
      ["PUT", INFO, 405],
      ["HEAD", "/openapi.json", 200],
      ["GET", "/registry/metadata/v1/instruments?pageSize=x", 400],
      ["HEAD", INFO, 200, CLOSE],
    ];
    const text = requests
      .map(([method, path, , ...fields]) => raw(`${method} ${path} HTTP/1.1`, ["Host: g", ...fields]))
      .join("");
    const answers = takeApart(
      await sendRaw(running().url, text),
      requests.map(([method]) => method),
    );
    expect(answers.map(({ status }) => status)).toEqual(requests.map(([, , status]) => status));
    for (const { status, fields, names } of answers) {
      // RFC 9110 §6.6.1, §8.6, RFC 9112 §6.1.
      expect(fields.get("date")).toMatch(/^[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT$/);
      expect(names).not.toContain("transfer-encoding");
      if (status === 204) expect(names).not.toContain("content-length");
      if (status === 405) expect(fields.get("allow")).toMatch(/^[A-Z, ]+$/);
    }
    const [get, head] = answers;
    const withoutChange = ({ fields }: FramedAnswer) =>
      [...fields].filter(([name]) => name !== "x-request-id" && name !== "age" && name !== "cache-status");
    expect(withoutChange(head!)).toEqual(withoutChange(get!));
    // §15.4.5: what a 200 would have said of the cache.
    for (const name of ["date", "etag", "cache-control", "vary"]) {
      expect(answers[2]!.fields.get(name)).toBe(get!.fields.get(name));
    }
  });

  test.each([
    ["what is no HTTP", "GET /\u0000 HTTP/1.1\r\n\r\n", 400],
    ["CONNECT", "CONNECT g:1 HTTP/1.1\r\nHost: g\r\n\r\n", 405],
    ["an endless URL", `GET /${"x".repeat(40_000)} HTTP/1.1\r\nHost: g\r\n\r\n`, 414],
    ["endless fields", `GET / HTTP/1.1\r\nX: ${"x".repeat(40_000)}\r\n\r\n`, 431],
    ["fields without number", `GET / HTTP/1.1\r\nHost: g\r\n${"X: y\r\n".repeat(100)}\r\n`, 431],
    ["an unknown expectation", "GET / HTTP/1.1\r\nHost: g\r\nExpect: more\r\n\r\n", 417],
  ])("are whole also to %s", async (_what, request, status) => {
    const [answer] = takeApart(await sendRaw(running().url, request), ["GET"]);
    expect([answer!.status, answer!.fields.get("connection")]).toEqual([status, "close"]);
    expect(answer!.fields.get("date")).toMatch(/ GMT$/);
    if (status === 405) expect(answer!.fields.get("allow")).toBeDefined();
  });

  test("to HTTP/1.0 are never chunked, and end with their connection", async () => {
    const { amulet } = running().registries;
    amulet.script(({ operation }) =>
      operation === "pass_through"
        ? { raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" }
        : undefined,
    );
    for (const version of ["1.0", "1.1"]) {
      const answer = await sendRaw(running().url, raw(`GET ${DRAFT} HTTP/${version}`, ["Host: g", CLOSE]));
      const { head, body } = firstAnswer(answer);
      expect([version, head.includes("transfer-encoding: chunked")]).toEqual([version, version === "1.1"]);
      expect(body).toBe(version === "1.1" ? "5\r\nhello\r\n0\r\n\r\n" : "hello");
      expect(head).toMatch(/^date: /m);
      expect(answer.isClosed).toBe(true);
    }
    amulet.script(undefined);
  });
});

describe("an answer of a registry that is none is 502, and nothing of it is a field of ours", () => {
  const OK = "HTTP/1.1 200 OK\r\n";
  const JSON_TYPE = "Content-Type: application/json\r\n";
  test.each<[string, string]>([
    ["a length and a coding", `${OK}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`],
    ["two lengths", `${OK}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`],
    ["a length that is no number", `${OK}Content-Length: +2\r\n\r\n{}`],
    ["a coding that is not chunked at its end", `${OK}Transfer-Encoding: chunked, x\r\n\r\n2\r\n{}\r\n0\r\n\r\n`],
    ["a chunk size that is no number", `${OK}Transfer-Encoding: chunked\r\n\r\nx\r\n{}\r\n0\r\n\r\n`],
    ["a chunk that is longer than its size", `${OK}Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n`],
    ["chunks without the last one", `${OK}Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n`],
    ["less than its length", `${OK}Content-Length: 3\r\n\r\n{}`],
    ["a NUL in a value", `${OK}${JSON_TYPE}X-Evil: a\u0000b\r\nContent-Length: 2\r\n\r\n{}`],
    ["a bare CR in a value", `${OK}${JSON_TYPE}X: a\rX-Evil: b\r\nContent-Length: 2\r\n\r\n{}`],
    ["a space before a colon", `${OK}${JSON_TYPE}X-Evil : b\r\nContent-Length: 2\r\n\r\n{}`],
    ["a status that is none", `HTTP/1.1 2000 OK\r\n${JSON_TYPE}Content-Length: 2\r\n\r\n{}`],
    ["a version of the future", `HTTP/3.0 200 OK\r\n${JSON_TYPE}Content-Length: 2\r\n\r\n{}`],
    ["no HTTP at all", "220 mail.example ESMTP\r\n"],
    ["an upgrade", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n{}"],
  ])("with %s", async (_what, bytes) => {
    const { amulet } = running().registries;
    amulet.script(({ operation }) => (operation === "info" ? undefined : { raw: Buffer.from(bytes, "latin1") }));
    for (const request of [{ path: `${LIST}&pageToken=${_what.length}` }, { path: CANCEL, body: "{}" }]) {
      const answer = await send(running().url, request);
      expect([answer.status, answer.headers["x-evil"]]).toEqual([502, undefined]);
    }
    amulet.script(undefined);
  });
});
