import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { FAULT_NAMES } from "../../src/sandbox/faults.ts";
import { Command, runHere, useCommands } from "../support/command.ts";
import { testConfig } from "../support/gateway.ts";

const run = useCommands();
const INFO = "/registry/metadata/v1/info";
/** The admin of a sandbox that is not given one. */
const ADMIN = `sandbox::1220${"13f1b3a8".repeat(8)}`;

const start = (...args: string[]): Promise<string> => urlOf(run(["sandbox", "--port", "0", ...args]));

async function urlOf(command: Command): Promise<string> {
  const [, url] = await command.printed(/base URL {2}(\S+)/);
  return url!;
}

test("the sandbox is a registry of both versions, and gives any fault that a request asks for", async () => {
  const url = await start("--admin", "me::1220aa", "--instruments", "7", "--paging", "index");
  expect(await (await fetch(url + INFO)).json()).toMatchObject({ adminId: "me::1220aa" });
  const page = await fetch(`${url}/registry/metadata/v1/instruments?pageSize=5`);
  expect(await page.json()).toMatchObject({ nextPageToken: "5" });
  const call = { method: "POST", headers: { "content-type": "application/json" }, body: '{"choiceArguments":{}}' };
  expect((await fetch(`${url}/registry/allocation/v2/settlement-factory`, call)).status).toBe(200);

  for (const status of [400, 409, 500, 503]) {
    const answer = await fetch(`${url}${INFO}?fault=${status}`);
    expect([answer.status, Object.keys((await answer.json()) as object)]).toEqual([status, ["error"]]);
  }
  expect((await fetch(`${url}${INFO}?fault=429`)).headers.get("retry-after")).toBe("5");
  expect((await fetch(`${url}${INFO}?fault=html-404`)).headers.get("content-type")).toMatch(/^text\/html/);
  await expect(fetch(`${url}${INFO}?fault=reset`)).rejects.toThrow();
  expect((await fetch(`${url}${INFO}?fault=none-such`)).status).toBe(200);
});

test("faults befall a share of the calls, answers take their time, and version 2 can be left out", async () => {
  const url = await start("--fault", "503:0.5", "--latency", "20ms", "--versions", "v1", "--style", "utility");
  const statuses = await Promise.all(Array.from({ length: 60 }, async () => (await fetch(url + INFO)).status));
  const failed = statuses.filter((status) => status === 503).length;
  expect(failed).toBeGreaterThan(10);
  expect(failed).toBeLessThan(50);
  const path = "/registry/transfer-instruction/v2/transfer-factory";
  const statusesOfV2 = await Promise.all(
    Array.from({ length: 20 }, async () => (await fetch(url + path, { method: "POST", body: "{}" })).status),
  );
  expect(new Set(statusesOfV2)).toEqual(new Set([404, 503]));
});

test("a registry without version 2 answers with the web page of its framework, and says so in its info", async () => {
  const url = await start("--versions", "v1", "--unknown-paths", "html", "--fault", "503@instruments");
  const path = "/registry/transfer-instruction/v2/transfer-factory";
  const answer = await fetch(url + path, { method: "POST", body: "{}" });
  expect([answer.status, answer.headers.get("content-type")]).toEqual([404, "text/html"]);
  const info = (await (await fetch(url + INFO)).json()) as { supportedApis: object };
  expect(Object.keys(info.supportedApis).filter((name) => name.endsWith("-v2"))).toEqual([]);
  expect((await fetch(`${url}/registry/metadata/v1/instruments`)).status).toBe(503);
});

const PARTIES = { sender: "alice::1220aa", receiver: "bob::1220bb", amount: "1.5" };
const TO = { owner: "bob::1220bb", provider: null, id: "" };
const SIDE = { transferLegId: "0", side: "SenderSide", otherside: TO, amount: "2.0", instrumentId: "Amulet" };
const NO_SUCH = "No instrument with id Nothing found";

const STRICT: readonly [string, string, object, number, string?][] = [
  ["a transfer", "transfer-instruction/v1/transfer-factory", transferOf({ id: "Amulet" }), 200],
  [
    "a transfer of version 2",
    "transfer-instruction/v2/transfer-factory",
    transferOf({ sender: TO, receiver: TO }),
    200,
  ],
  ["an unknown instrument", "transfer-instruction/v1/transfer-factory", transferOf({ id: "Nothing" }), 404, NO_SUCH],
  ["no arguments", "transfer-instruction/v1/transfer-factory", {}, 400, "transfer"],
  ["an empty transfer", "transfer-instruction/v2/transfer-factory", { transfer: {} }, 400, "sender"],
  ["an amount of nothing", "transfer-instruction/v1/transfer-factory", transferOf({ amount: "0.0" }), 400, "amount"],
  ["an allocation", "allocation-instruction/v1/allocation-factory", legOf("Amulet"), 200],
  [
    "an allocation's unknown instrument",
    "allocation-instruction/v1/allocation-factory",
    legOf("Nothing"),
    404,
    NO_SUCH,
  ],
  ["an allocation of version 2", "allocation-instruction/v2/allocation-factory", sidesOf(SIDE), 200],
  ["no sides", "allocation-instruction/v2/allocation-factory", sidesOf(), 400, "transferLegSides"],
  [
    "an unknown side",
    "allocation-instruction/v2/allocation-factory",
    sidesOf({ ...SIDE, instrumentId: "Nothing" }),
    404,
  ],
  ["a settlement", "allocation/v2/settlement-factory", { transferLegs: [SIDE], allocations: ["00aa"] }, 200],
  ["no legs", "allocation/v2/settlement-factory", { transferLegs: [], allocations: ["00aa"] }, 400, "transferLegs"],
  ["no allocations", "allocation/v2/settlement-factory", { transferLegs: [SIDE], allocations: [] }, 400, "allocations"],
];

describe("a strict sandbox answers as a registry does", () => {
  let strict: Command;
  beforeAll(() => void (strict = new Command(["sandbox", "--port", "0", "--strict"])));
  afterAll(async () => {
    strict.signal("SIGKILL");
    await strict.ended;
  });

  test.each(STRICT)("%s", async (_, path, choiceArguments, status, error) => {
    const body = JSON.stringify({ choiceArguments });
    const call = { method: "POST", headers: { "content-type": "application/json" }, body };
    const answer = await fetch(`${await urlOf(strict)}/registry/${path}`, call);
    expect(answer.status).toBe(status);
    if (error !== undefined) expect(((await answer.json()) as { error: string }).error).toContain(error);
  });
});

function transferOf({ id = "Amulet", ...other }: { id?: string; [field: string]: unknown }): object {
  return { transfer: { ...PARTIES, instrumentId: { admin: ADMIN, id }, ...other } };
}

function legOf(id: string): object {
  return { allocation: { transferLeg: { ...PARTIES, instrumentId: { admin: ADMIN, id } } } };
}

function sidesOf(...transferLegSides: object[]): object {
  return { allocation: { admin: ADMIN, transferLegSides } };
}

test("a lenient sandbox answers an empty transfer and an unknown instrument", async () => {
  const url = `${await start()}/registry/transfer-instruction/v1/transfer-factory`;
  for (const choiceArguments of [{}, transferOf({ id: "Nothing" })]) {
    const body = JSON.stringify({ choiceArguments });
    expect((await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body })).status).toBe(
      200,
    );
  }
});

test("nodes of one registry, some of which lie, are printed as a file for a gateway", async () => {
  const command = run(["sandbox", "--port", "0", "--nodes", "3", "--lie", "colluding:1", "--roll-over", "10s"]);
  const [, text] = await command.printed(/(upstreams:[^]*?agreement: [^\n]*)/);
  const { upstreams } = parse(text!) as { upstreams: { urls: string[] }[] };
  const admins = upstreams[0]!.urls.map(async (url) => (await (await fetch(url + INFO)).json()) as object);
  expect(await Promise.all(admins)).toEqual(
    Array.from({ length: 3 }, () => expect.objectContaining({ adminId: ADMIN })),
  );
  expect(text).toMatch(/# colluding/);
  expect(testConfig(parse(text!) as Record<string, unknown>).upstreams[0]?.agreement).toMatchObject({ contexts: 2 });
});

test.each([
  [["--fault", "503*0"], "--fault takes a status"],
  [["--instruments", "many"], "--instruments cannot be read from many"],
  [["--instruments", "100001"], "--instruments takes a number"],
  [["--paging", "backwards"], "--paging takes keyset or index or ignored"],
  [["--latency", "soon"], "--latency takes a duration"],
  [["--style", "own"], "--style takes splice or utility"],
  [["--unknown-paths", "nothing"], "--unknown-paths takes own or html"],
  [["--fault", "503@everything"], "--fault takes one of the endpoints info, instruments"],
  [["--fault", "503:1@"], "--fault takes a status"],
  [["--versions", "v2"], "--versions takes v1 or v1,v2"],
  [["--fault", "429:2"], "--fault takes a status"],
  [["--fault", "200"], "--fault takes a status"],
  [["--fault", "__proto__"], "--fault takes a status"],
  [["--port", "70000"], "--port takes a port"],
  [["--nodes", "many"], "--nodes takes a number"],
  [["--nodes", "2", "--lie", "blob:3"], "--lie names 3 nodes"],
  [["--lie", "blobs"], "--lie takes one of"],
  [["--roll-over", "now"], "--roll-over takes a duration"],
])("%j is refused", async (args, why) => {
  const { code, stderr } = await runHere(["sandbox", ...args]);
  expect(code).toBe(1);
  expect(stderr).toContain(why);
});

test.each([
  ["an address of another machine", ["--host", "1.2.3.4"], "it cannot listen there (EADDRNOTAVAIL): choose another"],
  ["a name that there is not", ["--host", "no host"], "it cannot listen there (E"],
  ["more ports than there are", ["--port", "65535", "--nodes", "3"], "--port takes 65533 at most: each node has the"],
])("%s is said in a sentence", async (_what, args, why) => {
  const { code, stderr } = await runHere(["sandbox", ...args]);
  expect([code, stderr]).toEqual([1, expect.stringContaining(why)]);
  expect(stderr).not.toContain("    at ");
});

test("names every fault where one is refused", async () => {
  const { stderr } = await runHere(["sandbox", "--fault", "nonsense"]);
  for (const name of FAULT_NAMES) expect(stderr).toContain(name);
});
