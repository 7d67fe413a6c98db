import { expect, test } from "vitest";
import { confirm, goTo, openRegistry, rowOf, useConsoleScene } from "../../support/console-scene.ts";
import type { GatewayProcess } from "../../support/gateway-process.ts";
import { until } from "../../support/until.ts";
import { DSO } from "../../support/sample.ts";

const scene = useConsoleScene();

const TOKEN = "operations-token-of-the-test";
const CALL = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";
const LISTING = "/registry/metadata/v1/instruments";

interface Told {
  readonly inForce: readonly object[];
  readonly upstreams: readonly { readonly nodes: readonly { readonly weight: number; readonly cordoned: boolean }[] }[];
  readonly actions: readonly { readonly did: string; readonly what: unknown; readonly by: string }[];
}

/** What the operations listener tells those who have the token. */
async function tell({ operations }: GatewayProcess, path: string): Promise<Told> {
  const answer = await fetch(`${operations}/${path}`, { headers: { authorization: `Bearer ${TOKEN}` } });
  return (await answer.json()) as Told;
}

async function get({ url }: GatewayProcess, path: string): Promise<Response> {
  const answer = await fetch(url + path);
  await answer.arrayBuffer();
  return answer;
}

async function call({ url }: GatewayProcess): Promise<number> {
  const answer = await fetch(url + CALL, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: "{}",
  });
  await answer.arrayBuffer();
  return answer.status;
}

/** Two nodes of a registry behind a gateway that wants a token. */
async function startAll() {
  const nodes = [await scene.registry(), await scene.registry()] as const;
  const gateway = await scene.gateway({
    operations: { token: TOKEN },
    log: { hits: 1 },
    upstreams: [{ name: "amulet", admin: DSO, urls: nodes.map(({ url }) => url) }],
  });
  await until(async () => (await tell(gateway, "status")).upstreams[0]!.nodes.length === 2);
  return { nodes, gateway, callsAt: (node: 0 | 1) => nodes[node].calls.count("transfer_accept") };
}

test("an operator signs in with the token alone, stays signed in when the page is loaded anew, and signs out", async () => {
  const { gateway } = await startAll();
  const page = await scene.open(gateway, { expected: /status of 401/ });
  await page.getByLabel("Operations token").fill("another token");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").getByText("this is not the operations token").waitFor();
  await page.getByLabel("Operations token").fill(TOKEN);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("The registry is well.").waitFor();
  await page.reload();
  await page.getByText("The registry is well.").waitFor();
  // Neither the token nor the session can be read by a script.
  expect(await page.evaluate("document.cookie + JSON.stringify([localStorage, sessionStorage])")).toBe("[{},{}]");
  const [cookie] = await page.context().cookies();
  expect(cookie).toMatchObject({ httpOnly: true, sameSite: "Strict" });
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Operations token").waitFor();
  const stolen = { cookie: `${cookie!.name}=${cookie!.value}`, "x-registry-gateway-console": "1" };
  expect((await fetch(`${gateway.operations}/status`, { headers: stolen })).status).toBe(401);
});

test("a cordon keeps calls from its node until it is undone, and the last node is cordoned only on purpose", async () => {
  const { gateway, callsAt } = await startAll();
  const page = await scene.open(gateway, { token: TOKEN, expected: /status of 409/ });
  await openRegistry(page, "amulet");
  await page.getByRole("button", { name: "Cordon node 0" }).click();
  await page.getByLabel("Reason, shown").fill("disk <b>full</b>");
  await confirm(page, "Cordon");
  await page.getByText("Node 0 of amulet is cordoned").waitFor();
  await rowOf(page, "Nodes of amulet", "cordoned").waitFor();
  const before = callsAt(0);
  for (let i = 0; i < 20; i += 1) expect(await call(gateway)).toBe(200);
  expect([callsAt(0) - before, callsAt(1) >= 20]).toEqual([0, true]);

  await page.getByRole("button", { name: "Cordon node 1" }).click();
  await confirm(page, "Cordon");
  await page.getByRole("checkbox", { name: /Cordon it all the same/ }).check();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  expect((await tell(gateway, "status")).inForce).toMatchObject([{ node: 0, state: "cordoned" }]);

  await goTo(page, "Overview");
  await rowOf(page, "What is in force", "disk <b>full</b>").waitFor();
  await page.getByRole("button", { name: "Undo node 0 cordoned of amulet" }).click();
  await confirm(page, "Activate");
  await page.getByText("No cordon, weight or cache-only mode of an operator is in force.").waitFor();
  await until(async () => (await call(gateway)) === 200 && callsAt(0) > before);
  const { actions } = await tell(gateway, "audit");
  expect(actions.map(({ did, by }) => [did, by])).toEqual([
    ["node", "console session"],
    ["node", "console session"],
  ]);
  await rowOf(page, "What operators did", "console session").first().waitFor();
  await goTo(page, "Audit");
  await rowOf(page, "What operators did", "disk <b>full</b>").waitFor();
});

test("a weight of 0 leaves a node without calls while the other is well", async () => {
  const { gateway, callsAt } = await startAll();
  const page = await scene.open(gateway, { token: TOKEN, at: "registries/amulet" });
  await page.getByRole("button", { name: "Weight of node 1" }).click();
  await page.getByLabel("Weight, 0 to 100").fill("0");
  await confirm(page, "Set weight");
  await page.getByText("Node 1 of amulet has another weight").waitFor();
  expect((await tell(gateway, "status")).upstreams[0]!.nodes).toMatchObject([{ weight: 1 }, { weight: 0 }]);
  const before = callsAt(1);
  for (let i = 0; i < 20; i += 1) expect(await call(gateway)).toBe(200);
  expect(callsAt(1) - before).toBe(0);
});

test("in cache-only mode the registry is asked for nothing, until the page ends it", async () => {
  const { nodes, gateway } = await startAll();
  expect((await get(gateway, LISTING)).status).toBe(200);
  const page = await scene.open(gateway, { token: TOKEN, at: "registries/amulet" });
  await page.getByRole("button", { name: "Cache only…" }).click();
  await page.getByLabel("Reason, shown").fill("maintenance at the bank");
  await confirm(page, "Cache only");
  await page.getByText("amulet is in cache-only mode").first().waitFor();
  const before = nodes.map(({ calls }) => calls.total);
  expect(await call(gateway)).toBe(503);
  expect((await get(gateway, LISTING)).status).toBe(200);
  expect(nodes.map(({ calls }) => calls.total)).toEqual(before);
  await page.getByRole("button", { name: "Back to normal…" }).click();
  await confirm(page, "Back to normal");
  await page.getByText("amulet is asked again").waitFor();
  await until(async () => (await call(gateway)) === 200);
});

test("a soft purge makes what is cached stale, and a purge takes it, after it has said how much that is", async () => {
  const { nodes, gateway } = await startAll();
  const listed = () => nodes[0].calls.count("instruments") + nodes[1].calls.count("instruments");
  for (const size of [1, 2, 3]) await get(gateway, `${LISTING}?pageSize=${size}`);
  const page = await scene.open(gateway, { token: TOKEN, at: "registries/amulet" });
  await page.getByRole("button", { name: "Soft purge…" }).click();
  await page.getByText(/That is \d+ entries of .* in memory/).waitFor();
  await confirm(page, "Soft purge");
  await page.getByText("Softly purged amulet on this replica.").waitFor();
  // Served all the same, and asked for anew meanwhile.
  const asked = listed();
  expect((await get(gateway, `${LISTING}?pageSize=1`)).headers.get("cache-status")).toContain("hit");
  await until(() => listed() > asked);

  await page.getByRole("button", { name: "Purge…", exact: true }).click();
  await page.getByLabel("Its instruments: pages and single ones").check();
  await page.getByText(/That is \d+ entries of .* in memory/).waitFor();
  await page.getByLabel("One instrument, and the pages").check();
  await page.getByLabel("Instrument id").fill("Amulet");
  await page.getByText(/That is \d+ entries of .* in memory/).waitFor();
  await page.getByLabel("Everything of it").check();
  await confirm(page, "Purge");
  await page.getByText("Purged amulet on this replica.").waitFor();
  const before = listed();
  expect((await get(gateway, `${LISTING}?pageSize=2`)).headers.get("cache-status")).toContain("fwd=");
  expect(listed()).toBeGreaterThan(before);

  await goTo(page, "Registries");
  await page.getByRole("button", { name: "Purge all…", exact: true }).click();
  await page.getByText(/That is \d+ entr(y|ies) of/).waitFor();
  await confirm(page, "Purge");
  await page.getByText("Purged everything on this replica.").waitFor();
});

test("a pasted URL is explained: from the cache, not stored, never cached, and none of this gateway", async () => {
  const { gateway } = await startAll();
  await get(gateway, `${LISTING}?pageSize=2`);
  const page = await scene.open(gateway, { token: TOKEN, at: "cache", expected: /status of 40[04]/ });
  const ask = async (url: string) => {
    await page.getByLabel("URL or path of the public listener").fill(url);
    await page.getByRole("button", { name: "Explain" }).click();
  };
  const explain = async (url: string, told: RegExp) => {
    await ask(url);
    await page.getByText(told).first().waitFor();
  };
  await explain(`${gateway.url}${LISTING}?pageSize=2`, /The next request is answered from memory: fresh for another/);
  await page.getByText("fresh", { exact: true }).waitFor();
  await explain(`${LISTING}?pageSize=7`, /The next request asks the registry: nothing is stored/);
  await explain(CALL, /Never answered from the cache/);
  await ask("/nothing/of/it");
  await page.getByRole("alert").filter({ hasText: /\S/ }).waitFor();
});

test("requests are shown as they come, filtered, held while paused, and copied as curl without what is secret", async () => {
  const { gateway } = await startAll();
  const page = await scene.open(gateway, { token: TOKEN, at: "requests" });
  const rows = (text: string | RegExp) => rowOf(page, "Latest requests", text);
  // Whether it is a miss or past the cache: it is not said what a client sent.
  await get(gateway, `${LISTING}?pageToken=secret-of-the-client&pageSize=2`);
  await get(gateway, `${LISTING}?pageSize=2`);
  await rows("GET instruments").first().waitFor();
  await call(gateway);
  await rows("POST transfer_accept").first().waitFor();
  await page.getByLabel("Outcome").selectOption("miss");
  await rows("POST transfer_accept").first().waitFor({ state: "detached" });
  await rows("GET instruments").first().waitFor();
  await page.getByLabel("Outcome").selectOption("");
  await rows("POST transfer_accept").first().waitFor();

  await page.getByRole("button", { name: "Pause" }).click();
  const shown = await rows("transfer_accept").count();
  await call(gateway);
  // Two questions of a page that is not paused.
  await page.waitForTimeout(4_500);
  expect(await rows("transfer_accept").count()).toBe(shown);
  await page.getByRole("button", { name: "Go on" }).click();
  await expect.poll(() => rows("transfer_accept").count()).toBe(shown + 1);

  await rows("POST transfer_accept")
    .first()
    .getByRole("button", { name: /Copy as curl/ })
    .click();
  await page.getByText("ids, bodies and credentials are placeholders").waitFor();
  const copied = await page.evaluate<string>("navigator.clipboard.readText()");
  expect(copied).toContain(`curl -si '${gateway.url}/api/token-standard/v0/registrars/amulet/registry/`);
  expect(copied).not.toMatch(/00aa|secret-of-the-client/);
});

test("the configuration page shows what is in use without its secrets, and names the command that checks another", async () => {
  const { gateway } = await startAll();
  const page = await scene.open(gateway, { token: TOKEN, at: "configuration" });
  await page.getByText("None since this gateway started.").waitFor();
  await page.getByText("registry-gateway check --diff").waitFor();
  expect(await page.getByRole("main").innerText()).not.toContain(TOKEN);
});

test("light and dark are toggled, and kept", async () => {
  const { gateway } = await startAll();
  const page = await scene.open(gateway, { token: TOKEN, colorScheme: "light" });
  const back = () => page.evaluate<string>("getComputedStyle(document.body).backgroundColor");
  await page.getByText("The registry is well.").waitFor();
  const light = await back();
  await page.getByRole("button", { name: "Show in dark" }).click();
  expect(await back()).not.toBe(light);
  await page.reload();
  await page.getByRole("button", { name: "Show in light" }).click();
  expect(await back()).toBe(light);
});
