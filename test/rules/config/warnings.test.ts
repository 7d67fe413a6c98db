import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { loadConfig } from "../../../src/config/load.ts";
import { temporaryFolder } from "../../support/gateway.ts";

const folder = resolve(import.meta.dirname, "../../fixtures/tls");
const A = { name: "a", admin: "x::1", urls: ["https://a.example"] };
const CLEAR = { ...A, urls: ["http://a.example"] };
const OAUTH = { tokenUrl: "http://t.example", clientId: "c", clientSecret: "s" };
const KEYS = { anonymous: false, jwt: [{ issuer: "i", jwksUrl: "https://i.example", audience: "a" }] };
const ENDED = { certFile: "ended.pem", keyFile: "ended-key.pem" };
const RENEWED = { certFile: join(temporaryFolder(), "both.pem"), keyFile: "server-key.pem" };
writeFileSync(RENEWED.certFile, ["server.pem", "ended.pem"].map((name) => readFileSync(join(folder, name))).join("\n"));

/** Keys of a configuration, and what its warnings begin with. */
const WARNINGS: Record<string, [values: object, ...warnings: string[]]> = {
  "a configuration without anything odd": [{}],
  "an admin that is learned": [{ upstreams: [{ ...A, admin: undefined }] }, "admin of a is not set"],
  "an admin that is learned by an upstream that rests": [
    { upstreams: [A, { ...CLEAR, name: "b", admin: undefined, enabled: false }] },
  ],
  "credentials for everybody": [
    { upstreams: [{ ...A, auth: { bearer: "t" } }] },
    "auth of a: whoever reaches this gateway",
  ],
  "credentials for known clients": [{ clients: KEYS, upstreams: [{ ...A, auth: { bearer: "t" } }] }],
  "credentials in the clear": [
    { clients: KEYS, upstreams: [{ ...CLEAR, auth: { bearer: "t" } }] },
    "urls of a: credentials can be read on the way",
  ],
  "credentials in the clear, on this machine": [
    { clients: KEYS, upstreams: [{ ...A, urls: ["http://127.0.0.1:1", "http://[::1]:1"], auth: { bearer: "t" } }] },
  ],
  "the client's credentials in the clear": [
    { upstreams: [{ ...CLEAR, forwardAuthorization: "calls" }] },
    "urls of a: credentials can be read",
  ],
  "a client secret in the clear": [
    { clients: KEYS, upstreams: [{ ...A, auth: { oauth2: OAUTH } }] },
    "auth.oauth2.tokenUrl of a: credentials can be read",
  ],
  "operations beyond loopback without tokens": [
    { operations: { host: "0.0.0.0" } },
    "operations.host: beyond loopback, without operations.tokens, only probes",
  ],
  "operations beyond loopback with tokens": [
    { operations: { host: "::", tokens: [{ name: "o", token: "0123456789abcdef" }] } },
  ],
  "operations on another loopback": [{ operations: { host: "127.0.0.2" } }],
  "proxies anywhere": [
    { listen: { trustedProxies: ["10.0.0.0/8", "0.0.0.0/0"] } },
    "listen.trustedProxies 0.0.0.0/0: every client",
  ],
  "a plain upstream that rests": [
    { routing: { plain: "b" }, upstreams: [A, { ...A, name: "b", enabled: false }] },
    "routing.plain: b is not enabled",
  ],
  "a listener certificate that has ended": [
    { listen: { tls: ENDED } },
    "listen.tls.certFile: it ended on 2021-01-01T00:00:00.000Z, and takes the place of no other",
  ],
  "a good listener certificate before one that has ended": [{ listen: { tls: RENEWED } }],
  "a client certificate that has ended": [{ upstreams: [{ ...A, tls: ENDED }] }],
};

test.each(Object.entries(WARNINGS))("%s: as many warnings as it deserves", (_name, [values, ...expected]) => {
  const { warnings } = loadConfig({ values: { upstreams: [A], ...values }, folder }, {});
  expect(warnings.map((warning, i) => warning.slice(0, expected[i]?.length))).toEqual(expected);
});
