import { describe, expect, it } from "vitest";
import { startRedis } from "../../../support/redis.ts";
import { callAll, expectAway, startReplica, WITH, WITHOUT } from "../../../support/sharing.ts";
import { until } from "../../../support/until.ts";

describe("a Redis that", () => {
  it("is killed, and comes back empty, is done without, and filled again", async () => {
    const redis = await startRedis();
    const replicas = [startReplica({ url: redis.url }), startReplica({ url: redis.url })] as const;
    await Promise.all(replicas.map((each) => each.whenUp()));
    expect(await callAll(replicas[0])).toMatchObject(WITH);
    await until(() => replicas[0].replicas.count() === 2);
    const before = replicas[1].purges.epochOf("p");
    await redis.kill();
    await expectAway(replicas[0], "refuses the connection");
    expect(replicas[0].replicas.count()).toBe(2);
    expect(replicas[1].purges.epochOf("p")).toBe(before);
    // Purged while it is away: here at once, at the other as soon as both are back, before they read any entry.
    const purged = replicas[0].purges.epochOf("p");
    expect(purged).toBeGreaterThan(before);
    await redis.start();
    await replicas[0].whenUp();
    expect(replicas[0].purges.epochOf("p")).toBeGreaterThan(purged);
    await until(() => replicas[1].isUp() && replicas[1].purges.epochOf("p") === replicas[0].purges.epochOf("p"));
    expect(await callAll(replicas[0])).toMatchObject(WITH);
    expect(replicas[0].lines).toEqual([
      "Redis can be used",
      expect.stringMatching(/^Redis (cannot be reached|refuses|broke off).*; the gateway goes on without it$/),
      "Redis can be used",
    ]);
  });

  it("has lost its epochs gets them back from those who know them", async () => {
    const redis = await startRedis();
    const [first, second] = [startReplica({ url: redis.url }), startReplica({ url: redis.url })];
    await Promise.all([first.whenUp(), second.whenUp()]);
    await first.purges.purge("a");
    await first.purges.purge();
    const epochs = ["a", "b"].map((party) => first.purges.epochOf(party));
    await redis.client.flushall();
    const third = startReplica({ url: redis.url });
    await until(() => epochs.every((epoch, i) => third.purges.epochOf(["a", "b"][i]!) === epoch), 3_000);
    expect(["a", "b"].map((party) => second.purges.epochOf(party))).toEqual(epochs);
  });

  it("is frozen costs one wait of tens of milliseconds, and is used again when it goes on", async () => {
    const redis = await startRedis();
    const replica = startReplica({ url: redis.url });
    await replica.whenUp();
    redis.pause();
    const first = await callAll(replica);
    expect(first).toMatchObject(WITHOUT);
    expect(first.took).toBeLessThan(400);
    await expectAway(replica, "does not answer in time");
    redis.resume();
    await replica.whenUp();
    // A lease that it was asked for while it was frozen may last for 2 s.
    const again = await until(async () => {
      const answers = await callAll(replica);
      return answers.lease !== "held" && answers;
    });
    expect(again).toMatchObject(WITH);
  });

  it("is not there at the start is found later; a lone replica has its whole limit meanwhile", async () => {
    const redis = await startRedis();
    await redis.kill();
    const replica = startReplica({ url: redis.url });
    await expectAway(replica, "refuses the connection");
    const takes = await Promise.all(
      Array.from({ length: 12 }, () => replica.limiter.take("b", [{ requests: 10, per: 60_000 }])),
    );
    expect(takes.filter(({ granted }) => granted)).toHaveLength(10);
    await redis.start();
    await replica.whenUp();
  });

  it.each([
    { what: "is full", cause: "is full (OOM)", sets: { maxmemory: "1" }, back: { maxmemory: "0" } },
    { what: "turns read-only", cause: "(READONLY)", sets: { replicaof: "127.0.0.1 1" }, back: { replicaof: "no one" } },
    {
      what: "cannot save to its disk",
      cause: "(MISCONF)",
      sets: { dir: "/proc", save: "1 1", "stop-writes-on-bgsave-error": "yes" },
      back: { "stop-writes-on-bgsave-error": "no" },
    },
  ])("$what is away, by that name, until it takes writes again", async ({ cause, sets, back }) => {
    const redis = await startRedis({ settings: { "enable-protected-configs": "yes" } });
    const replica = startReplica({ url: redis.url });
    await replica.whenUp();
    const apply = async (settings: Record<string, string>): Promise<void> => {
      for (const [name, value] of Object.entries(settings)) {
        if (name === "replicaof") await redis.client.call("replicaof", ...value.split(" "));
        else await redis.client.config("SET", name, value);
        if (name === "save") await redis.client.bgsave().catch(() => {});
      }
    };
    await apply(sets);
    await expectAway(replica, cause);
    expect(replica.lines.filter((line) => line.includes(cause))).toHaveLength(1);
    await apply(back);
    await replica.whenUp();
  });

  it("does not let its user do what is needed is away, by that name", async () => {
    const redis = await startRedis();
    await redis.client.acl("SETUSER", "gateway", "on", ">secret", "~rg:*", "&rg:*", "+@all", "-zadd");
    const replica = startReplica({ url: redis.url, username: "gateway", password: "secret" });
    await expectAway(replica, "(NOPERM)");
    await redis.client.acl("SETUSER", "gateway", "+zadd");
    await replica.whenUp();
  });
});
