import { expect, test } from "vitest";
import { CANCEL, LIST } from "../../support/endpoints.ts";
import { type GatewayProcess, startProcess } from "../../support/process.ts";
import { startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

test("SIGTERM drains: unready first, all served for the grace, then exit code 0", async () => {
  const amulet = await startRegistry("amulet");
  const gateway = await startProcess({ upstreams: [amulet], shutdown: { grace: "1s", timeout: "5s" } });
  const release = amulet.hold("allocation_cancel");
  const running = [1, 2, 3].map(() => gateway.site.post(CANCEL));
  await amulet.reached(3);
  gateway.child.signal("SIGTERM");
  await until(async () => (await gateway.operations.get("/readyz")).status === 503);
  const late = gateway.site.post(CANCEL);
  await amulet.reached(4);
  release();
  for (const answer of [...running, late]) expect((await answer).status).toBe(200);
  expect(await gateway.child.ended).toBe(0);
});

test("three processes that are replaced one after the other fail no request that a front sends to a ready one", async () => {
  const amulet = await startRegistry("amulet");
  const values = { upstreams: [amulet], shutdown: { grace: "1s", timeout: "5s" } };
  const running: GatewayProcess[] = await Promise.all([1, 2, 3].map(() => startProcess(values)));
  const over = new AbortController();
  const outcomes = new Set<string>();
  // A front asks each for its readiness, and sends to those that said yes.
  const ready = new Set(running);
  const front = Array.from({ length: 4 }, async (_none, worker) => {
    for (let round = worker; !over.signal.aborted; round += 1) {
      const chosen = [...ready][round % ready.size]!;
      const answer = await (round % 2 === 0 ? chosen.site.get(LIST) : chosen.site.post(CANCEL));
      outcomes.add(answer.outcome);
    }
  });
  for (const old of running) {
    const fresh = await startProcess(values);
    ready.add(fresh);
    old.child.signal("SIGTERM");
    await until(async () => (await old.operations.get("/readyz")).status === 503);
    ready.delete(old);
    expect(await old.child.ended).toBe(0);
  }
  over.abort();
  await Promise.all(front);
  expect(outcomes).toEqual(new Set(["200"]));
});

test("a changed configuration file is taken within seconds, a bad one changes nothing and is told", async () => {
  const [amulet, bonds] = [await startRegistry("amulet"), await startRegistry("bonds")];
  const gateway = await startProcess({ upstreams: [amulet] });
  const successful = () => gateway.operations.metric("registry_gateway_config_last_reload_successful");
  gateway.write({ upstreams: [amulet, bonds] });
  await until(
    async () => (await gateway.site.get(`/api/token-standard/v0/registrars/bonds${LIST}`)).status === 200,
    5_000,
  );
  gateway.write({ upstreams: [amulet, bonds], nonsense: 1 });
  await until(async () => (await successful()) === 0, 5_000);
  expect((await gateway.site.get(`/api/token-standard/v0/registrars/bonds${LIST}`)).status).toBe(200);
  gateway.write({ upstreams: [amulet] });
  await until(async () => (await successful()) === 1, 5_000);
  expect((await gateway.site.get(`/api/token-standard/v0/registrars/bonds${LIST}`)).status).toBe(404);
});
