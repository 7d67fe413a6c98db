import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { Agent, request } from "undici";
import { contractId } from "../../../src/sandbox/contracts.ts";
import { mulberry32 } from "../../../src/sandbox/random.ts";
import { ChangingClients, type Rights } from "../../support/changing-clients.ts";
import {
  type FiveRegistries,
  startFiveRegistries,
  UPSTREAMS,
  type UpstreamName,
} from "../../support/five-registries.ts";
import { testConfig } from "../../support/gateway.ts";
import { runs } from "../../support/thorough.ts";

const REQUESTS = runs(400, 100_000);
const AT_ONCE = 24;
const CHANGES = runs(4, 60);
const LEAST_CHANGES = 2;

const PREFIX = "/api/token-standard/v0/registrars";
const LISTING = "/registry/metadata/v1/instruments";

let running: FiveRegistries;
let clients: ChangingClients;
const agent = new Agent({ connections: AT_ONCE, pipelining: 1 });

beforeAll(async () => {
  running = await startFiveRegistries({ clients: { anonymous: false, tiers: tiersOf(undefined) } });
  clients = new ChangingClients(running.keysFile);
  await applied(0)();
});

afterAll(async () => {
  await agent.close();
  await running?.stop();
});

function tiersOf(views: Rights["views"] | undefined): Record<string, unknown> {
  const names = { wallet: ["amulet", "bonds", "funds"], exchange: UPSTREAMS, partner: ["bonds", "stocks"], ...views };
  return Object.fromEntries(Object.entries(names).map(([name, upstreams]) => [name, { upstreams }]));
}

/** Waits until the gateway has said once more that keys changed. */
function applied(since = countChanges()): () => Promise<void> {
  return () => vi.waitFor(() => expect(countChanges()).toBeGreaterThan(since), { interval: 50, timeout: 60_000 });
}

function countChanges(): number {
  return running.lines.filter(({ msg }) => msg === "client keys changed").length;
}

interface Question {
  readonly method: "GET" | "POST" | "HEAD";
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body?: string;
  /** Undefined: what is made of all that the client may see. */
  readonly upstream: UpstreamName | undefined;
  readonly key: string | undefined;
}

const pick = <T>(random: () => number, list: readonly T[]): T => list[Math.floor(random() * list.length)]!;

function askAtRandom(random: () => number): Question {
  const name = pick(random, UPSTREAMS);
  const key = random() < 0.03 ? undefined : pick(random, clients.everKnown);
  const shown: Record<string, string> =
    key === undefined ? {} : random() < 0.5 ? { "x-api-key": key } : { authorization: `Bearer ${key}` };
  if (random() < 0.3) {
    const path = pick(random, [`${LISTING}?pageSize=100`, "/catalog/v1/registries", "/"]);
    return { method: "GET", path, headers: { ...shown, accept: "application/json" }, upstream: undefined, key };
  }
  const admin = running.registries[name].admin;
  const route = pick(random, [
    { method: "GET", path: "/registry/metadata/v1/info" },
    { method: "GET", path: `${LISTING}?pageSize=3` },
    { method: "HEAD", path: `${LISTING}/${name.toUpperCase()}-00001` },
    { method: "GET", path: `${LISTING}/${name.toUpperCase()}-00002` },
    { method: "GET", path: "/registry/drafts/v1/x" },
    {
      method: "POST",
      path: `/registry/allocations/v1/${contractId(admin, "an allocation")}/choice-contexts/cancel`,
      body: "{}",
    },
  ] as const);
  const isByHeader = random() < 0.3;
  const registrar = random() < 0.5 ? name : encodeURIComponent(admin);
  return {
    ...route,
    path: isByHeader ? route.path : `${PREFIX}/${registrar}${route.path}`,
    headers: { ...shown, "content-type": "application/json", ...(isByHeader ? { "x-instrument-admin": admin } : {}) },
    upstream: name,
    key,
  };
}

/** What the answer has to be, in few words. */
function expectedOf({ key, upstream, path }: Question, { keys, views }: Rights): string {
  const tier = key === undefined ? undefined : keys.get(key);
  if (tier === undefined) return "401";
  const view = views[tier]!;
  if (upstream !== undefined) return view.includes(upstream) ? "200" : "403";
  const seen = UPSTREAMS.filter((name) => view.includes(name));
  return `200 ${path.startsWith(LISTING) ? seen.map((name) => `${name}:7`).join() : seen.join()}`;
}

/** The answer in the same words. */
function wordsOf({ upstream, path }: Question, status: number, text: string): string {
  if (status !== 200 || upstream !== undefined) return String(status);
  const json = JSON.parse(text) as { instruments?: { id: string }[]; registries?: { name: string }[] };
  if (!path.startsWith(LISTING)) return `200 ${json.registries!.map(({ name }) => name).join()}`;
  const counts = Object.entries(Object.groupBy(json.instruments!, ({ id }) => id.slice(0, -6).toLowerCase()));
  return `200 ${counts.map(([name, ids]) => `${name}:${ids!.length}`).join()}`;
}

test(`of ${REQUESTS} requests while keys and tiers change, each gets what its client may have, and nothing else`, async () => {
  const seed = Date.now() % 1_000_000;
  const random = mulberry32(seed);
  const outcomes: Record<string, number> = {};
  const wrong: unknown[] = [];
  let asked = 0;
  let changes = 0;
  // Clients go on until there was something to change for.
  const isDone = () => (asked >= REQUESTS && changes >= LEAST_CHANGES) || wrong.length > 0;
  async function askOn(): Promise<void> {
    while (!isDone()) {
      asked++;
      const question = askAtRandom(random);
      const since = clients.now;
      const { method, path, headers, body } = question;
      const answer = await request(`${running.url}${path}`, { dispatcher: agent, method, headers, body: body ?? null });
      const words = wordsOf(question, answer.statusCode, await answer.body.text());
      const expected = clients.between(since).map((rights) => expectedOf(question, rights));
      outcomes[words.slice(0, 3)] = (outcomes[words.slice(0, 3)] ?? 0) + 1;
      if (!expected.includes(words)) wrong.push({ method, path, words, expected });
    }
  }
  async function change(): Promise<void> {
    for (let at = 0; at < CHANGES && !isDone(); at++, changes++) {
      if (at % 2 === 0) await clients.rotate(Math.floor(random() * 50), applied());
      else {
        const tier = pick(random, ["wallet", "partner"]);
        await clients.changeView(tier, pick(random, UPSTREAMS.slice(1, 4)), (views) =>
          running.gateway.reload(
            testConfig({
              ...running.configured,
              clients: { ...(running.configured["clients"] as object), tiers: tiersOf(onlyTiers(views)) },
            }),
          ),
        );
      }
    }
  }
  await Promise.all([change(), ...Array.from({ length: AT_ONCE }, askOn)]);
  console.log(`seed ${seed}: ${changes} changes, ${JSON.stringify(outcomes)}`);
  expect(wrong).toEqual([]);
  expect(changes).toBeGreaterThanOrEqual(LEAST_CHANGES);
  for (const status of ["200", "401", "403"]) expect(outcomes[status]).toBeGreaterThan(REQUESTS / 100);
}, 1_800_000);

function onlyTiers({ wallet, exchange, partner }: Rights["views"]): Rights["views"] {
  return { wallet: wallet!, exchange: exchange!, partner: partner! };
}
