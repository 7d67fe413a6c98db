import { expect, test } from "vitest";
import { FAULT_NAMES } from "../../src/sandbox/faults.ts";
import { runHere, useCommands } from "../support/command.ts";

const run = useCommands();
const INFO = "/registry/metadata/v1/info";

async function start(...args: string[]): Promise<string> {
  const command = run(["sandbox", "--port", "0", ...args]);
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

test.each([
  [["--instruments", "many"], "--instruments takes a number"],
  [["--instruments", "100001"], "--instruments takes a number"],
  [["--paging", "backwards"], "--paging takes keyset, index, ignored"],
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
])("%j is refused", async (args, why) => {
  const { code, stderr } = await runHere(["sandbox", ...args]);
  expect(code).toBe(1);
  expect(stderr).toContain(why);
});

test("names every fault where one is refused", async () => {
  const { stderr } = await runHere(["sandbox", "--fault", "nonsense"]);
  for (const name of FAULT_NAMES) expect(stderr).toContain(name);
});
