import { connect } from "node:net";
import { afterAll, expect, onTestFinished, test } from "vitest";
import type { AuditAnswer, PurgeAnswer, ReplicasAnswer, StatusAnswer } from "../../../src/operations/answers.ts";
import { GatewayProcess } from "../../support/gateway-process.ts";
import { startRedis } from "../../support/redis.ts";
import { until } from "../../support/until.ts";
import { useSampleRegistries } from "../../support/sample-registries.ts";
import { DSO } from "../../support/sample.ts";

const startRegistry = useSampleRegistries();
const closing: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

const INFO = "/registry/metadata/v1/info";

async function read<Answer>(gateway: GatewayProcess, path: string): Promise<Answer> {
  return (await (await fetch(`${gateway.operations}/${path}`)).json()) as Answer;
}

async function purge(gateway: GatewayProcess): Promise<PurgeAnswer> {
  const headers = { "content-type": "application/json" };
  return (await (
    await fetch(`${gateway.operations}/purge`, { method: "POST", headers, body: "{}" })
  ).json()) as PurgeAnswer;
}

const names = (all: readonly { readonly name: string }[]) => all.map(({ name }) => name);

// It served what it had in memory: its clients' requests were read before the message of the purge, or before Redis was.
test("a purge names the replica that is frozen, which takes it before it serves anything again", async () => {
  const registry = await startRegistry();
  const redis = await startRedis();
  closing.push(() => redis.stop());
  const keys = { redis: { url: redis.url }, upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }] };
  const [a, b] = await Promise.all([GatewayProcess.start(keys), GatewayProcess.start(keys)]);
  closing.push(
    () => a.stop(),
    () => b.stop(),
  );
  const [nameOfA, nameOfB] = await Promise.all(
    [a, b].map(async (each) => (await read<StatusAnswer>(each, "status")).replica.name),
  );
  await until(async () => {
    const reports = await Promise.all([a, b].map((each) => read<ReplicasAnswer>(each, "replicas")));
    return reports.every(
      ({ replicas, differences }) =>
        replicas.length === 2 && replicas.every(({ load }) => load !== null) && differences.length === 0,
    );
  });
  const { replicas } = await read<ReplicasAnswer>(b, "replicas");
  expect(names(replicas)).toEqual([nameOfB, nameOfA]);
  expect(replicas.map(({ isSelf }) => isSelf)).toEqual([true, false]);
  expect(replicas[1]!.load!.residentBytes).toBeGreaterThan(1_000_000);

  const fill = async () => {
    for (const each of [a, b]) {
      await until(async () => /; ?hit/.test((await fetch(`${each.url}${INFO}`)).headers.get("cache-status") ?? ""));
    }
  };
  await fill();
  await until(async () => {
    const { scope, replicas: reached } = await purge(a);
    return scope === "fleet" && reached.of === 2 && reached.missing.length === 0;
  });
  await fill();

  // On a connection that is open: its request is the first that the replica reads when it goes on.
  const client = connect(Number(new URL(b.url).port), "127.0.0.1");
  onTestFinished(() => void client.destroy());
  const answers: string[] = [];
  client.on("data", (chunk: Buffer) => void answers.push(chunk.toString("latin1")));
  const ask = () => client.write(`GET ${INFO} HTTP/1.1\r\nHost: gateway\r\n\r\n`);
  const heads = () => answers.join("").match(/^cache-status: .*$/gim) ?? [];
  ask();
  await until(() => heads().length === 1);
  expect(heads()[0]).toMatch(/; ?hit/);
  b.signal("SIGSTOP");
  const stoppedAt = performance.now();
  onTestFinished(() => b.signal("SIGCONT"));
  ask();
  const { scope, replicas: reached } = await purge(a);
  expect(scope).toBe("fleet");
  expect(reached).toMatchObject({ of: 2 });
  expect(names(reached.took)).toEqual([nameOfA]);
  expect(reached.missing).toMatchObject([{ name: nameOfB, version: expect.stringMatching(/^\d+\.\d+\.\d+/) }]);

  const [noted] = (await read<AuditAnswer>(a, "audit")).actions;
  expect(noted).toMatchObject({ did: "purge", scope: "fleet", replicas: reached });

  const calls = registry.calls.count("info");
  await until(() => performance.now() - stoppedAt > 1_500);
  b.signal("SIGCONT");
  await until(() => heads().length === 2);
  expect(heads()[1]).toContain("fwd=");
  expect(registry.calls.count("info") - calls).toBeGreaterThan(0);
  await until(async () => (await purge(a)).replicas.missing.length === 0);
});
