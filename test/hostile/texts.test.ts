import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { loadConfig } from "../../src/config/load.ts";
import { ConfigError } from "../../src/config/problem.ts";
import { LIST, PREFIX } from "../support/endpoints.ts";
import { temporaryFolder } from "../support/gateway.ts";
import { startRawServer } from "../support/raw.ts";
import { startRegistry } from "../support/registry.ts";
import { until } from "../support/until.ts";
import { LONGEST_HOLD, pour, slowness, Victim } from "./victim.ts";

/** Texts of a megabyte from everybody besides clients and registries: cut first, then looked at. */

const MIB = 2 ** 20;
const ISSUER = "https://issuer.example";

/** What the servers around the gateway answer, whatever they are asked. */
const said = { redis: "-ERR no\r\n", tokens: "", keys: "" };
let victim: Victim;
let asked = 0;
const ENDLESS = "https://endless.example";
let redisConnects = 0;

const http = (body: string, fields = "", status = "200 OK"): string =>
  `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\n${fields}Content-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`;

beforeAll(async () => {
  const redis = await startRawServer((socket) => {
    redisConnects += 1;
    socket.on("data", () => socket.write(said.redis, "latin1"));
  });
  const tokens = await startRawServer((socket) => socket.once("data", () => socket.end(said.tokens, "latin1")));
  const keys = await startRawServer((socket) =>
    socket.once("data", (request: Buffer) => {
      if (!request.includes("/endless")) return socket.end(said.keys, "latin1");
      socket.write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{");
      return pour(socket, " ".repeat(65_536));
    }),
  );
  const locked = await startRegistry("locked");
  const oauth2 = { tokenUrl: `${tokens}/token`, clientId: "gateway", clientSecret: "a-secret-of-some-length" };
  victim = await Victim.start({
    redis: { url: redis.replace("http", "redis") },
    clients: {
      jwt: [ISSUER, ENDLESS].map((issuer) => ({
        issuer,
        jwksUrl: `${keys}/${issuer === ENDLESS ? "endless" : "keys"}`,
        audience: "gateway",
        tier: "anonymous",
      })),
      tiers: { anonymous: {} },
    },
    upstreams: [locked.upstream({ retries: 0, auth: { oauth2 } })],
  });
});

beforeEach(() => {
  Object.assign(said, { redis: "-ERR no\r\n", tokens: "", keys: "" });
});

test("a Redis that answers with a MiB of anything holds nobody for long", async () => {
  const texts = {
    "an error": `-ERR ${"a b(".repeat(MIB / 4)}\r\n`,
    "a place where a key has gone": `-MOVED ${"1".repeat(MIB)}\r\n`,
    "a text": `+${"y".repeat(MIB)}\r\n`,
    bytes: `$${MIB}\r\n${"x".repeat(MIB)}\r\n`,
    "a number": `:${"1".repeat(MIB)}\r\n`,
    "lists within lists": "*1\r\n".repeat(MIB / 4),
    "a list": `*100000\r\n${"$1\r\na\r\n".repeat(100_000)}`,
    "no line's end": "-".repeat(MIB),
  };
  await victim.expectHolds(LONGEST_HOLD, async () => {
    // One for each connect.
    for (const text of Object.values(texts)) {
      said.redis = text;
      const before = redisConnects;
      await until(() => redisConnects > before + 1);
    }
  });
  const told = victim.process.child.lines.filter(({ msg }) => String(msg).startsWith("Redis "));
  expect(told.length).toBeGreaterThan(0);
  for (const { msg } of told) expect(String(msg).length).toBeLessThan(400);
});

test.each([
  ["no JSON", http("x".repeat(MIB))],
  ["an error", http(`{"error":"${"x".repeat(60_000)}"}`, "", "400 Bad Request")],
  ["an error of a MiB", http(`{"error":"${"x".repeat(MIB)}"}`, "", "400 Bad Request")],
  ["a token", http(`{"access_token":"${"x".repeat(60_000)}","token_type":"bearer"}`)],
  ["a token that is deep", http(`{"access_token":${"[".repeat(30_000)}${"]".repeat(30_000)},"token_type":"b"}`)],
  ["a token of another type", http(`{"access_token":"x","token_type":"${"b".repeat(60_000)}"}`)],
  ["challenges", http("{}", `WWW-Authenticate: ${'Basic a="'.repeat(1_500)}\r\n`, "401 Unauthorized")],
  ["challenges of commas", http("{}", `WWW-Authenticate: ${"a ,".repeat(4_500)}\r\n`, "401 Unauthorized")],
])("a token endpoint that answers with that holds nobody for long: %s", async (_what, text) => {
  said.tokens = text;
  await victim.expectHolds(LONGEST_HOLD, async () => {
    asked += 1;
    expect(await victim.ask(`${PREFIX}/locked${LIST}?pageToken=t${asked}`)).toBe("502 upstream_credentials");
  });
});

const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");

test("an issuer whose keys are a MiB of anything holds nobody for long", async () => {
  const sets = {
    "no JSON": http("x".repeat(MIB)),
    deep: http(`{"keys":${"[".repeat(MIB / 2)}${"]".repeat(MIB / 2)}}`),
    "a long key": http(`{"keys":[{"kty":"RSA","n":"${"A".repeat(MIB)}","e":"AQAB"}]}`),
    "many keys": http(
      `{"keys":[${Array.from({ length: 15_000 }, (_none, at) => `{"kty":"RSA","kid":"k${at}","n":"AQAB","e":"AQAB"}`).join()}]}`,
    ),
  };
  for (const text of Object.values(sets)) {
    said.keys = text;
    await victim.expectHolds(LONGEST_HOLD, async () => {
      asked += 1;
      const token = [
        part({ alg: "RS256", kid: `k${asked}` }),
        part({ iss: ISSUER, aud: "gateway", sub: "a", exp: 9e9 }),
        "A".repeat(300),
      ];
      const { status } = await victim.process.site.get(`${PREFIX}/well${LIST}`, {
        authorization: `Bearer ${token.join(".")}`,
      });
      expect([401, 503]).toContain(status);
    });
    // A failure is remembered for a second.
    await pause(1_000);
  }
});

test("an issuer whose keys never end is left, and the gateway lives", async () => {
  const token = [
    part({ alg: "RS256", kid: "endless" }),
    part({ iss: ENDLESS, aud: "gateway", sub: "a", exp: 9e9 }),
    "A".repeat(300),
  ];
  const answer = await victim.process.site.get(`${PREFIX}/well${LIST}`, { authorization: `Bearer ${token.join(".")}` });
  expect(answer.outcome).toBe("503 client_keys_unavailable");
  expect(victim.process.child.isRunning).toBe(true);
});

/** So much of a file: its bound is a MiB, and what takes longer than in proportion shows here, too. */
const FILE = 64 * 1_024;
const UPSTREAM = "upstreams:\n  - name: a\n    urls: [http://127.0.0.1:1]\n";

describe("a file of the operator's costs no more than in proportion to its length:", () => {
  // A second a MiB is what the parser of YAML takes for the oddest; a quadratic expression takes minutes.
  const most = 600;
  const files: Record<string, string> = {
    "arrays within arrays": `x: ${"[".repeat(FILE)}`,
    "objects within objects": `x: ${"{a: ".repeat(FILE / 4)}`,
    "references that never close": `log: {level: "${"${".repeat(2 * FILE)}"}`,
    references: `log: {level: "${"${A}".repeat(FILE / 4)}"}`,
    dollars: `log: {level: "${"$".repeat(FILE)}"}`,
    "unknown keys": Array.from({ length: 4_000 }, (_none, at) => `listem${at}: 1`).join("\n"),
    "a long key": `"${"k".repeat(FILE)}": 1`,
    "a key many times": "log: {}\n".repeat(FILE / 8) + UPSTREAM,
    items: `upstreams: [${"a,".repeat(FILE / 2)}]`,
    aliases: `a: &a [x,x,x,x,x,x,x,x]\n${Array.from("bcdefgh", (name, at) => `${name}: &${name} [${`*${"abcdefg"[at]!},`.repeat(8)}]`).join("\n")}`,
    tags: `x: ${"!a ".repeat(FILE / 3)}`,
    dashes: "- ".repeat(FILE / 2),
    comments: "# x\n".repeat(FILE / 4) + UPSTREAM,
    "escaped quotes": `x: "${'\\"'.repeat(FILE / 2)}"`,
    "a duration": `${UPSTREAM}    timeout: "${"1".repeat(FILE)}s"`,
    "a URL": `upstreams:\n  - name: a\n    urls: ["http://${"a.".repeat(FILE / 2)}"]`,
    "an admin": `${UPSTREAM}    admin: "${"a ".repeat(FILE / 2)}"`,
    "a path": `${UPSTREAM}    basePaths: ["/${"a/".repeat(FILE / 2)}"]`,
    "a host": `operations: {hosts: ["${"a.".repeat(FILE / 2)}!"]}\n${UPSTREAM}`,
    "an address": `listen: {trustedProxies: ["${"1.".repeat(FILE / 2)}"]}\n${UPSTREAM}`,
  };
  const keys: Record<string, string> = {
    "one line": "x".repeat(MIB - 1),
    "lines that are no JSON": "x\n".repeat(MIB / 2 - 1),
    "unknown members": '{"nmae":1}\n'.repeat(90_000),
    "deep lines": `${"[".repeat(2_000)}\n`.repeat(500),
    "the same key": `${JSON.stringify({ name: "a", tier: "b", digest: "d".repeat(43) })}\n`.repeat(10_000),
  };

  test("a configuration", () => {
    const file = join(temporaryFolder(), "gateway.yaml");
    expectCheap(files, most, (text) => {
      writeFileSync(file, text);
      loadConfig({ file }, { A: "info" });
    });
  });

  test("a keys file", () => {
    const folder = temporaryFolder();
    const values = { clients: { keysFile: "keys.jsonl" }, upstreams: [{ name: "a", urls: ["http://127.0.0.1:1"] }] };
    expectCheap(keys, most, (text) => {
      writeFileSync(join(folder, "keys.jsonl"), text);
      loadConfig({ values, folder }, {});
    });
  });
});

/** Reads each text, one of three times within `most` ms of CPU. */
function expectCheap(texts: Readonly<Record<string, string>>, most: number, read: (text: string) => void): void {
  for (const [name, text] of Object.entries(texts)) {
    let least = Infinity;
    for (let round = 0; round < 3 && least > most; round += 1) {
      const before = process.threadCpuUsage();
      try {
        read(text);
      } catch (error) {
        expect(error).toBeInstanceOf(ConfigError);
      }
      const { user, system } = process.threadCpuUsage(before);
      least = Math.min(least, (user + system) / 1_000 / (round === 0 ? 1 : slowness()));
    }
    expect(least, name).toBeLessThan(most);
  }
}
