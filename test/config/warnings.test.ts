import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { parseConfig } from "../../src/config/parse.ts";
import { isLoopback } from "../../src/config/urls.ts";
import { warnings } from "../../src/config/warnings.ts";

const A = "upstreams: [{ name: a, urls: ['https://a.example'] }]\n";

function warn(text: string): string[] {
  const { config, problems } = parseConfig({ text, file: "gateway.yaml", env: {} });
  expect(problems).toEqual([]);
  return warnings(config!);
}

test.each<[about: string, text: string, begin: string[]]>([
  ["a plain configuration", A, []],
  ["operations beyond loopback", `operations: { host: 0.0.0.0 }\n${A}`, ["operations.host 0.0.0.0 can be reached"]],
  ["operations beyond loopback with a token", `operations: { host: 0.0.0.0, token: t }\n${A}`, []],
  ["operations on another loopback address", `operations: { host: 127.1.2.3 }\n${A}`, []],
  [
    "credentials",
    "upstreams: [{ name: a, urls: ['https://a.example'], auth: { bearerToken: hunter2 } }]",
    ["upstreams[a].auth: every client"],
  ],
  [
    "credentials of a disabled upstream",
    "upstreams: [{ name: b, urls: ['https://b.example'] }, { name: a, enabled: false, urls: ['https://a.example'], auth: { bearerToken: t } }]",
    [],
  ],
  [
    "a plain base URL of an upstream that is not enabled",
    "routing: { plain: a }\nupstreams: [{ name: b, urls: ['https://b.example'] }, { name: a, enabled: false, urls: ['https://a.example'] }]",
    ["routing.plain: the upstream a is not enabled"],
  ],
  [
    "credentials over http:// beyond loopback",
    "upstreams: [{ name: a, urls: ['https://a.example', 'http://b.example'], auth: { bearerToken: hunter2 } }]",
    ["upstreams[a].urls: its credentials can be read on the way", "upstreams[a].auth: every client"],
  ],
  [
    "two limits behind one host",
    "upstreams: [{ name: a, urls: ['https://h.example/a', 'https://h.example/a2'], rateLimit: {} }, { name: b, urls: ['https://h.example/b'], rateLimit: {} }, { name: c, urls: ['https://c.example', 'https://h.example'], rateLimit: {} }]",
    ["upstreams[a].rateLimit: b is behind the same host and counts its calls by itself"],
  ],
  [
    "one limit for what is behind one host",
    "upstreams: [{ name: a, urls: ['https://h.example/a'], rateLimit: { group: h } }, { name: b, urls: ['https://h.example/b'], rateLimit: { group: h } }]",
    [],
  ],
  [
    "credentials over http:// on loopback",
    "upstreams: [{ name: a, urls: ['http://127.0.0.1:1', 'http://[::1]:1', 'http://localhost'], auth: { bearerToken: t } }]",
    ["upstreams[a].auth: every client"],
  ],
  [
    "clients' credentials over http:// beyond loopback",
    "upstreams: [{ name: a, urls: ['http://10.0.0.1'], forwardAuthorization: true }]",
    ["upstreams[a].urls: the clients' Authorization can be read on the way"],
  ],
  [
    "a token endpoint over http:// beyond loopback",
    "upstreams: [{ name: a, urls: ['https://a.example'], auth: { oauth2: { tokenUrl: 'http://l.example/token', clientId: i, clientSecret: hunter2 } } }]",
    ["upstreams[a].auth.oauth2.tokenUrl: the client secret can be read on the way", "upstreams[a].auth: every client"],
  ],
  [
    "all headers forwarded",
    `cache: { forwardRequestHeaders: "*" }\n${A}`,
    ['upstreams[a].cache.forwardRequestHeaders "*": answers differ'],
  ],
])("%s has the warnings it should", (_about, text, begin) => {
  const list = warn(text);
  expect(list.map((warning, index) => warning.slice(0, begin[index]?.length))).toEqual(begin);
  expect(list.join("")).not.toContain("hunter2");
});

test("a file with a secret that every user of the machine may read is warned of", () => {
  const folder = mkdtempSync(join(tmpdir(), "gateway-warnings-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = (name: string, mode: number) => {
    const path = join(folder, name);
    writeFileSync(path, "hunter2", { mode });
    chmodSync(path, mode);
    return path;
  };
  const [open, shut] = [file("open", 0o644), file("shut", 0o640)];
  const list = warn(`
operations: { tokenFile: ${open} }
upstreams:
  - { name: a, urls: ['https://a.example'], auth: { bearerTokenFile: ${open} } }
  - { name: b, urls: ['https://b.example'], auth: { bearerTokenFile: ${shut} } }
`);
  expect(list.filter((warning) => warning.includes("every user of this machine"))).toEqual([
    expect.stringMatching(/^operations.tokenFile: /),
    expect.stringMatching(/^upstreams\[a\].auth.bearerTokenFile: /),
  ]);
});

test.each([
  ["127.0.0.1", true],
  ["::1", true],
  ["localhost", true],
  ["0.0.0.0", false],
  ["::", false],
  ["127.example", false],
  ["10.0.0.1", false],
])("%s is loopback: %s", (host, expected) => expect(isLoopback(host)).toBe(expected));
