import * as fc from "fast-check";
import { expect, test } from "vitest";
import { sendRaw } from "../support/raw-connection.ts";
import { send } from "../support/send.ts";
import { ADMINS, useThreeRegistries } from "../support/three-registries.ts";

const running = useThreeRegistries({ upstreamKeys: { timeout: "5s", attemptTimeout: "5s" } });

const BASE = "/api/token-standard/v0/registrars/amulet/registry";
const FACTORY_BODY = `{"choiceArguments":{"expectedAdmin":"${ADMINS.amulet}","transfer":{"instrumentId":{"admin":"${ADMINS.amulet}"}}}}`;

function post(path: string, body: string, fields = ""): string {
  const head = `POST ${path} HTTP/1.1\r\nHost: g\r\nConnection: close\r\nContent-Type: application/json\r\n${fields}`;
  return `${head}Content-Length: ${body.length}\r\n\r\n${body}`;
}

const GOOD: readonly string[] = [
  `GET ${BASE}/metadata/v1/info HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n`,
  `GET ${BASE}/metadata/v1/instruments?pageSize=3&pageToken=x HTTP/1.1\r\nHost: g\r\nConnection: close\r\nAccept: */*\r\n\r\n`,
  `GET ${BASE}/drafts/v1/a%20b?x=1 HTTP/1.1\r\nHost: g\r\nConnection: close\r\nTraceparent: 00-ab-cd-01\r\n\r\n`,
  post(`${BASE}/allocations/v1/00ab/choice-contexts/cancel`, '{"meta":{"a":"b"}}', "X-Request-Id: a-1\r\n"),
  post(`${BASE}/transfer-instruction/v1/transfer-factory`, FACTORY_BODY),
  post(`${BASE}/transfer-instruction/v2/transfer-factory`, FACTORY_BODY, `X-Instrument-Admin: ${ADMINS.amulet}\r\n`),
  `POST ${BASE}/drafts/v1/x HTTP/1.1\r\nHost: g\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n`,
];

type Mutation = (text: string, at: number) => string;

/** What goes wrong on the way or in a hostile head; `at` is somewhere in the text. */
const MUTATIONS: readonly Mutation[] = [
  (text, at) => text.slice(0, at) + text.slice(at + 1),
  (text, at) => text.slice(0, at) + text.slice(at, at + 5) + text.slice(at),
  (text, at) => `${text.slice(0, at)}\u0000${text.slice(at + 1)}`,
  (text, at) => `${text.slice(0, at)}\r\n${text.slice(at)}`,
  (text, at) => `${text.slice(0, at)}\u00ff${text.slice(at)}`,
  (text, at) => `${text.slice(0, at)}%${text.slice(at)}`,
  (text, at) => `${text.slice(0, at)}"${text.slice(at)}`,
  (text, at) => text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ 0x20) + text.slice(at + 1),
  // A line twice, and a line less.
  (text, at) => text.replace(lineAt(text, at), (line) => line + line),
  (text, at) => text.replace(lineAt(text, at), ""),
];

function lineAt(text: string, at: number): string {
  const start = text.lastIndexOf("\r\n", at);
  const end = text.indexOf("\r\n", at);
  return text.slice(start === -1 ? 0 : start + 2, end === -1 ? text.length : end + 2);
}

const mutated = fc
  .tuple(
    fc.constantFrom(...GOOD),
    fc.array(fc.tuple(fc.constantFrom(...MUTATIONS), fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })), {
      minLength: 1,
      maxLength: 3,
    }),
  )
  .map(([good, mutations]) =>
    mutations.reduce((text, [mutate, place]) => mutate(text, Math.floor(place * text.length)), good),
  );

const RUNS = 400;
const AT_A_TIME = 40;

test("a request with a few bytes wrong is answered, refused or dropped, and goes nowhere else", async () => {
  running().clearCalls();
  const requests = fc.sample(mutated, RUNS);
  for (let i = 0; i < requests.length; i += AT_A_TIME) {
    await Promise.all(
      requests.slice(i, i + AT_A_TIME).map(async (request) => {
        const { statuses, text } = await sendRaw(running().url, request, 150);
        // Our bugs are 500; whatever a client sends must not find one.
        expect([request, statuses.filter((status) => status >= 500)]).toEqual([request, []]);
        expect([request, /^x-powered-by|stack|node:internal/im.test(text)]).toEqual([request, false]);
      }),
    );
  }
  const { registries, url } = running();
  for (const call of registries.amulet.calls.recent) expect(call.url).toMatch(/^\/registry\//);
  expect([registries.bonds.calls.total, registries.funds.calls.total]).toEqual([0, 0]);
  expect((await send(url, { path: `${BASE}/metadata/v1/info` })).status).toBe(200);
});
