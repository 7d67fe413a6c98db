import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { AuditAnswer } from "../../src/operations/answers.ts";
import { useGateways } from "../support/gateways.ts";
import { findFreePort } from "../support/ports.ts";
import { type RedisServer, startRedis } from "../support/redis.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { DSO } from "../support/sample.ts";
import { errorOf, send } from "../support/send.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";
import { until } from "../support/until.ts";

const startRegistry = useSampleRegistries();
const startGateway = useGateways();
const folder = useTemporaryFolder();

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

let redis: RedisServer;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());

interface Replica {
  readonly operations: string;
  stop(): Promise<void>;
}

/** Each test has a prefix of its own at the one Redis. */
async function startReplica(prefix: string, keys: object = {}, redisKeys: object = {}): Promise<Replica> {
  const registry = await startRegistry();
  const names = ["alice", "bob"];
  for (const name of names) writeFileSync(join(folder(), name), `token-of-${name}-0123456789\n`);
  const gateway = await startGateway({
    redis: { url: redis.url, keyPrefix: prefix, ...redisKeys },
    operations: {
      host: "127.0.0.1",
      port: 0,
      tokens: names.map((name) => ({ name, tokenFile: join(folder(), name), readonly: name === "bob" })),
    },
    upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }],
    ...keys,
  });
  return { operations: gateway.operations, stop: () => gateway.stop() };
}

const as = (name: string) => ({ authorization: `Bearer token-of-${name}-0123456789` });

function purge({ operations }: Replica, body: object = {}, name = "alice") {
  return send(operations, { path: "/purge", body: JSON.stringify(body), headers: as(name) });
}

async function audit({ operations }: Replica, query = ""): Promise<AuditAnswer> {
  const answer = await send(operations, { path: `/audit${query}`, headers: as("bob") });
  expect([answer.status, answer.text]).toEqual([200, answer.text]);
  return JSON.parse(answer.text) as AuditAnswer;
}

/** Writes what an operator did so long ago, as a replica does. */
async function past(prefix: string, ago: number, changes: object = {}): Promise<string> {
  const time = Date.now() - ago;
  const id = `${time}-0000${randomBytes(4).toString("hex")}`;
  const action = { did: "purge", by: "carol (operations token)", from: "loopback", what: { upstream: "amulet" } };
  const entry = { id, at: new Date(time).toISOString(), ...action, replica: "old", scope: "fleet", replicas: null };
  await redis.client.zadd(`${prefix}2:audit`, 0, `${id} ${JSON.stringify({ ...entry, ...changes })}`);
  return id;
}

describe("the audit of replicas at one Redis", () => {
  test("has what was done through each, by whom, and is there after all of them ended", async () => {
    const [a, b] = [await startReplica("a:"), await startReplica("a:")];
    expect((await purge(a)).status).toBe(200);
    expect((await purge(b, { upstream: "amulet" })).status).toBe(200);
    expect((await purge(b, {}, "bob")).status).toBe(403);
    const shown = [
      { did: "purge", by: "alice (operations token)", what: { upstream: "amulet" }, scope: "fleet" },
      { did: "purge", by: "alice (operations token)", what: {}, scope: "fleet", replicas: { of: 2 } },
    ];
    for (const each of [a, b]) {
      await until(async () => (await audit(each)).actions.every(({ replicas }) => replicas !== null));
      expect(await audit(each)).toMatchObject({ actions: shown, next: null, isShared: true, unreadable: 0 });
    }
    await a.stop();
    await b.stop();
    expect(await audit(await startReplica("a:"))).toMatchObject({ actions: shown, next: null, isShared: true });
  });

  test("is read page by page, each action once, and from a time on", async () => {
    const ids: string[] = [];
    for (let i = 0; i < 25; i += 1) ids.push(await past("p:", i * DAY + MINUTE));
    const replica = await startReplica("p:");
    await purge(replica);
    const read: string[] = [];
    let before: string | null = null;
    do {
      const page: AuditAnswer = await audit(replica, `?limit=7${before === null ? "" : `&before=${before}`}`);
      expect(page.actions.length).toBeLessThanOrEqual(7);
      read.push(...page.actions.map(({ id }) => id));
      before = page.next;
    } while (before !== null);
    expect(read.slice(1)).toEqual(ids);
    const week = await audit(replica, `?before=${new Date(Date.now() - 7 * DAY).toISOString()}`);
    expect(week.actions.map(({ id }) => id)).toEqual(ids.slice(7));
  });

  test("forgets what is older than a month, and what else stands in its place", async () => {
    const young = await past("m:", 30 * DAY);
    await past("m:", 32 * DAY);
    await redis.client.zadd("m:2:audit", 5, "junk", "-inf", "other");
    const replica = await startReplica("m:");
    await purge(replica);
    await until(async () => (await redis.client.zcard("m:2:audit")) === 2);
    expect((await audit(replica)).actions.slice(1)).toMatchObject([{ id: young }]);
    await redis.client.set("m:2:audit", "no set");
    expect((await audit(replica)).actions).toHaveLength(1);
    await purge(replica);
    await until(async () => (await redis.client.type("m:2:audit")) === "zset");
    expect((await audit(replica)).actions).toHaveLength(2);
  });

  test("keeps at most twenty thousand", async () => {
    const time = Date.now() - DAY;
    const members = Array.from({ length: 20_010 }, (_, i) => ["0", `${time + i}-000000000000 {}`]).flat();
    await redis.client.zadd("b:2:audit", ...members);
    const replica = await startReplica("b:");
    await purge(replica);
    await until(async () => (await redis.client.zcard("b:2:audit")) === 20_000);
    expect((await audit(replica, "?limit=1")).actions).toMatchObject([{ did: "purge" }]);
  });

  test("shows nothing that another party wrote in another form, and says how much", async () => {
    await past("f:", MINUTE, { did: "rm -rf" });
    await past("f:", 2 * MINUTE, { replicas: { took: [null] } });
    await past("f:", 3 * MINUTE, { what: { text: "x".repeat(40_000) } });
    await redis.client.zadd("f:2:audit", 0, `${Date.now() - 4 * MINUTE}-000000000000 {`);
    const good = await past("f:", 5 * MINUTE);
    const replica = await startReplica("f:");
    expect(await audit(replica)).toMatchObject({ actions: [{ id: good }], unreadable: 4 });
    // A page of nothing readable leads on to the next.
    const first = await audit(replica, "?limit=3");
    expect(first).toMatchObject({ actions: [], unreadable: 3 });
    expect((await audit(replica, `?limit=3&before=${first.next}`)).actions).toMatchObject([{ id: good }]);
  });

  test("is sealed with the replicas' key: what is not, or was moved, is not shown", async () => {
    const key = join(folder(), "seal");
    writeFileSync(key, `${randomBytes(32).toString("base64")}\n`);
    const replica = await startReplica("s:", {}, { sealKeyFile: key });
    await purge(replica);
    await until(async () => (await redis.client.zcard("s:2:audit!")) === 1);
    const [member] = await redis.client.zrange("s:2:audit!", "0", "0");
    await redis.client.zadd("s:2:audit!", 0, `${Date.now()}-00ffabcdef00${member!.slice(member!.indexOf(" "))}`);
    await redis.client.zadd("s:2:audit!", 0, `${Date.now()}-00ffabcdef01 {"by":"mallory"}`);
    expect(await audit(replica)).toMatchObject({ actions: [{ did: "purge" }], unreadable: 2 });
  });
});

test("what was done while Redis was away is shown at once, and kept once it is there", async () => {
  const server = await startRedis();
  try {
    const replica = await startReplica("w:", { redis: { url: server.url, keyPrefix: "w:" } });
    await until(async () => (await purge(replica)).status === 200);
    await server.kill();
    await until(async () => (await purge(replica, { upstream: "amulet" })).status === 503);
    const away = await audit(replica);
    expect(away).toMatchObject({ isShared: false, actions: [{ what: { upstream: "amulet" }, scope: "pending" }, {}] });
    const { id } = away.actions[0]!;
    await server.start();
    await until(async () => (await audit(replica)).actions.find((each) => each.id === id)?.scope === "fleet");
    await replica.stop();
    const after = await audit(await startReplica("w:", { redis: { url: server.url, keyPrefix: "w:" } }));
    expect(after.actions.find((each) => each.id === id)).toMatchObject({
      scope: "fleet",
      by: expect.stringMatching(/^alice/),
    });
  } finally {
    await server.stop();
  }
});

test("what is no page of the audit is refused", async () => {
  const replica = await startReplica("r:", { redis: { url: `redis://127.0.0.1:${await findFreePort()}` } });
  for (const query of [
    "?limit=0",
    "?limit=501",
    "?limit=1&limit=2",
    "?limit=ten",
    "?before=",
    "?before=now",
    "?before=1",
    "?before=2026-13-45T00:00:00Z",
    "?before=%2B",
    "?since=1",
  ]) {
    const answer = await send(replica.operations, { path: `/audit${query}`, headers: as("bob") });
    expect([query, answer.status, errorOf(answer)]).toEqual([query, 400, expect.stringMatching(/^registry-gateway: /)]);
  }
});
