import { beforeAll, describe, expect, test } from "vitest";
import { ACCEPT, ADMIN_HEADER, DRAFT, FACTORY, INFO, LIST, PREFIX } from "../support/endpoints.ts";
import { type Registry, startRegistry } from "../support/registry.ts";
import { sendRaw } from "../support/raw.ts";
import { LONGEST_HOLD, LONGEST_HOLD_PER_MIB, Victim } from "./victim.ts";

/** What one client can send. */

/** As much as `limits.requestBody` allows. */
const MOST = 2 ** 20 - 300;

let plain: Registry;
let victim: Victim;

beforeAll(async () => {
  plain = await startRegistry("plain");
  victim = await Victim.start({ listen: { trustedProxies: ["127.0.0.1/32"] }, upstreams: [plain] });
});

const fit = (text: string, most = MOST): string => text.repeat(Math.floor(most / text.length));
const many = (count: number, text: (at: number) => string): string =>
  Array.from({ length: count }, (_none, at) => text(at)).join();

/** What `choiceArguments` holds besides; a key that is escaped has each object looked at by hand. */
const ESCAPED = '"\\u0061":1';
const COSTLY: Record<string, string> = {
  "arrays within arrays": `{"x":${"[".repeat(MOST / 2)}${"]".repeat(MOST / 2)}}`,
  "objects within objects": `${fit('{"a":', (5 * MOST) / 6)}1${"}".repeat(Math.floor(MOST / 6))}`,
  keys: `{${ESCAPED},${many(80_000, (at) => `"k${at}":1`)}}`,
  "keys beside the admin": `{"expectedAdmin":null,"transfer":{"instrumentId":{${ESCAPED},${many(80_000, (at) => `"k${at}":1`)}}}}`,
  "empty keys": `{${ESCAPED},${fit('"":1,')}"b":1}`,
  "escaped keys": `{${fit('"\\u0061":1,')}"b":1}`,
  "the admin's key as a text": `{"x":[${fit('"admin",')}1]}`,
  backslashes: `{"\\u0061":"${fit("\\\\")}"}`,
  "escaped quotes": `{"\\u0061":"${fit('\\"')}"}`,
  spaces: `${fit(" ")}{${ESCAPED}}`,
  "small objects": `{${ESCAPED},"x":[${fit("{},")}1]}`,
  "arrays that never end": `{"x":${fit("[")}`,
};

describe("costly JSON of a client, a MiB of it, holds nobody for long:", () => {
  const cases = Object.entries(COSTLY).map(([name, member], at) => ({ name, member, other: [ACCEPT, DRAFT][at % 2]! }));
  test.each(cases)("$name", async ({ member, other }) => {
    for (const path of [FACTORY, other])
      await victim.expectHolds(LONGEST_HOLD_PER_MIB, async () => {
        expect(await victim.ask(`${PREFIX}/plain${path}`, `{"choiceArguments":${member}}`)).toMatch(
          /^(200|400 malformed_body)$/,
        );
      });
  });
});

/** All that Node takes as a head, but for the rest of the request. */
const LONG = 15_000;
const HEADS: Record<string, string> = {
  "X-Request-Id": `X-Request-Id: ${fit("a/", LONG)}`,
  "If-None-Match of tags": `If-None-Match: ${fit('"a",', LONG)}`,
  "If-None-Match of quotes": `If-None-Match: ${fit('"', LONG)}x`,
  "If-None-Match of weak signs": `If-None-Match: ${fit("W/", LONG)}`,
  "If-Modified-Since": `If-Modified-Since: ${fit("F", LONG)}`,
  "Accept-Encoding of codings": `Accept-Encoding: ${fit("gzip;q=0,", LONG)}`,
  "Accept-Encoding of spaces": `Accept-Encoding: gzip${fit(" ", LONG)};q=x`,
  "a token of dots": `Authorization: Bearer ${fit(".", LONG)}`,
  "a token of payload": `Authorization: Bearer a.${fit("W1tb", LONG)}.b`,
  "a key that is none": `X-API-Key: rgk_${fit("a", LONG)}`,
  keys: `Authorization: Bearer ${fit("rgk_", LONG)}`,
  "Content-Type of spaces": `Content-Type: application/json${fit(" ", LONG)}x`,
  "Content-Type of parameters": `Content-Type: application/json${fit(";a=b", LONG)}`,
  traceparent: `Traceparent: 00-${fit("0", LONG)}`,
  tracestate: `Tracestate: ${fit("a=b,", LONG)}`,
  "X-Forwarded-For": `X-Forwarded-For: ${fit("127.0.0.1,", LONG)}`,
  "X-Forwarded-For of colons": `X-Forwarded-For: ${fit(":", LONG)}`,
  "Request-Timeout": `Request-Timeout: ${fit("1", LONG)}`,
  Origin: `Origin: ${fit("http://", LONG)}`,
  "the admin": `${ADMIN_HEADER}: ${fit("a::", LONG)}`,
  Expect: `Expect: ${fit("100-continue,", LONG)}`,
  "Transfer-Encoding": `Transfer-Encoding: ${fit("chunked,", LONG)}`,
  Connection: `Connection: ${fit("a,", LONG)}`,
  Upgrade: `Connection: upgrade\r\nUpgrade: ${fit("h2c,", LONG)}`,
  "thousands of fields": fit("a:b\r\n", LONG).trimEnd(),
};
const TARGETS: Record<string, string> = {
  slashes: fit("/", LONG),
  registries: fit("/registry", LONG),
  segments: fit("/a", LONG),
  climbing: `/registry/${fit("..%2f", LONG)}`,
  "parameters of segments": `/registry/${fit("..;/", LONG)}`,
  "percent signs": `${PREFIX}/plain${LIST}/${fit("%25", LONG)}`,
  "percent signs, once more": `${PREFIX}/plain${LIST}/${fit("%2525", LONG)}`,
  "an id": `${PREFIX}/plain${LIST}/${fit("%C3%BC", LONG)}`,
  "an admin": `${PREFIX}/${fit("a%3A%3A", LONG)}${INFO}`,
  parameters: `${PREFIX}/plain${LIST}?${fit("a&", LONG)}`,
  tokens: `${PREFIX}/plain${LIST}?${fit("pageToken=a&", LONG)}`,
  "a token of plus signs": `${PREFIX}/plain${LIST}?pageToken=${fit("+", LONG)}`,
  "a token": `${LIST}?pageToken=${fit("W1tb", LONG)}`,
  "a size": `${PREFIX}/plain${LIST}?pageSize=${fit("1", LONG)}`,
  "a search": `/catalog/v1/instruments?query=${fit("%C3%9F", LONG)}`,
  "an absolute URL": `http://${fit("a.", LONG)}/`,
  "a colon": fit("/:a", LONG),
};

describe("a head of 15 kB holds nobody for long:", () => {
  const REQUESTS = [
    ...Object.entries(HEADS).flatMap(([name, field]) => [
      [name, `GET ${PREFIX}/plain${INFO} HTTP/1.1\r\nHost: a\r\n${field}\r\n`],
      [
        `${name}, with a body`,
        `POST ${PREFIX}/plain${ACCEPT} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n${field}\r\n`,
      ],
    ]),
    ...Object.entries(TARGETS).map(([name, target]) => [name, `GET ${target} HTTP/1.1\r\nHost: a\r\n`]),
    ["a host", `GET / HTTP/1.1\r\nHost: ${fit("a.", LONG)}\r\n`],
    ["a method", `${fit("A", LONG)} / HTTP/1.1\r\nHost: a\r\n`],
  ] as [string, string][];

  test.each(REQUESTS)("%s", async (_name, head) => {
    const { site, operations } = victim.process;
    const text = `${head}Connection: close\r\n\r\n${head.startsWith("POST") ? "{}" : ""}`;
    await victim.expectHolds(LONGEST_HOLD, async () => {
      for (const { url } of [site, operations]) {
        const { statuses } = await sendRaw(url, text);
        expect(statuses.at(-1)).toBeGreaterThanOrEqual(200);
        expect(statuses.at(-1)).not.toBe(500);
      }
    });
  });
});
