import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type Lie, LIES } from "../../src/sandbox/lies.ts";
import {
  type Sandbox,
  type SandboxNode,
  SandboxOptionError,
  type SandboxOptions,
  startSandbox,
} from "../../src/sandbox/sandbox.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";

const folder = useTemporaryFolder();

async function start(options?: SandboxOptions): Promise<Sandbox> {
  const sandbox = await startSandbox(options);
  onTestFinished(() => sandbox.close());
  return sandbox;
}

const INSTRUMENTS = "/registry/metadata/v1/instruments";
const INFO = "/registry/metadata/v1/info";

function statusesOf(urls: readonly string[]): Promise<number[]> {
  return urls.reduce<Promise<number[]>>(
    async (before, url) => [...(await before), (await fetch(url)).status],
    Promise.resolve([]),
  );
}

const BOND = { id: "Bond/1", name: "Bond", symbol: "B", decimals: 2, supportedApis: {} };

test("instruments come from a list, a file with an array, or a file with a registry's page", async () => {
  const file = join(folder(), "instruments.json");
  for (const instruments of [[BOND], file, file]) {
    writeFileSync(file, JSON.stringify(instruments === file ? [BOND] : { instruments: [BOND] }));
    const { url } = await start({ instruments });
    expect(await (await fetch(url + INSTRUMENTS)).json()).toMatchObject({ instruments: [BOND] });
  }
});

test("info and instruments of a sandbox name exactly the APIs that it serves", async () => {
  const families = ["transfer-instruction", "allocation", "allocation-instruction"];
  const version1 = ["metadata", ...families].map((family) => `splice-api-token-${family}-v1`);
  const version2 = families.map((family) => `splice-api-token-${family}-v2`);
  for (const [version, style, apis] of [
    ["v1", "splice", version1],
    [undefined, "splice", [...version1, ...version2]],
    [undefined, "utility", [...version1, ...version2]],
  ] as const) {
    const { url } = await start({ ...(version && { version }), style });
    for (const path of ["info", "instruments/Amulet"]) {
      const body = (await (await fetch(`${url}/registry/metadata/v1/${path}`)).json()) as { supportedApis: object };
      expect(body.supportedApis).toEqual(Object.fromEntries(apis.map((name) => [name, 1])));
    }
  }
});

test("a fault with a number of times befalls that many calls", async () => {
  const { url } = await start({ faults: ["503*2@info"] });
  const statuses: number[] = [];
  for (let i = 0; i < 4; i++) statuses.push((await fetch(url + INFO)).status);
  expect(statuses).toEqual([503, 503, 200, 200]);
});

test("pages of any origin may call a sandbox, and read its refusals", async () => {
  const { url } = await start();
  const asks = { origin: "https://wallet.example", "access-control-request-method": "POST" };
  const preflight = await fetch(url + INFO, { method: "OPTIONS", headers: asks });
  expect(preflight.status).toBe(204);
  expect(preflight.headers.get("access-control-allow-headers")).toMatch(/authorization, content-type/);
  for (const path of [INFO, `${INFO}?fault=503`, `${INFO}?fault=gzip`, "/registry/metadata/v1/instruments/nothing"]) {
    const answer = await fetch(url + path, { headers: { origin: "https://wallet.example" } });
    expect(answer.headers.get("access-control-allow-origin")).toBe("*");
    await answer.arrayBuffer();
  }
});

test("two sandboxes with the same options answer the same bytes", async () => {
  const [one, other] = [await start(), await start()];
  const path = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";
  const ask = async ({ url }: Sandbox) => (await fetch(url + path, { method: "POST" })).text();
  expect(await ask(one)).toBe(await ask(other));
});

const CONTEXT = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";

/** Status and answer of a node, as of one that is compared with another. */
async function said({ url }: SandboxNode, path: string) {
  const answer = await fetch(url + path, { method: path.startsWith(INSTRUMENTS) || path === INFO ? "GET" : "POST" });
  const text = await answer.text();
  return {
    status: answer.status,
    text,
    json: JSON.parse(text) as { disclosedContracts: { createdEventBlob: string }[] },
  };
}

test("the last nodes lie as told, and all others say the same", async () => {
  const { nodes, url } = await start({ nodes: 12, lies: LIES.filter((lie) => lie !== "slow") });
  expect(nodes.map(({ lie }) => lie)).toEqual([
    undefined,
    undefined,
    undefined,
    ...LIES.filter((lie) => lie !== "slow"),
  ]);
  expect(nodes[0]!.url).toBe(url);
  const at = (lie: Lie) => nodes.find((node) => node.lie === lie)!;
  const honest = await said(nodes[0]!, CONTEXT);
  const listed = await said(nodes[0]!, INSTRUMENTS);
  for (const path of [CONTEXT, INSTRUMENTS, INFO]) {
    expect((await said(nodes[1]!, path)).text).toBe((await said(nodes[2]!, path)).text);
  }
  for (const { lie, url: other } of nodes) {
    const info = await (await fetch(other + INFO)).text();
    expect([lie, info]).toEqual([lie, (await said(nodes[0]!, INFO)).text]);
  }
  for (const lie of ["always", "colluding", "late", "blob", "duplicates", "order"] as const) {
    expect([lie, (await said(at(lie), CONTEXT)).text === honest.text]).toEqual([lie, false]);
  }
  for (const lie of ["always", "colluding", "duplicates", "order", "cuts"] as const) {
    expect([lie, (await said(at(lie), INSTRUMENTS)).text === listed.text]).toEqual([lie, false]);
  }
  expect((await said(at("error"), CONTEXT)).status).toBe(404);
  const [{ createdEventBlob: one }, { createdEventBlob: other }] = [honest, await said(at("blob"), CONTEXT)].map(
    ({ json }) => json.disclosedContracts[0]!,
  ) as [{ createdEventBlob: string }, { createdEventBlob: string }];
  const [bytes, altered] = [Buffer.from(one, "base64"), Buffer.from(other, "base64")];
  expect(altered).toHaveLength(bytes.length);
  expect(altered.filter((byte, i) => byte !== bytes[i])).toHaveLength(1);
  const drawn = await Promise.all(Array.from({ length: 30 }, async () => (await said(at("sometimes"), CONTEXT)).text));
  expect(new Set(drawn).size).toBe(2);
  expect(drawn).toContain(honest.text);
});

test("liars that collude say the same, others do not, and a slow one takes two seconds", async () => {
  const { nodes } = await start({ nodes: 5, lies: ["colluding:2", "always:2", "slow"] });
  const [one, other, third, fourth] = await Promise.all(nodes.slice(0, 4).map((node) => said(node, CONTEXT)));
  expect([one!.text === other!.text, one!.text === third!.text, third!.text === fourth!.text]).toEqual([
    true,
    false,
    false,
  ]);
  const begin = performance.now();
  await said(nodes[4]!, CONTEXT);
  expect(performance.now() - begin).toBeGreaterThan(1_900);
});

test("a new round opens at one node after the other, and a factory of it has other contracts", async () => {
  const { nodes } = await start({ nodes: 3, rollOver: "400ms" });
  const factory = async ({ url }: SandboxNode) => {
    const path = "/registry/allocation-instruction/v1/allocation-factory";
    const headers = { "content-type": "application/json" };
    return (await fetch(url + path, { method: "POST", headers, body: '{"choiceArguments":{}}' })).text();
  };
  const before = await factory(nodes[2]!);
  // The last is in the round before while the first is in the next.
  await expect
    .poll(async () => (await factory(nodes[0]!)) !== before && (await factory(nodes[2]!)) === before, { interval: 10 })
    .toBe(true);
  await expect.poll(async () => (await factory(nodes[0]!)) === (await factory(nodes[2]!)), { interval: 10 }).toBe(true);
});

test("a port that is taken leaves no other node running", async () => {
  const { url } = await start();
  const taken = Number(new URL(url).port);
  await expect(startSandbox({ port: taken - 1, nodes: 2 })).rejects.toThrow(/EADDRINUSE/);
  await expect(fetch(`http://127.0.0.1:${taken - 1}${INFO}`)).rejects.toThrow();
});

test("with a list of contracts all others are unknown", async () => {
  const { url } = await start({ contracts: ["00aa"] });
  const accept = (id: string) => `${url}/registry/transfer-instruction/v1/${id}/choice-contexts/accept`;
  const ask = async (id: string) => (await fetch(accept(id), { method: "POST" })).status;
  expect([await ask("00aa"), await ask("00ab")]).toEqual([200, 404]);
});

test("an id fails as often as told, wherever a request names it, and no other id", async () => {
  const sandbox = await start({ instruments: 3 });
  const at = (id: string) => `${sandbox.url}${INSTRUMENTS}/${encodeURIComponent(id)}`;
  sandbox.fail("Amulet/USD", 2, "503");
  expect(await statusesOf([at("Amulet"), at("Amulet/USD"), at("Amulet/USD"), at("Amulet/USD")])).toEqual([
    200, 503, 503, 200,
  ]);
  sandbox.fail("00aa");
  const factory = `${sandbox.url}/registry/transfer-instruction/v1/transfer-factory`;
  const ask = async (id: string) => {
    const choiceArguments = { expectedAdmin: sandbox.admin, transfer: { inputHoldingCids: [id] } };
    const headers = { "content-type": "application/json" };
    return (await fetch(factory, { method: "POST", headers, body: JSON.stringify({ choiceArguments }) })).status;
  };
  expect([await ask("00ab"), await ask("00aa"), await ask("00aa")]).toEqual([200, 500, 200]);
});

test("an endpoint fails by its name, and 0 times ends it", async () => {
  const sandbox = await start();
  const info = `${sandbox.url}/registry/metadata/v1/info`;
  sandbox.fail("info", 5, "429");
  expect(await statusesOf([info, sandbox.url + INSTRUMENTS])).toEqual([429, 200]);
  sandbox.fail("info", 0);
  expect(await statusesOf([info])).toEqual([200]);
});

test("of the ids that fail the last thousand are kept", async () => {
  const sandbox = await start();
  for (let id = 0; id <= 1_000; id += 1) sandbox.fail(`id-${id}`);
  expect(await statusesOf([0, 1].map((id) => `${sandbox.url}${INSTRUMENTS}/id-${id}`))).toEqual([404, 500]);
});

test("calls say what was asked, and the control endpoint is none of them", async () => {
  const sandbox = await start();
  const control = `${sandbox.url}/sandbox`;
  const fail = (body: string) => fetch(`${control}/fail`, { method: "POST", body });
  expect((await fail('{"id":"Amulet","times":1,"fault":"503"}')).status).toBe(200);
  expect(await statusesOf([`${sandbox.url}${INSTRUMENTS}/Amulet?x=%zz`])).toEqual([503]);
  const calls = [{ operation: "instrument", method: "GET", url: `${INSTRUMENTS}/Amulet?x=%zz`, outcome: "answered" }];
  await expect.poll(() => sandbox.calls).toMatchObject(calls);
  expect(await (await fetch(`${control}/calls`)).json()).toMatchObject({ calls });
  expect((await fetch(`${control}/calls`, { method: "DELETE" })).status).toBe(200);
  expect(sandbox.calls).toEqual([]);
});

test.each(["", "{}", '{"id":1}', '{"id":"a","times":"x"}', '{"id":"a","fault":"no"}', "[]", "null", "{"])(
  "the control endpoint refuses %j with a reason",
  async (body) => {
    const { url } = await start();
    const answer = await fetch(`${url}/sandbox/fail`, { method: "POST", body });
    expect(answer.status).toBe(400);
    expect(await answer.json()).toEqual({ error: expect.any(String) });
    expect((await fetch(`${url}/sandbox/other`)).status).toBe(404);
  },
);

test.each<[SandboxOptions, RegExp]>([
  [{ instruments: -1 }, /instruments takes a number/],
  [{ instruments: "no-such-file.json" }, /cannot be read from no-such-file\.json/],
  [{ instruments: [BOND, BOND] }, /one id twice/],
  [{ instruments: [{ ...BOND, decimals: "2" as unknown as number }] }, /number 0, without/],
  [{ latency: "fast" }, /latency takes/],
  [{ latency: -1 }, /latency takes/],
  [{ faults: ["999"] }, /takes a status/],
  [{ faults: ["503@nothing"] }, /one of the endpoints/],
  [{ version: "v3" as "v2" }, /version takes v2 or v1/],
  [{ nodes: 0 }, /nodes takes a number from 1 to 50/],
  [{ nodes: 51 }, /nodes takes a number/],
  [{ nodes: "2x" }, /nodes takes a number/],
  [{ lies: ["often"] }, /lies takes one of always, sometimes/],
  [{ nodes: 3, lies: ["always:0"] }, /lies takes one of/],
  [{ nodes: 3, lies: ["always:2", "blob:2"] }, /lies names 4 nodes, and there are 3/],
  [{ rollOver: "often" }, /rollOver takes a duration/],
  [{ rollOver: 399 }, /rollOver takes 400ms at least/],
])("%j is refused", async (options, why) => {
  const error = await startSandbox(options).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(SandboxOptionError);
  expect((error as Error).message).toMatch(why);
});
