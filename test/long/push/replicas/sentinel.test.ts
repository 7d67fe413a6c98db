import { expect, it } from "vitest";
import { startSentinel } from "../../../support/redis-groups.ts";
import { callAll, expectAway, startReplica, WITH } from "../../../support/sharing.ts";
import { until } from "../../../support/until.ts";

const passwords = { server: "of the server", sentinel: "of the sentinel" };

it("the master that sentinels name is used, and after its death the one that they promote", async () => {
  const { name, nodes, master, replica: promoted } = await startSentinel(passwords);
  const config = { password: passwords.server, sentinel: { name, nodes, password: passwords.sentinel } };
  const [first, second] = [startReplica(config), startReplica(config)];
  await Promise.all([first.whenUp(), second.whenUp()]);
  expect(await callAll(first)).toMatchObject(WITH);
  await first.purges.purge("a");
  await until(() => second.purges.epochOf("a") === first.purges.epochOf("a"));
  await until(async () => (await promoted.client.hget("rg:1:epochs", "a")) === String(first.purges.epochOf("a")));
  await master.kill();
  await expectAway(first, "Redis");
  await Promise.all([first.whenUp(), second.whenUp()]);
  expect((await promoted.client.info("replication")).includes("role:master")).toBe(true);
  expect(await callAll(first)).toMatchObject(WITH);
  await until(() => second.purges.epochOf("p") === first.purges.epochOf("p") && second.purges.epochOf("p") > 0);
});

it.each([
  { what: "the sentinel's password is wrong", sentinel: { password: "wrong" }, cause: "(WRONGPASS)" },
  { what: "the sentinels know no such master", sentinel: { name: "other" }, cause: "no master of this name" },
  {
    what: "no sentinel is there",
    sentinel: { nodes: ["127.0.0.1:1"] },
    cause: "has a sentinel that cannot be reached",
  },
])("Redis is away, with the cause, where $what", async ({ sentinel, cause }) => {
  const { name, nodes } = await startSentinel(passwords);
  const good = { name, nodes, password: passwords.sentinel };
  const replica = startReplica({ password: passwords.server, sentinel: { ...good, ...sentinel } });
  await expectAway(replica, cause);
});
