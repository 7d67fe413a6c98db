import { expect, test } from "vitest";
import { useBusyGateways } from "../../support/busy-gateway.ts";
import { confirm, goTo, openRegistry, rowOf, useConsoleScene } from "../../support/console-scene.ts";
import { partyOf, registryOf } from "../../support/discovery.ts";
import type { GatewayProcess } from "../../support/gateway-process.ts";
import { startRedis } from "../../support/redis.ts";
import { until } from "../../support/until.ts";
import { DSO } from "../../support/sample.ts";

const scene = useConsoleScene();
const startBusyGateway = useBusyGateways(scene);

const CALL = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";

/** An action has effect everywhere within, by the contract. */
const EFFECTIVE_WITHIN = 2_000;
/** A page asks every 5 s, and less often while nothing answers: 30 s at most. */
const ASKS_WITHIN = 10_000;
const ASKS_AGAIN_WITHIN = 60_000;

interface Told {
  readonly inForce: readonly {
    readonly node: number | null;
    readonly state: string | null;
    readonly mode: string | null;
  }[];
}

async function call({ url }: Pick<GatewayProcess, "url">): Promise<number> {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(url + CALL, { method: "POST", headers, body: "{}" });
  await answer.arrayBuffer();
  return answer.status;
}

async function startTwoNodes() {
  const nodes = [await scene.registry(), await scene.registry()] as const;
  return { nodes, upstreams: [{ name: "amulet", admin: DSO, urls: nodes.map(({ url }) => url) }] };
}

test("what is done in the console of one replica is in force on the other within 2 s, shown there, and undone there", async () => {
  const redis = await startRedis();
  scene.defer(() => redis.stop());
  const { nodes, upstreams } = await startTwoNodes();
  const keys = { redis: { url: redis.url }, upstreams };
  const one = await scene.gateway(keys);
  const other = await scene.gateway(keys);
  const expected = { expected: /status of 503/ };
  const pages = [await scene.open(one, expected), await scene.open(other, expected)] as const;
  await pages[1].getByText("The registry is well.").waitFor();
  await openRegistry(pages[0], "amulet");
  await pages[0].getByRole("button", { name: "Cordon node 0" }).click();
  await pages[0].getByLabel("Reason, shown").fill("its disk is full");
  await confirm(pages[0], "Cordon");
  await until(async () => (await other.status<Told>()).inForce.length === 1, EFFECTIVE_WITHIN);
  await pages[0].getByText("Node 0 of amulet is cordoned on 2 of 2 replicas.").waitFor();
  const before = nodes[0].calls.count("transfer_accept");
  for (let i = 0; i < 20; i += 1) expect(await call(other)).toBe(200);
  expect(nodes[0].calls.count("transfer_accept")).toBe(before);
  await rowOf(pages[1], "What is in force", "its disk is full").waitFor({ timeout: ASKS_WITHIN });

  await pages[1].getByRole("button", { name: "Undo node 0 cordoned of amulet" }).click();
  await confirm(pages[1], "Activate");
  await until(async () => (await one.status<Told>()).inForce.length === 0, EFFECTIVE_WITHIN);
  await pages[0].getByRole("button", { name: "Cordon node 0" }).waitFor({ timeout: ASKS_WITHIN });

  await redis.kill();
  await pages[0].getByRole("button", { name: "Cache only…" }).click();
  await confirm(pages[0], "Cache only");
  // Done here, and said not to be done elsewhere.
  await pages[0]
    .getByRole("alert")
    .getByText(/on this replica only: Redis is away/)
    .waitFor();
  await pages[0].getByRole("button", { name: "Cancel" }).click();
  expect((await one.status<Told>()).inForce).toMatchObject([{ mode: "cache-only" }]);
  await goTo(pages[0], "Overview");
  await pages[0]
    .getByText(/Redis is away, this replica goes on by itself/)
    .first()
    .waitFor({ timeout: ASKS_WITHIN });
  await redis.start();
  await until(async () => (await other.status<Told>()).inForce.length === 1);
  await rowOf(pages[1], "What is in force", "cache-only").waitFor({ timeout: ASKS_AGAIN_WITHIN });
});

test("a registry that dies is named with the reason, and well again when it is back", async () => {
  const [bonds, amulet] = [await scene.registry({ admin: `bonds::1220${"bd".repeat(32)}` }), await scene.registry()];
  const gateway = await scene.gateway({
    upstreams: [
      { name: "amulet", admin: DSO, urls: [amulet.url], retry: { attempts: 1 } },
      { name: "bonds", admin: bonds.admin, urls: [bonds.url] },
    ],
  });
  const asked = (name: string) => call({ url: `${gateway.url}/api/token-standard/v0/registrars/${name}` });
  const page = await scene.open(gateway);
  await page.getByText("All 2 registries are well.").waitFor();
  await amulet.kill();
  await until(async () => {
    await asked("amulet");
    const { upstreams } = await gateway.status<{ upstreams: readonly { readonly state: string }[] }>();
    return upstreams[0]!.state !== "up";
  });
  const sentence = page.getByText(/^(bad|look) 1 of 2 registries are well\. amulet .*: .*(refused|reset|connect)/i);
  await sentence.first().waitFor({ timeout: ASKS_WITHIN });
  await page
    .getByText(/breaker (half-)?open/)
    .first()
    .waitFor();
  expect(await asked("bonds")).toBe(200);
  await openRegistry(page, "amulet");
  // Its only node is never ejected; what is wrong with it is said all the same.
  await rowOf(page, "Nodes of amulet", "up, failing")
    .getByText(/refused|reset|connect/i)
    .waitFor();
  await page
    .getByRole("definition")
    .filter({ hasText: /refused|reset|connect/i })
    .first()
    .waitFor();
  await amulet.revive();
  await until(async () => (await asked("amulet")) === 200, ASKS_AGAIN_WITHIN);
  await goTo(page, "Overview");
  // What failed in the last ten minutes is still said, as the alert about it still fires.
  await page
    .getByText(/breaker is (half-)?open/)
    .first()
    .waitFor({ state: "detached", timeout: ASKS_AGAIN_WITHIN });
});

test("a gateway that is gone is said to be, and the page goes on by itself when one is back", async () => {
  const { upstreams } = await startTwoNodes();
  const gateway = await scene.gateway({ upstreams });
  const page = await scene.open(gateway, { expected: /net::ERR_(CONNECTION_(REFUSED|RESET)|EMPTY_RESPONSE)/ });
  await page.getByText("The registry is well.").waitFor();
  await page.evaluate("globalThis.isTheSamePage = true");
  gateway.signal("SIGKILL");
  await gateway.ended;
  const banner = page.getByRole("alert").getByText("The gateway does not answer");
  await banner.waitFor({ timeout: ASKS_WITHIN });
  await page.getByText("not connected").waitFor();
  // What is shown stays, and is said to be old.
  expect(await page.getByText("The registry is well.").isVisible()).toBe(true);
  await goTo(page, "Registries");
  await page.getByRole("link", { name: "amulet", exact: true }).waitFor();
  await goTo(page, "Overview");
  await scene.gateway({ upstreams }, gateway);
  await banner.waitFor({ state: "detached", timeout: ASKS_AGAIN_WITHIN });
  await page
    .getByText(/^\d+ s ago$/)
    .first()
    .waitFor();
  expect(await page.evaluate("globalThis.isTheSamePage")).toBe(true);
});

test("a session that ended with its gateway is asked for anew, in the place of the page", async () => {
  const { upstreams } = await startTwoNodes();
  const keys = { operations: { token: "one" }, upstreams };
  const gateway = await scene.gateway(keys);
  const page = await scene.open(gateway, { token: "one", expected: /net::ERR_|status of 401/ });
  await page.getByText("The registry is well.").waitFor();
  gateway.signal("SIGKILL");
  await gateway.ended;
  await scene.gateway(keys, gateway);
  await page.getByLabel("Operations token").waitFor({ timeout: ASKS_AGAIN_WITHIN });
  await page.getByLabel("Operations token").fill("one");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("The registry is well.").waitFor();
});

test("with operations.readonly nothing can be done from the page, nor by who sends what it would send", async () => {
  const { gateway } = await startBusyGateway({ readonly: true });
  const page = await scene.open(gateway, { expected: /status of 403/ });
  await page.getByText("read only").first().waitFor();
  await openRegistry(page, "amulet");
  await page.getByRole("table", { name: "Nodes of amulet" }).waitFor();
  const actions = page.getByRole("button", { name: /purge|cordon|weight|cache only|undo|approve|refuse|take away/i });
  expect(await actions.count()).toBe(0);
  await goTo(page, "Registries");
  expect(await actions.count()).toBe(0);
  await goTo(page, "Discovery");
  await rowOf(page, "Found registries", "waiting").waitFor();
  expect(await actions.count()).toBe(0);
  for (const [path, body] of [
    ["purge", {}],
    ["nodes", { upstream: "amulet", node: 0, state: "cordoned" }],
    ["upstreams", { upstream: "amulet", mode: "cache-only" }],
    ["discovery", { admin: partyOf("moves"), approve: true }],
  ] as const) {
    const headers = { "content-type": "application/json", "x-registry-gateway-console": "1" };
    const options = JSON.stringify({ method: "POST", headers, body: JSON.stringify(body) });
    expect(await page.evaluate(`fetch("../${path}", ${options}).then(({ status }) => status)`)).toBe(403);
  }
  expect((await gateway.status<Told>()).inForce).toEqual([]);
  expect((await registryOf(gateway, partyOf("moves")))?.state).toBe("waiting");
});
