import { randomBytes } from "node:crypto";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { Pool } from "undici";
import { AGENTS } from "../bench/load.ts";
import { seededRandom } from "../../src/sandbox/random.ts";
import { optionsOfParent, tellParent } from "../support/forks.ts";
import { type Day, type Registry, zipf } from "./plan.ts";
import { isCall, Judge, pagesOf, pathOf, type Question, requestBody, type Verdict } from "./truth.ts";

/** All wallets of a day, in a process of their own. */

export interface WalletsOptions {
  readonly day: Day;
  /** Base URLs of each registry, each as good as the others. */
  readonly bases: readonly (readonly string[])[];
  readonly hasAddresses: boolean;
}

export type WalletsCommand = { readonly do: "begin"; readonly begin: number } | { readonly do: "purged" };

/** What became of some requests; p99: milliseconds until right answers were there. */
export type Outcome = Readonly<Record<Verdict | "p99", number>>;

export interface WalletsReply {
  /** By `kind`, `kind/fault` and `kind/fault/affected`, where the kind is `reads` or `calls` and a fault may be `quiet`. */
  readonly outcomes: Readonly<Record<string, Outcome>>;
  /** Milliseconds that this process was late, at most 99 times of 100: what latencies may be too long by. */
  readonly lateness: number;
  /** What was not answered right, the most frequent first. */
  readonly troubles: readonly string[];
}

type Holding = { readonly registry: Registry; readonly instrument: number };
type Wallet = { readonly holdings: readonly Holding[]; readonly headers: Readonly<Record<string, string>> };
type Task = { readonly at: number; readonly run: () => Promise<unknown> };

/** How many wallets start at once on an empty cache, of all, and how long it takes them. */
const HERD = { share: 0.1, within: 3_000 };
const LOOK_EVERY = 30_000;
const [TRANSFERS_PER_SECOND, HOLDINGS] = [2, 4];
const PATIENCE = { headersTimeout: 10_000, bodyTimeout: 10_000 };
const MOST_TOLD = 40;

const { day, bases, hasAddresses } = optionsOfParent() as WalletsOptions;
const random = seededRandom(2026);
const judge = new Judge(day);
const pools = new Map<string, Pool>();
const tallies = new Map<string, { readonly verdicts: Record<Verdict, number>; readonly latencies: number[] }>();
const troubles = new Map<string, number>();
/** When the day begins, in milliseconds since 1970, and when an operator's purge was confirmed, since then. */
let begin = 0;
let purgedAt: number | undefined;
const now = (): number => Date.now() - begin;

function makeWallets(): readonly Wallet[] {
  const chooseRegistry = zipf(day.registries.length);
  return Array.from({ length: day.wallets }, (_none, i) => {
    const agent = AGENTS[i % AGENTS.length]!;
    const holdings = Array.from({ length: HOLDINGS }, () => {
      const registry = day.registries[chooseRegistry(random())]!;
      return { registry, instrument: zipf(registry.instruments)(random()) };
    });
    const token = Buffer.from(`wallet ${i} `.repeat(30)).toString("base64url");
    const headers = {
      ...Object.fromEntries(agent.flatMap((text, at) => (at % 2 === 0 ? [[text, agent[at + 1]!]] : []))),
      "content-type": "application/json",
      authorization: `Bearer eyJhbGciOiJIUzI1NiJ9.${token}.${i}`,
      ...(hasAddresses && { "x-envoy-external-address": `10.0.${i >> 8}.${i & 255}` }),
    };
    return { holdings, headers };
  });
}

/** The same tasks at the same moments for every contestant: a slow one does not slow them. */
function planTasks(): readonly Task[] {
  const { length } = day;
  const wallets = makeWallets();
  // Few at dawn and at night, most at noon.
  const isActive = (at: number): boolean => random() < 0.4 + 0.6 * Math.sin((Math.PI * at) / length) ** 2;
  const moment = (): number => {
    for (;;) {
      const at = random() * length;
      if (isActive(at)) return at;
    }
  };
  const tasks: Task[] = [];
  for (const [i, wallet] of wallets.entries()) {
    const start = i < wallets.length * HERD.share ? random() * Math.min(HERD.within, length) : moment();
    tasks.push({ at: start, run: () => readAll(wallet) });
    for (let at = start + LOOK_EVERY * random(); at < length; at += LOOK_EVERY * (0.9 + 0.2 * random())) {
      if (isActive(at)) tasks.push({ at, run: () => look(wallet) });
    }
  }
  for (let left = (TRANSFERS_PER_SECOND * length) / 1_000; left >= 1; left -= 1) {
    const wallet = wallets[Math.floor(random() * wallets.length)]!;
    const holding = wallet.holdings[Math.floor(random() * HOLDINGS)]!;
    tasks.push({ at: moment(), run: () => transfer(wallet, holding) });
  }
  return tasks.sort((a, b) => a.at - b.at);
}

/** What the SDK does at a start and before each transfer: one registry after the other, and page after page. */
async function readAll(wallet: Wallet): Promise<void> {
  for (const registry of day.registries) {
    await ask(wallet, registry, { kind: "info" });
    for (let page = 0; page < pagesOf(registry); page += 1) await ask(wallet, registry, { kind: "page", page });
  }
}

function look(wallet: Wallet): Promise<unknown> {
  const asked = wallet.holdings.flatMap(({ registry, instrument }) => [
    ask(wallet, registry, { kind: "info" }),
    ask(wallet, registry, { kind: "instrument", instrument }),
  ]);
  return Promise.all(asked);
}

async function transfer(wallet: Wallet, { registry, instrument }: Holding): Promise<void> {
  const nonce = randomBytes(68).toString("hex");
  await readAll(wallet);
  await ask(wallet, registry, { kind: "instrument", instrument });
  await ask(wallet, registry, { kind: "factory", nonce, instrument });
  await ask(wallet, registry, { kind: "context", nonce, instrument });
}

async function ask({ headers }: Wallet, registry: Registry, question: Question): Promise<void> {
  const sentAt = now();
  const { status, body } = await send(headers, registry, question);
  const at = now();
  const isPurged = day.faults.some(({ name, registry: of }) => name === "purge" && of === registry.number);
  const purged = isPurged ? purgedAt : undefined;
  const verdict = judge.judge({ registry, question, sentAt, at, status, body, purgedAt: purged });
  const fault = day.faults.find(({ from, to }) => sentAt >= from && sentAt < to);
  const kind = isCall(question) ? "calls" : "reads";
  const names = [kind, `${kind}/${fault?.name ?? "quiet"}`, ...(fault === undefined ? [] : [`${kind}/in faults`])];
  if (fault?.registry === registry.number) names.push(`${kind}/${fault.name}/affected`);
  for (const name of names) {
    const tally = tallies.get(name) ?? { verdicts: { right: 0, error: 0, wrong: 0, stale: 0 }, latencies: [] };
    tallies.set(name, tally);
    tally.verdicts[verdict] += 1;
    if (verdict === "right") tally.latencies.push(at - sentAt);
  }
  if (verdict === "right") return;
  const said = /"code":"(\w+)"/.exec(body.toString())?.[1] ?? body.toString("utf8", 0, 60);
  const trouble = `${fault?.name ?? "quiet"}, r${registry.number}, ${question.kind}: ${verdict}, ${status} ${said}`;
  troubles.set(trouble, (troubles.get(trouble) ?? 0) + 1);
}

/** Status 0: there was no answer. */
async function send(headers: Wallet["headers"], registry: Registry, question: Question) {
  const all = bases[registry.number]!;
  const base = new URL(all[Math.floor(Math.random() * all.length)]!);
  const pool = pools.get(base.origin) ?? new Pool(base.origin, PATIENCE);
  pools.set(base.origin, pool);
  const body = requestBody(registry, question) ?? null;
  const path = (base.pathname === "/" ? "" : base.pathname) + pathOf(registry, question);
  const trace = randomBytes(8).toString("hex");
  const fields = { ...headers, traceparent: `00-${trace}${trace}-${trace}-01` };
  try {
    const answer = await pool.request({ path, method: body === null ? "GET" : "POST", headers: fields, body });
    return { status: answer.statusCode, body: Buffer.from(await answer.body.arrayBuffer()) };
  } catch (error) {
    return { status: 0, body: Buffer.from(String(error)) };
  }
}

async function play(): Promise<void> {
  const delays = monitorEventLoopDelay({ resolution: 1 });
  delays.enable();
  const running: Promise<unknown>[] = [];
  for (const { at, run } of planTasks()) {
    if (at > now()) await sleep(at - now());
    running.push(run());
  }
  await Promise.all(running);
  const outcomes = [...tallies].map(([name, { verdicts, latencies }]): [string, Outcome] => {
    const sorted = Float64Array.from(latencies).sort();
    return [name, { ...verdicts, p99: sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0 }];
  });
  const lateness = delays.percentile(99) / 1e6 - 1;
  const worst = [...troubles].toSorted(([, a], [, b]) => b - a).slice(0, MOST_TOLD);
  const told = worst.map(([trouble, count]) => `${count} × ${trouble}`);
  tellParent({ outcomes: Object.fromEntries(outcomes), lateness, troubles: told } satisfies WalletsReply);
}

process.on("message", (command: WalletsCommand) => {
  if (command.do === "purged") purgedAt = now();
  else {
    begin = command.begin;
    void play();
  }
});
tellParent({});
