import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import { type GatewayUnderTest, startGateway } from "../../support/gateway.ts";
import { SampleRegistry } from "../../support/sample-registry.ts";
import { DSO } from "../../support/sample.ts";

const PAGE = "/registry/metadata/v1/instruments";

/** What the gateway looks into, each with what makes it look closer. */
const FIELDS: readonly (readonly [name: string, ...beginnings: string[]])[] = [
  ["Accept", ""],
  ["Accept-Encoding", "", 'gzip, "'],
  ["Accept-Language", "", 'de;q=0.5, "'],
  ["Access-Control-Request-Headers", ""],
  ["Access-Control-Request-Method", ""],
  ["Authorization", "", "Basic ", "Bearer ", "Bearer eyJhbGciOiJFUzI1NiJ9.", "Digest "],
  ["Baggage", ""],
  ["Cache-Control", "", 'max-age="', "max-age="],
  ["Connection", "close, "],
  ["Content-Length", "1"],
  ["Content-Type", "", "application/json; charset=", 'application/json; a="'],
  ["Cookie", ""],
  ["Expect", ""],
  ["Forwarded", "", "for=", 'for="'],
  ["Host", "", "["],
  ["If-Match", "", '"'],
  ["If-Modified-Since", "", "Mon, "],
  ["If-None-Match", "", 'W/"', '"'],
  ["Origin", "", "https://"],
  ["Range", "bytes="],
  ["TE", ""],
  ["Traceparent", "", "00-"],
  ["Tracestate", ""],
  ["Transfer-Encoding", "", "chunked, "],
  ["Via", ""],
  ["X-API-Key", "", "rgk_"],
  ["X-Forwarded-For", "", "1.2.3.4, "],
  ["X-Instrument-Admin", "", "DSO::"],
  ["X-Request-Id", ""],
];

/** What is repeated to fill a head. */
const UNITS = [
  "a",
  "1",
  " ",
  "\t",
  ",",
  ";",
  "=",
  ".",
  "-",
  "/",
  "%",
  '"',
  '\\"',
  "a,",
  "a, ",
  " ,",
  "a=",
  "a;",
  "a.",
  "aa.",
  "a.aa.",
  "a b ",
  "%25",
  "%2525",
  "%41",
  "::",
  "[",
  "(",
  "rgk_",
  "eyJ",
  'W/"a",',
  'a="b",',
  "for=a;",
  "1.1.1.1, ",
  "a;q=0.1,",
];

const LENGTH = 15_000;
/** Milliseconds; most heads take one. What grows with the square of the length takes longer. */
const LONGEST = 50;

let registry: SampleRegistry;
let gateway: GatewayUnderTest;

beforeAll(async () => {
  registry = new SampleRegistry({ admin: DSO, clock: systemClock(), instruments: 60 });
  await registry.start();
  gateway = await startGateway({
    listen: { host: "127.0.0.1", port: 0, trustedProxies: ["127.0.0.0/8"] },
    upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }],
    cors: { origins: ["https://wallet.example"] },
    clients: { anonymous: "anonymous", tiers: { anonymous: { requests: 1_000_000, per: "1m" } } },
    cache: { honorClient: true, forwardRequestHeaders: ["accept-language", "x-custom"] },
  });
});

afterAll(async () => {
  await gateway.stop();
  await registry.stop();
});

/** Milliseconds until a head is answered, or its connection closed. */
function timeOf(head: string): Promise<number> {
  return new Promise((resolve) => {
    const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1");
    let startedAt = 0;
    const done = (): void => {
      socket.destroy();
      resolve(performance.now() - startedAt);
    };
    socket.on("error", () => undefined).once("close", done);
    socket.once("data", done);
    socket.once("connect", () => {
      startedAt = performance.now();
      socket.write(head, "latin1");
    });
  });
}

/** The least of several times: a busy machine makes any single one long. */
async function leastTimeOf(head: string): Promise<number> {
  let least = Infinity;
  for (let i = 0; i < 20 && least > LONGEST; i += 1) least = Math.min(least, await timeOf(head));
  return least;
}

const fill = (begin: string, unit: string) => begin + unit.repeat(Math.ceil((LENGTH - begin.length) / unit.length));

const headsOfFields = FIELDS.flatMap(([name, ...beginnings]) =>
  beginnings.flatMap((begin) =>
    UNITS.map((unit) => {
      const host = name === "Host" ? "" : "Host: g\r\n";
      return [
        `${name}: ${begin}${unit}…`,
        `GET ${PAGE} HTTP/1.1\r\n${host}${name}: ${fill(begin, unit)}\r\n\r\n`,
      ] as const;
    }),
  ),
);

const headsOfUrls = [
  "/",
  "/registry/",
  `${PAGE}/`,
  `${PAGE}?`,
  `${PAGE}?pageToken=`,
  `/registry/%252541`,
  `${PAGE}?a=%25`,
].flatMap((begin) =>
  UNITS.filter((unit) => !/\s/.test(unit)).map((unit) => {
    return [`${begin}${unit}…`, `GET ${fill(begin, unit)} HTTP/1.1\r\nHost: g\r\n\r\n`] as const;
  }),
);

test.each([
  ["fields", headsOfFields],
  ["URLs", headsOfUrls],
])("no head of 15 kB holds the others up: %s", async (_what, heads) => {
  for (let i = 0; i < 50; i += 1) await timeOf(`GET ${PAGE} HTTP/1.1\r\nHost: g\r\n\r\n`);
  const slow: string[] = [];
  for (const [what, head] of heads) {
    const time = await leastTimeOf(head);
    if (time > LONGEST) slow.push(`${what} takes ${time.toFixed(0)} ms`);
  }
  console.log(`${heads.length} heads`);
  expect(slow).toEqual([]);
});
