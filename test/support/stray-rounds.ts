import { expect } from "vitest";
import { startStrayHttp2Registry, STRAY_TLS } from "./stray-http2.ts";
import { callUnderStrays, startStrayRegistry, type Stray } from "./stray-registry.ts";
import { ADMIN, inTime, openUpstream } from "./upstream-registries.ts";

const EVERY_WAY: readonly Stray[] = ["extra", "doubled", "early", "cut"];
/** Nodes that stray in one way, and in every way. */
export const WAYS: readonly (readonly Stray[])[] = [["extra"], ["doubled"], ["early"], EVERY_WAY, EVERY_WAY];

/** Calls to one node of which nothing is known, which strays with each five-hundredth answer. */
export interface StrayRound {
  readonly protocol: "http/1.1" | "h2";
  readonly strays: readonly Stray[];
  readonly seed: number;
  readonly requests: number;
}

const NOTHING = {
  asked: 0,
  askedForOthers: 0,
  right: 0,
  failed: 0,
  wrongInstruments: 0,
  wrongInfos: 0,
  wrongPages: 0,
  wrongContexts: 0,
  strays: 0,
  found: 0,
};

export type StrayTotals = typeof NOTHING;

async function callNode({ protocol, strays, seed, requests }: StrayRound): Promise<StrayTotals> {
  const isHttp2 = protocol === "h2";
  const start = isHttp2 ? startStrayHttp2Registry : startStrayRegistry;
  const registry = await start({ seed, share: 0.002, strays, latency: 2 });
  // Over HTTP/1.1 half of an answer is waited for until then.
  const ofProtocol = isHttp2 ? { attemptTimeout: "4s", tls: STRAY_TLS } : { attemptTimeout: "500ms" };
  const keys = { admin: ADMIN, timeout: "5s", ...ofProtocol };
  const { upstream, upstreams, observer } = openUpstream([registry.url], keys);
  try {
    // A busy machine may take longer for a connection than one attempt has.
    const learn = () => upstream.learnAdmin(inTime(5_000)).catch(() => undefined);
    await expect.poll(learn).toBe(ADMIN);
    const counts = await callUnderStrays(upstream, { requests, concurrency: 16, seed: seed + 100 });
    if (upstream.status().nodes[0]!.protocol !== protocol) throw new Error(`the node does not speak ${protocol}`);
    return { ...counts, asked: requests, strays: registry.counts.strays, found: observer.count("out-of-step") };
  } finally {
    await upstreams.close();
    await registry.stop();
  }
}

/** What came of all rounds, five at a time, by protocol. */
export async function callInRounds(
  rounds: readonly StrayRound[],
): Promise<Record<StrayRound["protocol"], StrayTotals>> {
  const totals = { "http/1.1": { ...NOTHING }, h2: { ...NOTHING } };
  const left = [...rounds];
  const worker = async (): Promise<void> => {
    for (let round = left.shift(); round !== undefined; round = left.shift()) {
      const total = totals[round.protocol];
      const counts = await callNode(round);
      for (const [name, count] of Object.entries(counts)) total[name as keyof StrayTotals] += count;
    }
  };
  await Promise.all(WAYS.map(worker));
  return totals;
}
