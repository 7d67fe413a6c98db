import { spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { mulberry32 } from "../../../src/sandbox/random.ts";
import { NOTHING_KEPT, startGateway } from "../../support/gateway.ts";
import { Nginx } from "../../support/nginx.ts";
import { HAPROXY, provideProgram } from "../../support/programs.ts";
import { findFreePort } from "../../support/ports.ts";
import { startStrayRegistry } from "../../support/stray-registry.ts";
import { callInRounds, type StrayRound, WAYS } from "../../support/stray-rounds.ts";
import { ADMIN } from "../../support/upstream-registries.ts";

const REQUESTS = 20_000;
const ROUNDS = 10;

/** Calls of the gateway itself, a thousand to each node: four of five nodes speak HTTP/1.1, one HTTP/2. */
const CALLS = 1_000_000;
const CALLS_OF_ROUND = 1_000;
const LONGEST = 5_400_000;

/** Starts a front before the node at this port; returns the base URL of the node's registry behind it. */
type Front = (port: number) => Promise<string>;

const gateway: Front = async (port) => {
  const upstreams = [{ name: "a", urls: [`http://127.0.0.1:${port}`], admin: ADMIN }];
  const started = await startGateway({ upstreams, ...NOTHING_KEPT });
  onTestFinished(() => started.stop());
  return started.registrar(ADMIN);
};

const nginx: Front = async (port) => {
  const own = await findFreePort();
  const started = Nginx.start(`
    upstream node { server 127.0.0.1:${port}; keepalive 64; }
    server {
      listen 127.0.0.1:${own};
      location / { proxy_pass http://node; proxy_http_version 1.1; proxy_set_header Connection ""; }
    }`);
  onTestFinished(() => started.stop());
  return `http://127.0.0.1:${own}`;
};

const haproxy: Front = async (port) => {
  const own = await findFreePort();
  const file = join(mkdtempSync(join(tmpdir(), "haproxy-")), "haproxy.cfg");
  const text = `
defaults
  mode http
  timeout connect 5s
  timeout client 10s
  timeout server 10s
  http-reuse always
listen front
  bind 127.0.0.1:${own}
  server node 127.0.0.1:${port} pool-max-conn 64
`;
  writeFileSync(file, text);
  const child = spawn(provideProgram(HAPROXY), ["-db", "-q", "-f", file], { stdio: "ignore" });
  onTestFinished(() => void child.kill("SIGKILL"));
  return `http://127.0.0.1:${own}`;
};

interface Counts {
  readonly pages: number;
  readonly contexts: number;
  readonly instruments: number;
}

/** Pages, contexts and instruments by turns, and how many of each were another request's. */
async function countWrong(base: string, seed: number): Promise<Counts> {
  const counts = { pages: 0, contexts: 0, instruments: 0 };
  const random = mulberry32(seed);
  let next = 0;
  const one = async (n: number): Promise<void> => {
    const kind = (["pages", "contexts", "instruments"] as const)[Math.floor(random() * 3)]!;
    const path = {
      pages: `/registry/metadata/v1/instruments?pageToken=t${n}`,
      contexts: `/registry/transfer-instruction/v1/${n}abc/choice-contexts/accept`,
      instruments: `/registry/metadata/v1/instruments/token-${n}`,
    }[kind];
    const post = { method: "POST", headers: { "content-type": "application/json" }, body: "{}" };
    const answer = await fetch(base + path, kind === "contexts" ? post : {}).catch(() => undefined);
    const text = await answer?.text().catch(() => "");
    const expected = kind === "instruments" ? `token-${n}` : path;
    if (answer?.status === 200 && text?.includes(`"${expected}"`) !== true) counts[kind] += 1;
  };
  const client = async (): Promise<void> => {
    while (next < REQUESTS / ROUNDS) await one(next++);
  };
  await Promise.all(Array.from({ length: 16 }, client));
  return counts;
}

/** Of so many requests through a front, to nodes that answer once more with each five-hundredth answer. */
async function measure(front: Front): Promise<Counts> {
  const total = { pages: 0, contexts: 0, instruments: 0 };
  for (let seed = 1; seed <= ROUNDS; seed += 1) {
    const node = await startStrayRegistry({ seed, share: 0.002, strays: ["extra", "doubled", "early"] });
    const base = await front(Number(new URL(node.url).port));
    await expect
      .poll(() =>
        fetch(`${base}/registry/metadata/v1/info`)
          .then(({ status }) => status)
          .catch(() => 0),
      )
      .toBe(200);
    const counts = await countWrong(base, seed);
    for (const kind of ["pages", "contexts", "instruments"] as const) total[kind] += counts[kind];
  }
  return total;
}

/** How many of a thousand pages and contexts were another request's. */
function perThousand(wrong: number, asked: number): number {
  return (1_000 * wrong) / asked;
}

test(
  `of ${CALLS} calls to nodes that answer at random moments, a hundredth of those that go wrong before nginx and HAProxy do`,
  { timeout: LONGEST },
  async () => {
    const rounds = Array.from({ length: CALLS / CALLS_OF_ROUND }, (_, seed): StrayRound => ({
      protocol: seed % 5 === 4 ? "h2" : "http/1.1",
      // Each protocol with each way.
      strays: WAYS[Math.floor(seed / 5) % WAYS.length]!,
      seed,
      requests: CALLS_OF_ROUND,
    }));
    const { "http/1.1": own, h2 } = await callInRounds(rounds);
    console.log(JSON.stringify({ "http/1.1": own, h2 }));
    const [through, ofNginx, ofHaproxy] = [await measure(gateway), await measure(nginx), await measure(haproxy)];
    console.log(JSON.stringify({ gateway: through, nginx: ofNginx, haproxy: ofHaproxy }));
    expect(own.asked + h2.asked).toBe(CALLS);
    expect(own.right + h2.right).toBeGreaterThan(0.99 * CALLS);
    expect(h2).toMatchObject({ wrongInstruments: 0, wrongInfos: 0, wrongPages: 0, wrongContexts: 0 });
    expect(own).toMatchObject({ wrongInstruments: 0, wrongInfos: 0 });
    expect(through.instruments).toBe(0);
    for (const other of [ofNginx, ofHaproxy]) {
      expect(other.pages + other.contexts).toBeGreaterThan(100);
      const theirs = perThousand(other.pages + other.contexts, (REQUESTS * 2) / 3);
      const ours = perThousand(own.wrongPages + own.wrongContexts, own.askedForOthers);
      expect(ours).toBeLessThanOrEqual(theirs / 100);
      expect(through.pages + through.contexts).toBeLessThanOrEqual((other.pages + other.contexts) / 100);
    }
  },
);
