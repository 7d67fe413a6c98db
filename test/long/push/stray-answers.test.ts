import { expect, onTestFinished, test } from "vitest";
import { startGateway } from "../../support/gateway.ts";
import { callUnderStrays, startStrayRegistry, type Stray } from "../../support/stray-registry.ts";
import { ADMIN, inTime, openUpstream } from "../../support/upstream-registries.ts";

const EVERY_WAY: readonly Stray[] = ["extra", "doubled", "early", "cut"];
/** Nodes that stray in one way, and in every way. */
const NODES: readonly (readonly Stray[])[] = [["extra"], ["doubled"], ["early"], EVERY_WAY, EVERY_WAY];

interface Round {
  readonly strays: readonly Stray[];
  readonly seed: number;
  readonly requests: number;
}

/** Calls to a node that strays with each five-hundredth answer. */
async function callNode({ strays, seed, requests }: Round) {
  const registry = await startStrayRegistry({ seed, share: 0.002, strays, latency: 2 });
  const keys = { admin: ADMIN, attemptTimeout: "500ms", timeout: "5s" };
  const { upstream, observer } = openUpstream([registry.url], keys);
  await upstream.learnAdmin(inTime(5_000));
  const counts = await callUnderStrays(upstream, { requests, concurrency: 16, seed: seed + 100 });
  return { ...counts, strays: registry.counts.strays, found: observer.count("out-of-step") };
}

async function callAll(rounds: readonly Round[]) {
  const totals = {
    right: 0,
    failed: 0,
    wrongInstruments: 0,
    wrongInfos: 0,
    wrongPages: 0,
    wrongContexts: 0,
    strays: 0,
    found: 0,
  };
  const left = [...rounds];
  const worker = async (): Promise<void> => {
    for (let round = left.shift(); round !== undefined; round = left.shift()) {
      const counts = await callNode(round);
      for (const [name, count] of Object.entries(counts)) totals[name as keyof typeof totals] += count;
    }
  };
  await Promise.all(NODES.map(worker));
  return totals;
}

test.each<[string, readonly Round[]]>([
  [
    "25,000 calls to five nodes, most of them when they are known for it",
    NODES.map((strays, seed) => ({ strays, seed, requests: 5_000 })),
  ],
  [
    "25,000 calls to nodes of which nothing is known, a thousand each",
    Array.from({ length: 25 }, (_, seed) => ({ strays: NODES[seed % 5]!, seed, requests: 1_000 })),
  ],
])("of %s, none for an instrument or an info gets another's answer", async (_what, rounds) => {
  const totals = await callAll(rounds);
  expect(totals).toMatchObject({ wrongInstruments: 0, wrongInfos: 0 });
  expect(totals.found).toBeGreaterThan(0);
  // At most some that came a moment late; before, all answers behind a stray one followed it, each a place too far.
  expect(totals.wrongPages + totals.wrongContexts).toBeLessThanOrEqual(totals.strays / 5);
  expect(totals.right).toBeGreaterThan(24_000);
});

test("of 2,000 instruments and pages that were stored meanwhile, none is under another's key once that was found", async () => {
  const registry = await startStrayRegistry({
    seed: 7,
    share: 0.01,
    strays: ["extra", "doubled", "early"],
    latency: 2,
  });
  const gateway = await startGateway({
    upstreams: [
      { name: "a", urls: [registry.url], admin: ADMIN, cache: { ttl: { instrument: "10m", instruments: "10m" } } },
    ],
  });
  onTestFinished(() => gateway.stop());
  const base = `${gateway.registrar(ADMIN)}/registry/metadata/v1/instruments`;
  const ask = async (n: number) => {
    const isPage = n % 2 === 0;
    const path = isPage ? `?pageSize=${n + 1}` : `/token-${n}`;
    const answer = await fetch(base + path);
    const text = await answer.text();
    if (answer.status !== 200) return { path, isHit: false, isRight: true };
    const body = JSON.parse(text) as { id?: string; instruments?: { id: string }[] };
    const isRight = isPage ? body.instruments?.[0]?.id.endsWith(path) === true : body.id === `token-${n}`;
    return { path, isHit: answer.headers.get("cache-status")?.includes("hit") === true, isRight };
  };
  const askAll = async () => {
    const answers: Awaited<ReturnType<typeof ask>>[] = [];
    let next = 0;
    const client = async (): Promise<void> => {
      while (next < 2_000) answers.push(await ask(next++));
    };
    await Promise.all(Array.from({ length: 16 }, client));
    return answers;
  };
  const first = await askAll();
  expect(first.filter(({ path, isRight }) => !isRight && path.startsWith("/"))).toEqual([]);
  expect(registry.counts.strays).toBeGreaterThan(5);
  registry.behave();
  const second = await askAll();
  expect(second.filter(({ isRight }) => !isRight)).toEqual([]);
  expect(second.filter(({ isHit }) => isHit).length).toBeGreaterThan(1_000);
});
