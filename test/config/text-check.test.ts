import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { checkText } from "../../src/config/text-check.ts";
import { testConfig } from "../support/gateway.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";

const folder = useTemporaryFolder();

const CURRENT = testConfig({
  operations: { host: "127.0.0.1", port: 9090, token: "the-token-in-use" },
  redis: { url: "redis://user:password@redis.example:6379" },
  clients: { tiers: { gold: { requests: 100, per: "1m", burst: 40 } } },
  upstreams: [
    { name: "amulet", admin: "DSO::1220aa", urls: ["https://a.example"], timeout: "10s" },
    { name: "usd", admin: "usd::1220bb", urls: ["https://b.example"], auth: { bearerToken: "secret-in-use" } },
  ],
});

const LISTENERS = "listen: {host: 127.0.0.1, port: 0}\noperations: {host: 127.0.0.1, port: 9090, token: x}\n";
const REST = `redis: {url: "redis://user:password@redis.example:6379"}
clients: {tiers: {gold: {requests: 100, per: 1m, burst: 40}}}
upstreams:
  - {name: amulet, admin: "DSO::1220aa", urls: ["https://a.example"], timeout: 10s}
  - {name: usd, admin: "usd::1220bb", urls: ["https://b.example"], auth: {bearerToken: secret-in-use}}
`;

function pathsOf(text: string): string[] {
  const { problems, changes } = checkText(text, CURRENT);
  expect(problems).toEqual([]);
  return changes.map(({ path }) => path);
}

describe("a text of a configuration", () => {
  test("that says what is in use changes nothing", () => {
    expect(checkText(LISTENERS + REST, CURRENT)).toMatchObject({ good: true, problems: [], changes: [] });
  });

  test("is told every problem with its line, and what it would change", () => {
    const bad = checkText("upstreams:\n  - name: amulet\n    urls: []\n    timeot: 5s\nworkers: many\n", CURRENT);
    expect(bad).toMatchObject({ good: false, changes: [] });
    expect(bad.problems.map(({ line, path }) => [line, path])).toEqual([
      [3, "upstreams[0].urls"],
      [4, "upstreams[0].timeot"],
      [5, "workers"],
    ]);
    const { changes } = checkText(LISTENERS + REST.replace("10s", "11s") + "workers: 2\n", CURRENT);
    expect(changes).toEqual([
      { path: "workers", before: "1", after: "2", effect: "restart" },
      { path: "upstreams[amulet].timeout", before: "10s", after: "11s", effect: "reload" },
    ]);
  });

  test("says nothing about the environment, and of what comes from it only that it was not looked at", () => {
    const text = `${LISTENERS}workers: "\${WORKERS}"
redis: {url: "\${HOME:-redis://x}"}
cache: {ttl: {info: "\${TTL}"}}
limits: {uri: "\${PATH}"}
clients: {tiers: {gold: {requests: "\${GOLD}", per: 1m}}}
upstreams:
  - {name: amulet, admin: "\${ADMIN}", urls: ["\${URL}", "https://a.example"], timeout: 10s}
  - {name: usd, admin: "usd::1220bb", urls: ["https://b.example"], auth: {bearerToken: "\${TOKEN}"}}
`;
    const { good, problems, warnings, changes, notLookedAt } = checkText(text, CURRENT);
    expect([good, problems, warnings, changes]).toEqual([true, [], [], []]);
    const left = notLookedAt.filter(({ because }) => because === "environment").map(({ path }) => path);
    expect(left.toSorted()).toEqual(
      [
        "workers",
        "redis.url",
        "cache.ttl.info",
        "limits.uri",
        "clients.tiers.gold.requests",
        "upstreams[amulet].admin",
        "upstreams[amulet].urls[0]",
        "upstreams[usd].auth.bearerToken",
      ].toSorted(),
    );
    expect(JSON.stringify(checkText(text, CURRENT))).not.toContain(process.env["PATH"]);
  });

  test("whose upstream takes its name from the environment is compared no further", () => {
    const text = LISTENERS + REST.replace("name: amulet", 'name: "${NAME}"').replace("10s", "12s");
    expect(pathsOf(text)).toEqual([]);
  });

  test("is told what is wrong with a reference itself", () => {
    const { problems } = checkText(`${LISTENERS}${REST}workers: "\${9}"\ndocs: "\${"\n`, CURRENT);
    expect(problems.map(({ path }) => path)).toEqual(["workers", "docs"]);
  });

  test("is told the same of a file that is there, is not there, or cannot be read", () => {
    const keys = (file: string) =>
      `${LISTENERS}${REST.replace("{bearerToken: secret-in-use}", `{bearerTokenFile: ${file}}`)}`;
    const text = (file: string) =>
      keys(file)
        .replace("operations: {", `operations: {tokenFile: ${file}, `)
        .replace("token: x", "readonly: true")
        .replace(
          "listen: {",
          `listen: {tls: {certFile: ${file}, keyFile: ${file}, clientCaFile: ${file}, clientAuth: request}, `,
        )
        .replace(
          "clients: {",
          `clients: {keysFile: ${file}, jwt: [{issuer: "https://i.example", jwksFile: ${file}, audience: a, tier: gold}], `,
        )
        .replace("redis: {", `redis: {tls: {caFile: ${file}}, `)
        .replace("timeout: 10s", `timeout: 10s, tls: {caFile: ${file}, certFile: ${file}, keyFile: ${file}}`);
    writeFileSync(join(folder(), "good"), "a-secret");
    writeFileSync(join(folder(), "bad"), "two\nlines\u0000");
    writeFileSync(join(folder(), "empty"), "");
    mkdirSync(join(folder(), "directory"));
    const answers = ["good", "bad", "empty", "directory", "absent"].map((name) => {
      const path = join(folder(), name);
      return JSON.stringify(checkText(text(path), CURRENT)).replaceAll(path, "FILE");
    });
    expect(answers[0]).toContain('"good":true');
    expect(new Set(answers).size).toBe(1);
    const { notLookedAt } = checkText(text("/etc/passwd"), CURRENT);
    expect(notLookedAt.filter(({ because }) => because === "file").length).toBeGreaterThanOrEqual(11);
    // Relative to a folder that a text does not have.
    const relative = checkText(keys("token"), CURRENT).changes.map(({ path }) => path);
    expect(relative).toEqual(["upstreams[usd].auth.bearerToken"]);
    const absolute = checkText(keys("/run/token"), CURRENT).changes;
    expect(absolute).toContainEqual(expect.objectContaining({ after: "/run/token" }));
  });

  test("does not find out a secret by guessing it", () => {
    const guess = (token: string, password: string, url: string) =>
      JSON.stringify(
        checkText(
          (LISTENERS + REST)
            .replace("token: x", `token: ${token}`)
            .replace("secret-in-use", password)
            .replace("user:password", url),
          CURRENT,
        ),
      );
    const right = guess("the-token-in-use", "secret-in-use", "user:password");
    for (const wrong of [
      guess("another", "secret-in-use", "user:password"),
      guess("the-token-in-use", "another", "user:password"),
      guess("the-token-in-use", "secret-in-use", "user:another"),
    ]) {
      expect(wrong).toBe(right);
    }
    expect(right).not.toMatch(/in-use|password/);
    const { notLookedAt } = checkText(LISTENERS + REST, CURRENT);
    const secrets = notLookedAt.filter(({ because }) => because === "secret").map(({ path }) => path);
    expect(secrets.toSorted()).toEqual(["operations.token", "redis.url", "upstreams[usd].auth.bearerToken"]);
  });
});
