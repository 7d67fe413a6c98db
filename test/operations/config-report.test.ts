import { writeFileSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";
import type { ConfigReport } from "../../src/operations/config-report.ts";
import { startGateway } from "../support/gateway.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";

const folder = useTemporaryFolder();

async function configOf(operations: string, headers: Record<string, string> = {}): Promise<ConfigReport> {
  const answer = await fetch(`${operations}/config`, { headers });
  expect([answer.status, answer.headers.get("content-type")]).toEqual([
    200,
    expect.stringMatching(/^application\/json/),
  ]);
  return (await answer.json()) as ConfigReport;
}

test("what is in use is shown without secrets, with what is there by default", async () => {
  const secret = `${folder()}/secret`;
  writeFileSync(secret, "secret-of-file\n");
  const gateway = await startGateway({
    operations: { host: "127.0.0.1", port: 0, token: "secret-of-operations" },
    redis: { url: "redis://user:secret-of-url@127.0.0.1:1" },
    cache: { ttl: { info: "600s", instruments: "10s" } },
    upstreams: [
      { name: "amulet", urls: ["http://127.0.0.1:1"], auth: { bearerToken: "secret-of-amulet" }, timeout: "15s" },
      {
        name: "bonds",
        urls: ["http://127.0.0.1:1"],
        auth: { bearerTokenFile: secret },
        cache: { ttl: { info: "1s" } },
      },
    ],
  });
  onTestFinished(() => gateway.stop());
  const headers = { authorization: "Bearer secret-of-operations" };
  const report = await configOf(gateway.operations, headers);
  expect(JSON.stringify(report)).not.toContain("secret-of");
  expect(report.lastReload).toBeNull();
  expect(report.config).toMatchObject({
    operations: { token: "***", readonly: false },
    cache: { ttl: { info: "10m", instruments: "10s" } },
    upstreams: [
      { name: "amulet", auth: { bearerToken: "***" } },
      { name: "bonds", cache: { ttl: { info: "1s" } } },
    ],
  });
  const { defaults } = report;
  for (const key of [
    "operations.readonly",
    "listen.maxConnections",
    "redis.keyPrefix",
    // However it is written.
    "cache.ttl.info",
    "upstreams[amulet].timeout",
    "upstreams[amulet].cache.ttl.info",
    "upstreams[bonds].cache.ttl.instruments",
    "upstreams[bonds].hedge.enabled",
  ]) {
    expect(defaults).toContain(key);
  }
  for (const key of [
    "operations.token",
    "operations.port",
    "cache.ttl.instruments",
    "upstreams[amulet].name",
    "upstreams[amulet].urls",
    "upstreams[bonds].cache.ttl.info",
  ]) {
    expect(defaults).not.toContain(key);
  }
});
