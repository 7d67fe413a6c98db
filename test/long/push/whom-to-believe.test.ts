import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { LIES, type Lie } from "../../../src/sandbox/lies.ts";
import { mulberry32, randomInteger } from "../../../src/sandbox/random.ts";
import { type SandboxNode, type SandboxOptions, startSandbox } from "../../../src/sandbox/sandbox.ts";
import { runHere } from "../../support/command.ts";
import { NOTHING_KEPT, startGateway } from "../../support/gateway.ts";
import { useTemporaryFolder } from "../../support/temporary-folder.ts";
import { runs } from "../../support/thorough.ts";

const folder = useTemporaryFolder();
const INSTRUMENTS = "/registry/metadata/v1/instruments";
const ACCEPT = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";
const FACTORY = "/registry/allocation-instruction/v1/allocation-factory";

async function startNodes(options: SandboxOptions) {
  const sandbox = await startSandbox({ instruments: 30, ...options });
  onTestFinished(() => sandbox.close());
  return sandbox;
}

interface Kept {
  readonly agreement: object;
  readonly keys?: object;
}

/** A gateway before these nodes that keeps nothing; started when all of them are in use. */
async function startBefore(admin: string, nodes: readonly SandboxNode[], { agreement, keys = {} }: Kept) {
  const urls = nodes.map(({ url }) => url);
  const upstream = { name: "many", admin, urls, hedge: { enabled: false }, agreement, ...keys };
  const gateway = await startGateway({ upstreams: [upstream], ...NOTHING_KEPT });
  const ask = async (path: string) => {
    const post = { method: "POST", headers: { "content-type": "application/json" }, body: bodyOf(path) };
    const answer = await fetch(gateway.registrar(admin) + path, path.startsWith(INSTRUMENTS) ? {} : post);
    return { status: answer.status, text: await answer.text() };
  };
  return { ...gateway, ask };
}

function bodyOf(path: string): string {
  return path === FACTORY ? '{"choiceArguments":{}}' : "{}";
}

/** What counts of an answer: a status that is no success, a context, an instrument, or each instrument of a page. */
function partsOf({ status, text }: { readonly status: number; readonly text: string }): readonly string[] {
  if (status !== 200) return [String(status)];
  const json = JSON.parse(text) as Record<string, unknown>;
  if (Array.isArray(json["instruments"])) return json["instruments"].map((each) => JSON.stringify(each));
  const context = (json["choiceContext"] ?? json) as { choiceContextData?: object; disclosedContracts?: object[] };
  const contracts = context.disclosedContracts?.map((each) => JSON.stringify(each)).toSorted();
  return [JSON.stringify([json["factoryId"], contracts === undefined ? json : context.choiceContextData, contracts])];
}

/** Everything that a node says at this path: all that it may draw, on all of its pages. */
async function allSaidBy({ url, lie }: SandboxNode, path: string): Promise<ReadonlySet<string>> {
  const all = new Set<string>();
  const post = { method: "POST", headers: { "content-type": "application/json" }, body: bodyOf(path) };
  for (let time = lie === "sometimes" ? 12 : 1; time > 0; time -= 1) {
    for (let next: string | undefined = path; next !== undefined;) {
      const answer = await fetch(url + next, path.startsWith(INSTRUMENTS) ? {} : post);
      const said = { status: answer.status, text: await answer.text() };
      for (const part of partsOf(said)) all.add(part);
      const token = (JSON.parse(said.text) as { nextPageToken?: string }).nextPageToken;
      next = typeof token === "string" ? `${path}?pageToken=${encodeURIComponent(token)}` : undefined;
    }
  }
  return all;
}

/** Who says what an honest node says, by path. */
const TRUTHFUL: Readonly<Record<string, readonly (Lie | undefined)[]>> = {
  [ACCEPT]: [undefined, "order", "cuts"],
  [FACTORY]: [undefined, "order", "cuts"],
  [`${INSTRUMENTS}/Amulet`]: [undefined, "order", "cuts", "late", "blob", "duplicates"],
  [INSTRUMENTS]: [undefined, "order", "cuts", "late", "blob"],
};
const ROUNDS = runs(4, 400);

test(`${ROUNDS} gateways before some of 24 nodes of every kind give what as many say as are needed, and always what as many honest ones say`, async () => {
  const lies = LIES.map((lie) => `${lie}:${lie === "slow" ? 1 : 2}`);
  const { admin, nodes } = await startNodes({ nodes: 24, lies });
  const said = new Map<string, ReadonlySet<string>>();
  for (const path of Object.keys(TRUTHFUL)) {
    for (const node of nodes) if (node.lie !== "slow") said.set(node.url + path, await allSaidBy(node, path));
  }
  const random = mulberry32(Date.now());
  for (let round = 0; round < ROUNDS; round += 1) {
    const chosen = nodes.filter(() => random() < 0.4).slice(0, 13);
    const needed = 2 + randomInteger(random, 3);
    if (chosen.length < needed) continue;
    const keys = { timeout: "1m", attemptTimeout: "600ms" };
    const gateway = await startBefore(admin, chosen, { agreement: { metadata: needed, contexts: needed }, keys });
    const what = `${needed} of ${chosen.map(({ lie }) => lie ?? "honest").join(" ")}`;
    for (const [path, truthful] of Object.entries(TRUTHFUL)) {
      const answer = await gateway.ask(path);
      const parts = partsOf(answer);
      const supporters = chosen.filter(({ url }) => parts.every((part) => said.get(url + path)?.has(part) === true));
      if (supporters.length >= needed) continue;
      const honest = chosen.filter(({ lie }) => truthful.includes(lie)).length;
      expect([what, path, answer.status, honest < needed]).toEqual([what, path, 502, true]);
      expect(JSON.parse(answer.text)).toMatchObject({ code: "nodes_disagree" });
    }
    await gateway.stop();
  }
});

test("nodes that cut pages in two ways are read from end to end, and a liar among them is not believed", async () => {
  const { admin, nodes } = await startNodes({ nodes: 3, lies: ["always", "cuts"] });
  const gateway = await startBefore(admin, nodes, { agreement: { metadata: 2 } });
  onTestFinished(() => gateway.stop());
  for (let time = 0; time < 5; time += 1) {
    const names: string[] = [];
    for (let token: string | undefined = ""; token !== undefined;) {
      const { status, text } = await gateway.ask(INSTRUMENTS + (token === "" ? "" : `?pageToken=${token}`));
      expect([status, text]).toEqual([200, expect.any(String)]);
      const page = JSON.parse(text) as { instruments: { name: string }[]; nextPageToken?: string | null };
      names.push(...page.instruments.map(({ name }) => name));
      token =
        page.nextPageToken === null || page.nextPageToken === undefined
          ? undefined
          : encodeURIComponent(page.nextPageToken);
    }
    expect(new Set(names).size).toBe(30);
    expect(names.join()).not.toContain("of node");
  }
});

test("two liars of five that agree are believed by two, not by three", async () => {
  const { admin, nodes } = await startNodes({ nodes: 5, lies: ["colluding:2"] });
  const honest = partsOf(await (await startStopped(admin, nodes.slice(0, 1), { contexts: 1 }))(ACCEPT));
  const gateway = await startBefore(admin, nodes, { agreement: { contexts: 3 } });
  onTestFinished(() => gateway.stop());
  for (let time = 0; time < 20; time += 1) expect(partsOf(await gateway.ask(ACCEPT))).toEqual(honest);
});

async function startStopped(admin: string, nodes: readonly SandboxNode[], agreement: object) {
  const gateway = await startBefore(admin, nodes, { agreement });
  onTestFinished(() => gateway.stop());
  return gateway.ask;
}

test("nodes that all say something else are a 502 that does not say what; log and status do, with digests of ids", async () => {
  const { admin, nodes } = await startNodes({ nodes: 3, lies: ["always:3"] });
  const gateway = await startBefore(admin, nodes, { agreement: { contexts: 2, metadata: 2 } });
  onTestFinished(() => gateway.stop());
  const context = await gateway.ask(ACCEPT);
  expect([context.status, JSON.parse(context.text)]).toEqual([
    502,
    expect.objectContaining({ code: "nodes_disagree" }),
  ]);
  expect(context.text).not.toMatch(/choiceContextData|127\.0\.0\.1|invented/);
  expect((await gateway.ask(INSTRUMENTS)).status).toBe(502);
  const status = await (await fetch(`${gateway.operations}/status`)).text();
  const { lastDifference } = (JSON.parse(status) as { upstreams: { lastDifference: { parts: string[] } }[] })
    .upstreams[0]!;
  expect(lastDifference).toMatchObject({
    operation: "instruments",
    nodes: [[expect.any(Number)], [expect.any(Number)], [expect.any(Number)]],
  });
  for (const part of lastDifference.parts) expect(part).toMatch(/^instrument [\w-]{12}$/);
  expect(status).not.toContain("Amulet of");
  const { stdout } = await runHere(["status", "--url", gateway.operations]);
  expect(stdout.replaceAll(/\s+/g, " ")).toMatch(
    /many: node \d against node \d against node \d in instruments at 20\S+: instrument [\w-]{12}/,
  );
  const metrics = await (await fetch(`${gateway.operations}/metrics`)).text();
  for (const kind of ["metadata", "other"]) {
    const series = `registry_gateway_upstream_agreements_total{upstream="many",kind="${kind}",outcome="disagreed"} 1`;
    expect(metrics).toContain(series);
  }
  const line = gateway.lines.find(({ msg }) => msg === "nodes say different things");
  expect(line).toMatchObject({ operation: "transfer_accept", parts: expect.arrayContaining(["choiceContextData"]) });
});

test("two equal errors are an answer, one is none", async () => {
  const { admin, nodes } = await startNodes({ nodes: 4, lies: ["error:2"] });
  const one = await startStopped(admin, nodes.slice(0, 3), { contexts: 2 });
  for (let time = 0; time < 10; time += 1) expect((await one(ACCEPT)).status).toBe(200);
  const two = await startStopped(admin, nodes.slice(1), { contexts: 2 });
  expect((await two(ACCEPT)).status).toBe(404);
});

test("while rounds roll over from node to node every request is answered", async () => {
  const { admin, nodes } = await startNodes({ nodes: 13, rollOver: 3_000, lies: ["late:3"] });
  const gateway = await startBefore(admin, nodes, { agreement: { contexts: 7 } });
  onTestFinished(() => gateway.stop());
  const contexts = new Set<string>();
  const until = Date.now() + 4_500;
  const client = async (): Promise<void> => {
    while (Date.now() < until) {
      const answer = await gateway.ask(FACTORY);
      expect([answer.status, answer.text]).toEqual([200, expect.any(String)]);
      contexts.add(partsOf(answer)[0]!);
    }
  };
  await Promise.all([client(), client()]);
  // Those of two rounds or three, and no mixture of two.
  expect(contexts.size).toBeGreaterThanOrEqual(2);
  expect(contexts.size).toBeLessThanOrEqual(3);
});

test("check refuses an agreement of more nodes than there are", async () => {
  const file = join(folder(), "gateway.yaml");
  for (const key of ["metadata", "contexts", "admin"]) {
    writeFileSync(
      file,
      `upstreams: [{ name: a, admin: "a::1220aa", urls: [https://a.example, https://b.example], agreement: { ${key}: 3 } }]`,
    );
    const { code, stdout, stderr } = await runHere(["check", "--config", file]);
    expect([code, stdout + stderr]).toEqual([78, expect.stringContaining(`agreement.${key}`)]);
  }
});
