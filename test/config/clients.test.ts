import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { diffConfig } from "../../src/config/diff.ts";
import { parseConfig } from "../../src/config/parse.ts";
import { printConfig } from "../../src/config/print.ts";
import type { Config } from "../../src/config/schema.ts";
import { warnings } from "../../src/config/warnings.ts";
import { tlsFolder } from "../support/redis.ts";

const folder = mkdtempSync(join(tmpdir(), "gateway-clients-"));
afterAll(() => rmSync(folder, { recursive: true }));
const PUBLIC = { kty: "OKP", crv: "Ed25519", x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" };
for (const [name, text] of [
  ["jwks.json", JSON.stringify({ keys: [PUBLIC] })],
  ["none.json", '{"keys": []}'],
  ["list.json", "[]"],
  ["not.json", "keys"],
  ["private.json", JSON.stringify({ keys: [{ ...PUBLIC, d: "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A" }] })],
  ["shared.json", JSON.stringify({ keys: [{ kty: "oct", k: "c2VjcmV0" }] })],
] as const) {
  writeFileSync(join(folder, name), text);
}

const UPSTREAMS =
  "upstreams: [{ name: amulet, urls: ['https://a.example'] }, { name: usdx, urls: ['https://b.example'] }]";

function read(text: string) {
  return parseConfig({ text: `${text}\n${UPSTREAMS}\n`, file: join(folder, "gateway.yaml"), env: {} });
}

function parse(text: string): Config {
  const { config, problems } = read(text);
  expect(problems).toEqual([]);
  return config!;
}

function problemsOf(text: string): string[] {
  return read(text).problems.map(({ path, message }) => `${path}: ${message}`);
}

const ANONYMOUS = {
  requests: 600,
  per: 60_000,
  burst: { requests: 150, per: 5_000 },
  posts: { requests: 60, per: 60_000 },
  concurrency: 16,
  upstreams: ["*"],
  enforce: true,
};

test("clients without keys have the documented defaults, the tier anonymous included", () => {
  expect(parse("clients: {}").clients).toStrictEqual({
    anonymous: "anonymous",
    jwt: [],
    tiers: { anonymous: ANONYMOUS },
  });
  expect(parse("").clients).toBeUndefined();
  expect(parse("clients: off").clients).toBeUndefined();
});

test("a tier has the limits that are written and no others", () => {
  const { clients } = parse(`
clients:
  jwt: [{ issuer: "https://login.example", jwksFile: jwks.json, audience: gateway }]
  tiers:
    wallet: { requests: 600, per: 10s, posts: { requests: 50 }, upstreams: [amulet] }
    free:
    slow: { concurrency: 1, posts: { requests: 2, per: 1h }, enforce: false }
    constructor: { requests: 7, burst: { requests: 3 } }
`);
  // Not strictly: that compares what `constructor` is.
  expect(clients).toEqual({
    anonymous: "anonymous",
    jwt: [
      {
        issuer: "https://login.example",
        jwksFile: join(folder, "jwks.json"),
        audience: "gateway",
        algorithms: ["RS256", "ES256", "EdDSA"],
        clientClaim: "sub",
        tierClaim: "tier",
        clockTolerance: 30_000,
      },
    ],
    tiers: {
      anonymous: ANONYMOUS,
      wallet: {
        requests: 600,
        per: 10_000,
        posts: { requests: 50, per: 60_000 },
        upstreams: ["amulet"],
        enforce: true,
      },
      free: { per: 60_000, upstreams: ["*"], enforce: true },
      slow: { per: 60_000, concurrency: 1, posts: { requests: 2, per: 3_600_000 }, upstreams: ["*"], enforce: false },
      constructor: { requests: 7, per: 60_000, burst: { requests: 3, per: 1_000 }, upstreams: ["*"], enforce: true },
    },
  });
});

test("a tier anonymous that is written is what is written", () => {
  expect(parse("clients: { tiers: { anonymous: {} } }").clients!.tiers).toStrictEqual({
    anonymous: { per: 60_000, upstreams: ["*"], enforce: true },
  });
});

test("what is printed is read as the same again", () => {
  const config = parse(`
listen: { trustedProxies: ["10.0.0.0/8", "::1"] }
clients:
  anonymous: false
  jwt: [{ issuer: i, jwksUrl: "https://login.example/keys", audience: gateway, tier: wallet }]
  tiers: { wallet: { requests: 5, burst: { requests: 3, per: 5s }, posts: { requests: 2 } } }
`);
  const { config: again } = parseConfig({ text: printConfig(config), file: "gateway.yaml", env: {} });
  expect(again).toStrictEqual(config);
  expect(config.clients!.tiers).toStrictEqual({
    wallet: {
      requests: 5,
      per: 60_000,
      burst: { requests: 3, per: 5_000 },
      posts: { requests: 2, per: 60_000 },
      upstreams: ["*"],
      enforce: true,
    },
  });
});

test("a changed tier takes effect at the next reload, a changed list of trusted proxies at the next start", () => {
  const before = parse("clients: { tiers: { wallet: { requests: 5 }, old: {} } }");
  const after = parse("clients: { tiers: { wallet: { requests: 6 } } }\nlisten: { trustedProxies: [10.0.0.1] }");
  expect(diffConfig(before, after)).toEqual([
    { path: "listen.trustedProxies", before: "", after: "10.0.0.1", effect: "restart" },
    { path: "clients.tiers.wallet.requests", before: "5", after: "6", effect: "reload" },
    { path: "clients.tiers.old.per", before: "1m", after: undefined, effect: "reload" },
    { path: "clients.tiers.old.upstreams", before: "*", after: undefined, effect: "reload" },
    { path: "clients.tiers.old.enforce", before: "true", after: undefined, effect: "reload" },
  ]);
});

const JWT = 'issuer: i, audience: a, jwksUrl: "https://login.example"';
const KNOWN = "RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA";
const HS =
  "signs with a secret: with an issuer's public keys as that secret, everybody could sign. Take an algorithm with a key pair, such as ES256";

test.each<[text: string, problem: string]>([
  [
    "clients: { anonymous: walet, tiers: { wallet: {} } }",
    'clients.anonymous: "walet" is no tier: clients.tiers has wallet; did you mean "wallet"?',
  ],
  ["clients: { anonymous: off }", 'clients.anonymous: "off" is no tier: clients.tiers has none'],
  ["clients: { anonymous: true }", "clients.anonymous: must be the name of a tier, or false, not true"],
  [`clients: { jwt: [{ ${JWT}, tier: gold }] }`, 'clients.jwt[0].tier: "gold" is no tier: clients.tiers has anonymous'],
  [
    "routing: { adminHeader: X-API-Key }\nclients: {}",
    "routing.adminHeader: x-api-key holds the credential of a client: take another header",
  ],
  [
    "clients: { anonymous: false }",
    "clients: no client could call: give keysFile, jwt or certificates, or a tier as anonymous",
  ],
  [
    "clients: { anonymous: false, jwt: [] }",
    "clients: no client could call: give keysFile, jwt or certificates, or a tier as anonymous",
  ],
  [
    "clients: { tiers: { a.b: {} } }",
    "clients.tiers.a.b: the name must be 1 to 64 letters, digits, dashes or underscores, beginning with a letter or digit",
  ],
  [
    "clients: { tiers: { __proto__: {} } }",
    "clients.tiers.__proto__: the name must be 1 to 64 letters, digits, dashes or underscores, beginning with a letter or digit",
  ],
  ["clients: { tiers: { a: {}, a: {} } }", "clients.tiers.a: is given twice, first on line 1"],
  ["clients: { tiers: [] }", "clients.tiers: must be a group of keys"],
  ["clients: { tiers: { a: { request: 5 } } }", 'clients.tiers.a.request: unknown key; did you mean "requests"?'],
  [
    "clients: { tiers: { a: { burst: 5 } } }",
    "clients.tiers.a.burst: must be a window such as { requests: 150, per: 5s }",
  ],
  [
    "clients: { tiers: { a: { posts: { requests: 5, burst: 2 } } } }",
    "clients.tiers.a.posts.burst: is gone: posts has one window, requests in any per; leave the key out",
  ],
  ["clients: { tiers: { a: { per: 5s } } }", "clients.tiers.a.per: needs requests"],
  [
    "clients: { tiers: { a: { requests: 0 } } }",
    "clients.tiers.a.requests: must be a whole number from 1 to 100000000, not 0",
  ],
  ["clients: { tiers: { a: { requests: 1, per: 0s } } }", "clients.tiers.a.per: must be at least 1ms"],
  [
    "clients: { tiers: { a: { posts: {} } } }",
    "clients.tiers.a.posts.requests: is missing: it must be a whole number from 1 to 100000000",
  ],
  [
    "clients: { tiers: { a: { upstreams: [amulett] } } }",
    'clients.tiers.a.upstreams[0]: "amulett" is the name of no upstream; did you mean "amulet"?',
  ],
  [
    "clients: { tiers: { a: { upstreams: [amulet, '*'] } } }",
    'clients.tiers.a.upstreams[1]: "*" stands alone: it means all upstreams',
  ],
  ["clients: { tiers: { a: { upstreams: [] } } }", "clients.tiers.a.upstreams: is empty: give at least one"],
  [
    `clients: { jwt: [{ ${JWT}, algorithms: [none] }] }`,
    'clients.jwt[0].algorithms[0]: "none" takes tokens without a signature, which everybody can write',
  ],
  [`clients: { jwt: [{ ${JWT}, algorithms: [HS256] }] }`, `clients.jwt[0].algorithms[0]: "HS256" ${HS}`],
  [
    `clients: { jwt: [{ ${JWT}, algorithms: [ES25] }] }`,
    `clients.jwt[0].algorithms[0]: "ES25" is no signature algorithm that is known here: take ${KNOWN}; did you mean "ES256"?`,
  ],
  [`clients: { jwt: [{ ${JWT}, algorithms: [] }] }`, "clients.jwt[0].algorithms: is empty: give at least one"],
  [
    `clients: { jwt: [{ ${JWT} }, { ${JWT} }] }`,
    "clients.jwt[1].issuer: the same issuer is given at clients.jwt[0].issuer",
  ],
  ["clients: { jwt: [{ issuer: i, audience: a }] }", "clients.jwt[0]: exactly one of jwksUrl, jwksFile must be given"],
  [
    `clients: { jwt: [{ ${JWT}, jwksFile: jwks.json }] }`,
    "clients.jwt[0].jwksFile: exactly one of jwksUrl, jwksFile must be given",
  ],
  [
    "clients: { jwt: [{ issuer: i, audience: a, jwksUrl: 'http://login.example' }] }",
    "clients.jwt[0].jwksUrl: must begin with https://: without TLS, others could put their own keys in place of the issuer's",
  ],
  [
    "clients: { jwt: [{ issuer: i, audience: a, jwksUrl: 'http://127.0.0.1.nip.example' }] }",
    "clients.jwt[0].jwksUrl: must begin with https://: without TLS, others could put their own keys in place of the issuer's",
  ],
  [
    "clients: { jwt: [{ issuer: i, jwksUrl: 'https://login.example' }] }",
    "clients.jwt[0].audience: is missing: it must be text",
  ],
  ...[
    ["none.json", "holds no key"],
    ["list.json", 'is no JSON Web Key Set: {"keys": […]}'],
    ["not.json", "is not JSON"],
    ["private.json", "holds a private or secret key: only public ones belong here"],
    ["shared.json", "holds a private or secret key: only public ones belong here"],
  ].map(([file, fault]): [string, string] => [
    `clients: { jwt: [{ issuer: i, audience: a, jwksFile: ${file} }] }`,
    `clients.jwt[0].jwksFile: ${join(folder, file!)} ${fault}`,
  ]),
  ["clients: { keysFile: nowhere.yaml }", `clients.keysFile: there is no file ${join(folder, "nowhere.yaml")}`],
  [
    "clients: { certificates: { tier: anonymous } }",
    "clients.certificates: needs listen.tls with clientAuth request or require, and clientCaFile",
  ],
  [
    "listen: { trustedProxies: [10.0.0.0/33] }",
    'listen.trustedProxies[0]: "10.0.0.0/33" has a prefix length that is not from 0 to 32',
  ],
  [
    "listen: { trustedProxies: ['::1/129'] }",
    'listen.trustedProxies[0]: "::1/129" has a prefix length that is not from 0 to 128',
  ],
  [
    "listen: { trustedProxies: [10.0.0.0/08] }",
    'listen.trustedProxies[0]: "10.0.0.0/08" has a prefix length that is not from 0 to 32',
  ],
  [
    "listen: { trustedProxies: [proxy.example] }",
    'listen.trustedProxies[0]: "proxy.example" is not an address or a range such as 10.0.0.0/8 or fd00::/8',
  ],
  [
    "listen: { trustedProxies: ['fe80::1%eth0'] }",
    'listen.trustedProxies[0]: "fe80::1%eth0" is not an address or a range such as 10.0.0.0/8 or fd00::/8',
  ],
])("%s is refused", (text, problem) => {
  expect(problemsOf(text)).toEqual([problem]);
});

test("the keys of an issuer may come without TLS from this machine", () => {
  for (const host of ["127.0.0.1:9000", "localhost", "[::1]:9000"]) {
    parse(`clients: { jwt: [{ issuer: i, audience: a, jwksUrl: "http://${host}/keys" }] }`);
  }
});

test("TLS to clients takes the key of its certificate, and authorities where clients are asked for one", () => {
  const tls = tlsFolder;
  const files = (key: string) => `certFile: ${tls}/server.pem, keyFile: ${tls}/${key}`;
  expect(parse(`listen: { tls: { ${files("server-key.pem")} } }`).listen.tls).toStrictEqual({
    certFile: `${tls}/server.pem`,
    keyFile: `${tls}/server-key.pem`,
    clientAuth: "none",
  });
  const certificates = "clients: { certificates: { tier: anonymous } }";
  const { listen } = parse(
    `listen: { tls: { ${files("server-key.pem")}, clientAuth: request, clientCaFile: ${tls}/ca.pem } }\n${certificates}`,
  );
  expect(listen.tls!.clientAuth).toBe("request");
  expect(problemsOf(`listen: { tls: { ${files("client-key.pem")} } }`)).toEqual([
    `listen.tls.keyFile: ${tls}/client-key.pem is not the key of the certificate`,
  ]);
  expect(problemsOf(`listen: { tls: { ${files("server-key.pem")}, clientAuth: require } }`)).toEqual([
    "listen.tls.clientAuth: needs clientCaFile: the authorities whose certificates are trusted",
  ]);
  expect(problemsOf(`listen: { tls: { ${files("server-key.pem")} } }\n${certificates}`)).toEqual([
    "clients.certificates: needs listen.tls with clientAuth request or require, and clientCaFile",
  ]);
  expect(problemsOf(`listen: { tls: { ${files("server-key.pem")}, http2: true } }`)).toEqual([
    expect.stringMatching(/^listen\.tls\.http2: is gone: .* HTTP\/1\.1 alone.* put a proxy .* in front/),
  ]);
  expect(problemsOf(`listen: { tls: { certFile: ${tls}/server.pem } }`)).toEqual([
    "listen.tls.keyFile: is missing: it must be given",
  ]);
});

test("trusting every address is warned of", () => {
  const config = parse("listen: { trustedProxies: [0.0.0.0/0, 10.0.0.0/8, '::/0'] }");
  expect(warnings(config)).toEqual([
    "listen.trustedProxies 0.0.0.0/0: every client may say which address it has, and so be any other one",
    "listen.trustedProxies ::/0: every client may say which address it has, and so be any other one",
  ]);
});
