import { expect, it } from "vitest";
import { startSentinel } from "../../../support/redis-groups.ts";
import { callAll, expectAway, startReplica } from "../../../support/sharing.ts";
import { until } from "../../../support/until.ts";

const passwords = { server: "of the server", sentinel: "of the sentinel" };

it("the master that sentinels name is used, and after its death the one that they promote", async () => {
  const { name, nodes, master, replica: promoted } = await startSentinel(passwords);
  const config = { password: passwords.server, sentinel: { name, nodes, password: passwords.sentinel } };
  const [first, second] = [startReplica(config), startReplica(config)];
  await Promise.all([first.whenUp(), second.whenUp()]);
  await until(async () => usesRedis(await callAll(first)));
  await first.purges.purge("a");
  const purged = first.purges.epochOf("a");
  await until(() => second.purges.epochOf("a") === purged);
  await until(async () => (await promoted.client.hget("rg:1:epochs", "a")) === String(purged));
  await master.kill();
  // When they promote is the sentinels' affair, and they cut the first connections once more: no moment is looked for.
  const took: number[] = [];
  await until(async () => {
    const answers = await callAll(first);
    took.push(answers.took);
    return usesRedis(answers);
  });
  expect(took.length).toBeGreaterThan(1);
  expect(took.toSorted((a, b) => a - b)[Math.floor(took.length / 2)]).toBeLessThan(100);
  expect(first.lines).toContainEqual(expect.stringMatching(/^Redis .+; the gateway goes on without it$/));
  expect(await promoted.client.info("replication")).toContain("role:master");
  const third = startReplica(config);
  await until(() => third.purges.epochOf("a") === purged);
  await until(async () => usesRedis(await callAll(second)));
  await until(() => [first, third].every((each) => each.purges.epochOf("p") >= second.purges.epochOf("p")));
});

function usesRedis(answers: Awaited<ReturnType<typeof callAll>>): boolean {
  return typeof answers.lease === "object" && answers.purge === "done";
}

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
