import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import { runHere } from "../support/command.ts";
import { listOf, partyOf, untilState, usePublishers } from "../support/discovery.ts";
import { useGateways } from "../support/gateways.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";

const startRegistry = useSampleRegistries();
const startPublisher = usePublishers();
const startGateway = useGateways();
const folder = useTemporaryFolder();

const ONE = partyOf("one");

async function scene() {
  const [registry, moved] = await Promise.all([startRegistry({ admin: ONE }), startRegistry({ admin: ONE })]);
  const list = await startPublisher(listOf({ [ONE]: registry.url }));
  const discovery = {
    every: "1s",
    sources: [{ url: list.url }],
    pinFile: join(folder(), "pins.json"),
    allowPrivate: true,
  };
  return { registry, moved, list, discovery };
}

test("discovery shows what was found and what waits, and approves or refuses it", async () => {
  const { registry, moved, list, discovery } = await scene();
  const gateway = await startGateway({ discovery });
  const run = (...words: string[]) => runHere(["discovery", ...words, "--url", gateway.operations]);
  await untilState(gateway, ONE, "pinned");
  const calm = await run();
  expect([calm.code, calm.stderr]).toEqual([0, ""]);
  expect(calm.stdout).toMatch(
    /^SOURCE +FOUND +READ +ERROR\n127\.0\.0\.1 +1 +\S+Z\n\nREGISTRY +STATE +NODES +ADMIN\none +pinned +1 +one::/,
  );
  list.publish(listOf({ [ONE]: moved.url }));
  await untilState(gateway, ONE, "waiting");
  expect((await run()).stdout.replaceAll(/\s+/g, " ")).toContain(`lists ${moved.url}; used is ${registry.url}`);
  expect(JSON.parse((await run("--json")).stdout)).toMatchObject({ registries: [{ state: "waiting" }] });
  const refused = await run("refuse", ONE);
  expect([refused.code, refused.stdout]).toEqual([0, `refused: ${ONE}: pinned at ${registry.url}; on this replica\n`]);
  const other = await run("approve", ONE, registry.url);
  expect([other.code, other.stderr]).toEqual([1, expect.stringContaining("has changed since you looked")]);
  const approved = await run("approve", ONE, moved.url);
  expect([approved.code, approved.stdout]).toEqual([0, `approved: ${ONE}: pinned at ${moved.url}; on this replica\n`]);
  const again = await run("approve", ONE);
  expect([again.code, again.stdout]).toEqual([1, ""]);
  expect(again.stderr).toContain("waits for a decision");
});

test("check --live asks all URLs of a host that has more of them than one reading asks", async () => {
  const host = await startPublisher("");
  host.publish((response, path) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ adminId: partyOf(path.split("/")[1]!), supportedApis: {} }));
  });
  const names = Array.from({ length: 65 }, (_, at) => `r${at}`);
  const list = await startPublisher(
    listOf(Object.fromEntries(names.map((name) => [partyOf(name), `${host.url}/${name}`]))),
  );
  const config = join(folder(), "gateway.yaml");
  const discovery = { sources: [{ url: list.url }], pinFile: join(folder(), "pins.json"), allowPrivate: true };
  writeFileSync(config, stringify({ discovery }));
  const { code, stdout } = await runHere(["check", "--live", "--config", config]);
  expect([code, stdout.match(/1 of 1 URLs/g)?.length]).toEqual([0, names.length]);
});

test.each([[["approve"]], [["forget", ONE]]])("discovery does not take %j", async (words) => {
  const { code, stderr } = await runHere(["discovery", ...words, "--url", "http://127.0.0.1:1"]);
  expect([code, stderr]).toEqual([1, expect.stringContaining("approve ADMIN, or refuse ADMIN")]);
});

test("discovery says where nothing is configured", async () => {
  const registry = await startRegistry();
  const gateway = await startGateway({ upstreams: [{ name: "a", urls: [registry.url] }] });
  const { code, stdout } = await runHere(["discovery", "--url", gateway.operations]);
  expect([code, stdout]).toEqual([0, "discovery is not configured\n"]);
});

test("check --live says what would be found, and changes nothing", async () => {
  const { registry, list, discovery } = await scene();
  const stranger = await startRegistry({ admin: partyOf("stranger") });
  const two = partyOf("two");
  list.publish(listOf({ [ONE]: `${registry.url}/api/scan`, [two]: stranger.url }));
  const config = join(folder(), "gateway.yaml");
  writeFileSync(config, stringify({ discovery }));
  const { stdout } = await runHere(["check", "--live", "--config", config]);
  expect(stdout).toContain("discovery source 127.0.0.1: lists 2 registries");
  expect(stdout).toContain(`discovery: ${ONE}: 1 of 1 URLs of 127.0.0.1 prove it`);
  expect(stdout).toContain(`${registry.url}/api/scan is meant to be ${registry.url}`);
  expect(stdout).toContain(`discovery: ${two}: 0 of 1 URLs of 127.0.0.1 prove it`);
  expect(stdout).toContain(`${stranger.url} is the registry of ${partyOf("stranger")}`);
  expect(stdout).toContain("not everything it names is well");
  expect(readdirSync(folder())).toEqual(["gateway.yaml"]);
});
