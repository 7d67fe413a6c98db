import type { IncomingMessage } from "node:http";
import { describe, expect, test } from "vitest";
import { framingProblem, hasBody } from "../../src/connections/framing.ts";

interface Head {
  readonly fields: readonly [name: string, value: string][];
  readonly version?: 0 | 1;
  readonly major?: number;
}

/** A request as Node's parser hands it over. */
function requestOf({ fields, version = 1, major = 1 }: Head): IncomingMessage {
  const headers = Object.fromEntries(fields.map(([name, value]) => [name.toLowerCase(), value]));
  return {
    headers,
    rawHeaders: fields.flat(),
    httpVersionMajor: major,
    httpVersionMinor: version,
  } as unknown as IncomingMessage;
}

const HOST: [string, string] = ["Host", "gateway"];

describe("framing that parsers agree about", () => {
  test.each<[string, Head, boolean]>([
    ["one Host", { fields: [HOST] }, true],
    ["an empty body", { fields: [HOST, ["Content-Length", "0"]] }, true],
    ["a body", { fields: [HOST, ["Content-Length", "2"]] }, true],
    ["a chunked body", { fields: [HOST, ["Transfer-Encoding", "chunked"]] }, true],
    ["two Hosts", { fields: [HOST, ["host", "gateway"]] }, false],
    ["no Host", { fields: [] }, false],
    ["no Host in HTTP/1.0", { fields: [], version: 0 }, true],
    ["a chunked body in HTTP/1.0", { fields: [HOST, ["transfer-encoding", "chunked"]], version: 0 }, false],
    ["a compressed body", { fields: [HOST, ["Transfer-Encoding", "gzip, chunked"]] }, false],
    ["chunked in capitals", { fields: [HOST, ["Transfer-Encoding", "Chunked"]] }, true],
    ["HTTP/2.0", { fields: [HOST], version: 0, major: 2 }, false],
    ["HTTP/0.9", { fields: [HOST], major: 0 }, false],
    ["X-Host beside Host", { fields: [HOST, ["X-Host", "elsewhere"]] }, true],
    ["a Host that is none", { fields: [["Host", "a b"]] }, false],
    ["a Host that is none in HTTP/1.0", { fields: [["Host", ""]], version: 0 }, false],
  ])("%s", (_what, head, isAccepted) => {
    const request = requestOf(head);
    if (isAccepted) expect(framingProblem(request)).toBeUndefined();
    else expect(framingProblem(request)).toMatchObject({ status: 400 });
  });
});

test.each([
  [100, undefined],
  [101, 431],
])("%i fields are as many as there may be, or not", (count, status) => {
  const more = Array.from({ length: count - 1 }, (_, i): [string, string] => [`x-${i}`, ""]);
  const request = requestOf({ fields: [HOST, ...more] });
  expect(framingProblem(request)?.status).toBe(status);
});

test.each<[string, [string, string][], boolean]>([
  ["no length", [], false],
  ["a length of 0", [["Content-Length", "0"]], false],
  ["a length", [["Content-Length", "2"]], true],
  ["chunks", [["Transfer-Encoding", "chunked"]], true],
])("a request with %s has a body, or none", (_what, fields, has) => {
  expect(hasBody(requestOf({ fields: [HOST, ...fields] }))).toBe(has);
});

describe("a Host", () => {
  test.each([
    "gateway",
    "gateway:8080",
    "gateway:",
    "GATEWAY.example.",
    "my_service",
    "xn--bcher-kva.example:443",
    "%62ooks.example",
    "127.0.0.1",
    "127.0.0.1:8080",
    "[::1]",
    "[::1]:8080",
    "[2001:db8::ffff:192.0.2.1]",
  ])("%s is one", (host) => {
    expect(framingProblem(requestOf({ fields: [["Host", host]] }))).toBeUndefined();
  });

  test.each([
    "",
    " ",
    ":8080",
    "user@gateway",
    "user:password@gateway:8080",
    "gateway/path",
    "gateway?x",
    "gateway#x",
    "gateway\\path",
    "http://gateway",
    "gateway, elsewhere",
    "gateway,elsewhere",
    "gateway elsewhere",
    "gateway:80:80",
    "gateway:http",
    "gateway:-1",
    "::1",
    "[::1",
    "::1]",
    "[]",
    "[gateway]",
    "[::1]x",
    "[fe80::1%25eth0]",
    "[127.0.0.1]",
    "%zz",
    "b\u00fccher.example",
    '"gateway"',
    "gateway\t",
  ])("%j is none", (host) => {
    expect(framingProblem(requestOf({ fields: [["Host", host]] }))).toMatchObject({ status: 400 });
  });
});
