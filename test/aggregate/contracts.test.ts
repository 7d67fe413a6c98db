import { afterEach, expect, test } from "vitest";
import { ContractAdmins } from "../../src/aggregate/contracts.ts";
import { closeAll, replicaOn, replicasOfOne } from "../support/redis-scene.ts";
import { until } from "../support/until.ts";

afterEach(closeAll);

// One replica that had learned the wrong registry alone sent contracts there, and taught it the others anew.
test("a contract that two registries answered for is refused by every replica, whichever of them learned what", async () => {
  const { server, replicas } = await replicasOfOne(2);
  const [one, other] = replicas.map(({ coordinator }) => new ContractAdmins(coordinator.facts));
  await one!.learn("00aa", "Eager::1220");
  await until(async () => (await other!.recall("00aa")) !== undefined);
  expect(await other!.recall("00aa")).toEqual({ admin: "Eager::1220" });
  await other!.learn("00aa", "Right::1220");
  await until(async () => (await one!.recall("00aa")) === "several");
  await one!.learn("00aa", "Eager::1220");
  const { coordinator } = await replicaOn({ url: server.url });
  const fresh = new ContractAdmins(coordinator.facts);
  await until(async () => (await fresh.recall("00aa")) !== undefined);
  for (const each of [one!, other!, fresh]) expect(await each.recall("00aa")).toBe("several");
});
