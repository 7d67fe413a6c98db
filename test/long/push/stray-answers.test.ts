import { expect, onTestFinished, test } from "vitest";
import { startGateway } from "../../support/gateway.ts";
import { startStrayRegistry } from "../../support/stray-registry.ts";
import { callInRounds, type StrayRound, WAYS } from "../../support/stray-rounds.ts";
import { runs } from "../../support/thorough.ts";
import { ADMIN } from "../../support/upstream-registries.ts";

const over = (protocol: StrayRound["protocol"], rounds: number, requests: number): readonly StrayRound[] =>
  Array.from({ length: rounds }, (_, seed) => ({ protocol, strays: WAYS[seed % WAYS.length]!, seed, requests }));

/** Calls to one node, most of them when it is known for it; nodes of which nothing is known, a thousand calls each. */
const CALLS = runs(2_000, 5_000);
const NODES = runs(10, 25);

test.each<[string, readonly StrayRound[], number]>([
  [`${5 * CALLS} calls to five nodes, most of them when they are known for it`, over("http/1.1", 5, CALLS), 5 * CALLS],
  [
    `${1_000 * NODES} calls to nodes of which nothing is known, a thousand each`,
    over("http/1.1", NODES, 1_000),
    1_000 * NODES,
  ],
])("of %s, none for an instrument or an info gets another's answer", async (_what, rounds, calls) => {
  const { "http/1.1": totals } = await callInRounds(rounds);
  expect(totals).toMatchObject({ wrongInstruments: 0, wrongInfos: 0 });
  expect(totals.found).toBeGreaterThan(0);
  // At most some that came a moment late; before, all answers behind a stray one followed it, each a place too far.
  expect(totals.wrongPages + totals.wrongContexts).toBeLessThanOrEqual(totals.strays / 5);
  expect(totals.right).toBeGreaterThan(0.96 * calls);
});

const OVER_HTTP2 = runs(5, 10);

test(`of ${1_000 * OVER_HTTP2} calls over HTTP/2 to nodes that do the same, none gets another's answer`, async () => {
  const { h2 } = await callInRounds(over("h2", OVER_HTTP2, 1_000));
  expect(h2).toMatchObject({ wrongInstruments: 0, wrongInfos: 0, wrongPages: 0, wrongContexts: 0 });
  expect(h2.strays).toBeGreaterThan(5);
  expect(h2.right).toBeGreaterThan(950 * OVER_HTTP2);
});

const STORED = runs(2_000, 10_000);

test(`of ${STORED} instruments and pages that were stored meanwhile, none is under another's key once that was found`, async () => {
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
      while (next < STORED) answers.push(await ask(next++));
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
  expect(second.filter(({ isHit }) => isHit).length).toBeGreaterThan(STORED / 2);
});
