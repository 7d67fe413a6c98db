import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { keepUntilRestart } from "../../../src/gateway/restart-keys.ts";
import { load, temporaryFolder } from "../../support/gateway.ts";

const TLS = join(import.meta.dirname, "../../fixtures/tls");
const UPSTREAMS = [{ name: "a", urls: ["http://a.example"] }];

function kept(before: object, after: object) {
  const folder = temporaryFolder();
  writeFileSync(join(folder, "word"), "second");
  const [running, next] = [before, after].map((keys) =>
    load({ upstreams: UPSTREAMS, ...keys }, folder, { WORD: "first" }),
  );
  const { loaded, waiting } = keepUntilRestart(next!, running!);
  return { redis: loaded.config.redis, waiting };
}

describe("a password of Redis is taken, wherever it stands", () => {
  test.for<[string, (word: string) => object, (word: string) => object]>([
    ["its key", (password) => ({ url: "redis://r", password }), (password) => ({ password })],
    ["its URL", (word) => ({ url: `redis://user:${word}@r` }), (word) => ({ url: `redis://user:${word}@r` })],
    [
      "a cluster's URL",
      (word) => ({ cluster: [`redis://:${word}@r`] }),
      (word) => ({ cluster: [`redis://:${word}@r`] }),
    ],
    [
      "the sentinels'",
      (password) => ({ sentinel: { name: "m", nodes: ["r:1"], password } }),
      (password) => ({ sentinel: { name: "m", nodes: ["r:1"], password } }),
    ],
  ])("%s", ([, keys, expected]) => {
    const { redis, waiting } = kept({ redis: keys("${WORD}") }, { redis: keys("${file:word}") });
    expect([waiting, redis]).toEqual([[], expect.objectContaining(expected("second"))]);
  });
});

test.for<[string, object | undefined, object | undefined]>([
  ["another server", { url: "redis://r" }, { url: "redis://s" }],
  ["another user", { url: "redis://u:p@r" }, { url: "redis://v:q@s" }],
  ["another prefix", { url: "redis://r" }, { url: "redis://r", keyPrefix: "x" }],
  ["none any more", { url: "redis://r" }, undefined],
  ["one at last", undefined, { url: "redis://r" }],
])("%s waits for the next start", ([, before, after]) => {
  const { redis, waiting } = kept({ redis: before }, { redis: after });
  expect([waiting, redis]).toEqual([["redis"], before && expect.objectContaining(before)]);
});

test("another certificate for Redis waits, and is said to", () => {
  const folder = temporaryFolder();
  const loadWith = (name: string) => {
    copyFileSync(join(TLS, name), join(folder, "ca.pem"));
    return load({ upstreams: UPSTREAMS, redis: { url: "rediss://r", tls: { caFile: "ca.pem" } } }, folder);
  };
  const [running, same, next] = [loadWith("ca.pem"), loadWith("ca.pem"), loadWith("other-ca.pem")];
  expect(keepUntilRestart(same, running).waiting).toEqual([]);
  expect(keepUntilRestart(next, running).waiting).toEqual(["redis"]);
});
