import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { decide, discoveryOf, listOf, partyOf, registryOf, untilState, usePublishers } from "../support/discovery.ts";
import { RealProcess } from "../support/real-process.ts";
import { until } from "../support/redis.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";

// Several processes have to start on a machine that may be busy with other tests.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const startRegistry = useSampleRegistries();
const startPublisher = usePublishers();
const folder = useTemporaryFolder();

const ONE = partyOf("one");

/** The admin that each of many connections, which are different workers', finds at a registry. */
async function adminsAt(base: string): Promise<Set<unknown>> {
  const answers = await Promise.all(
    Array.from({ length: 12 }, async () => {
      const answer = await fetch(`${base}/registry/metadata/v1/info`, { headers: { connection: "close" } });
      return answer.status === 200 ? ((await answer.json()) as { adminId: string }).adminId : answer.status;
    }),
  );
  return new Set(answers);
}

test("with workers one process discovers, and all of them serve what it finds and what is approved", async () => {
  const [registry, moved] = await Promise.all([startRegistry({ admin: ONE }), startRegistry({ admin: ONE })]);
  const list = await startPublisher(listOf({ [ONE]: registry.url }));
  const gateway = await RealProcess.start({
    workers: 2,
    shutdown: { grace: "0s", timeout: "5s" },
    cache: { ttl: { info: "0s" } },
    discovery: {
      every: "1s",
      sources: [{ url: list.url }],
      pinFile: join(folder(), "pins.json"),
      allowPrivate: true,
    },
  });
  try {
    await untilState(gateway, ONE, "pinned");
    const base = `${gateway.url}/api/token-standard/v0/registrars/one`;
    await until(async () => [...(await adminsAt(base))].join() === ONE);
    // One that begins later is told as well.
    const { workers } = (await (await fetch(`${gateway.operations}/status`)).json()) as { workers: { pid: number }[] };
    process.kill(workers[0]!.pid, "SIGKILL");
    await until(async () => {
      const status = (await (await fetch(`${gateway.operations}/status`)).json()) as {
        workers: { pid: number; state: string }[];
      };
      return status.workers.every(({ pid, state }) => pid !== workers[0]!.pid && state === "listening");
    });
    expect([...(await adminsAt(base))]).toEqual([ONE]);
    list.publish(listOf({ [ONE]: moved.url }));
    await untilState(gateway, ONE, "waiting");
    expect((await decide(gateway, ONE, true)).body).toMatchObject({ registry: { urls: [moved.url] } });
    const before = registry.calls.count("instruments");
    for (let size = 1; size < 10; size += 1) {
      expect((await fetch(`${base}/registry/metadata/v1/instruments?pageSize=${size}`)).status).toBe(200);
    }
    expect(registry.calls.count("instruments")).toBe(before);
    expect((await registryOf(gateway, ONE))!.state).toBe("pinned");
    expect((await discoveryOf(gateway)).sources).toHaveLength(1);
    const metrics = await (await fetch(`${gateway.operations}/metrics`)).text();
    expect(metrics).toContain('registry_gateway_discovery_registries{state="pinned"} 1');
  } finally {
    await gateway.dispose();
  }
});
