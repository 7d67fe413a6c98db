import { afterAll, expect, test } from "vitest";
import { clock } from "../support/redis-replicas.ts";
import { closeAll, redisServer, replicaOn } from "../support/redis-scene.ts";
import { until } from "../support/until.ts";

afterAll(closeAll);

// What an action reached is known a moment later: that was not written before the next record came.
test.each(["", ", and before the replica ends"])(
  "a record that changes while it is being written is written again%s",
  async (when) => {
    const server = await redisServer();
    const [replica, other] = [await replicaOn(server), await replicaOn(server)];
    const found = async () => (await other.coordinator.audit.records({ limit: 10 }))?.records;
    const id = `${clock.wallNow()}-1`;
    replica.coordinator.audit.record(id, "pending");
    replica.coordinator.audit.record(id, "fleet");
    if (when === "") await until(async () => (await found())?.[0] === "fleet");
    else await replica.close();
    expect(await found()).toEqual(["fleet"]);
  },
);
