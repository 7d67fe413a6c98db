import { expect, test } from "vitest";
import type { Client } from "../../src/clients/client.ts";
import { createMetrics } from "../../src/observe/metrics.ts";
import { ClientTraffic } from "../../src/observe/metrics/client-traffic.ts";

const TIER = { name: "wallet" } as Client["tier"];

function seen(kind: Client["kind"], names: number) {
  const { metrics } = createMetrics();
  const traffic = new ClientTraffic({ metrics, onRefused: () => undefined, onSpared: () => undefined });
  for (let n = 1; n <= names; n++) {
    traffic.count({ kind, name: `c${n}`, tier: TIER } as Client, "info", "hit", n);
  }
  return { metrics, traffic };
}

// An operator withdraws the keys of those that never called.
test("each client with a key is seen by itself, and beyond a thousand counted with others in metrics alone", async () => {
  const { metrics, traffic } = seen("key", 1_002);
  expect(traffic.uses()).toHaveLength(1_002);
  expect(traffic.uses()[0]).toMatchObject({ name: "c1002", kind: "key", requests: 1, lastSeen: 1_002 });
  const { values } = await metrics.clientRequests.get();
  expect(values).toHaveLength(1_001);
  expect(values.find(({ labels }) => labels.client === "key/wallet")).toMatchObject({ value: 2 });
});

test("clients whose names others choose are no more than their bound", () => {
  const { traffic } = seen("token", 500);
  expect(traffic.uses()).toHaveLength(201);
  expect(traffic.uses()[0]).toMatchObject({ name: "token/wallet", requests: 300 });
});
