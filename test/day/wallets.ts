import { randomBytes } from "node:crypto";
import { Pool } from "undici";
import type { Day, Fault, FaultName, Registry } from "./plan.ts";
import { seeded, zipf } from "./random.ts";
import { type Noted, type Outcome, Tallies } from "./tally.ts";
import { Judge, pagesOf, pathOf, type Question, requestBody, type Verdict, versionAt } from "./truth.ts";

export interface WalletsOptions {
  readonly day: Day;
  /** Base URLs of each registry, for wallets: one of them at random for each request. */
  readonly bases: readonly (readonly string[])[];
  /** Wallets reach registries from addresses of their own. */
  readonly hasAddresses: boolean;
}

export interface WalletsResult {
  /** By `kind`, `kind/fault` and `kind/fault/affected`, where the kind is `reads` or `calls` and a fault may be `quiet`. */
  readonly outcomes: Readonly<Record<string, Outcome>>;
  /** Milliseconds from the purged change to the first answer that had it, and to the last that had it not. */
  readonly firstSight: number | undefined;
  readonly lastOld: number | undefined;
  /** Tasks that were left out because too many were running. */
  readonly skipped: number;
  /** The first {@link MOST_TOLD} requests that were not answered right, in their order. */
  readonly troubles: readonly Trouble[];
}

/** A request that was not answered right. */
export interface Trouble {
  /** When it was sent, in seconds since the day began. */
  readonly at: number;
  /** Until its answer was there, in milliseconds. */
  readonly took: number;
  readonly fault: FaultName | undefined;
  /** The registry's number, and what it was asked. */
  readonly registry: number;
  readonly asked: Question["kind"];
  readonly verdict: Verdict;
  /** 0: there was no answer. */
  readonly status: number;
  /** Why there was no answer, its `Cache-Status`, the code of an error's body, or the beginning of another body. */
  readonly said: string;
}

interface Wallet {
  readonly holdings: readonly Holding[];
  readonly headers: Readonly<Record<string, string>>;
}

interface Holding {
  readonly registry: Registry;
  readonly instrument: number;
}

interface Task {
  readonly at: number;
  readonly run: () => Promise<void>;
}

interface Answer {
  readonly status: number;
  readonly body: Buffer;
  /** Why there is no answer, or no end of it. */
  readonly failure?: string;
  readonly cacheStatus?: string | undefined;
}

/** How many wallets start at once on an empty cache, of all, and how long it takes them. */
const HERD = { share: 0.1, within: 3_000 };
const LOOK_EVERY = 30_000;
const TRANSFERS_PER_SECOND = 2;
const HOLDINGS = 4;
const REQUEST_TIMEOUT = 10_000;
const MOST_RUNNING = 3_000;
const MOST_TOLD = 40;
const AGENTS = [
  { "user-agent": "node", accept: "*/*", "accept-language": "*", "sec-fetch-mode": "cors" },
  { "user-agent": "axios/1.7.9", accept: "application/json, text/plain, */*" },
  { "user-agent": "Go-http-client/1.1" },
  {
    "user-agent": "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 Chrome/142.0.0.0 Safari/537.36",
    accept: "*/*",
    "accept-language": "de-CH,de;q=0.9,en;q=0.7",
    origin: "https://wallet.example",
    referer: "https://wallet.example/",
  },
];

/** All wallets of a day. */
export class Wallets {
  private readonly day: Day;
  private readonly bases: WalletsOptions["bases"];
  private readonly begin: number;
  private readonly pools = new Map<string, Pool>();
  private readonly random = seeded(2026);
  private readonly judge: Judge;
  private readonly tallies = new Tallies();
  private readonly troubles: Trouble[] = [];
  private readonly purge: Fault | undefined;
  private readonly wallets: readonly Wallet[];
  private purgedAt: number | undefined;
  private firstSight: number | undefined;
  private lastOld: number | undefined;
  private running = 0;
  private skipped = 0;

  /** @param begin when the day begins, in milliseconds since 1970 */
  constructor({ day, bases, hasAddresses }: WalletsOptions, begin: number) {
    this.day = day;
    this.bases = bases;
    this.begin = begin;
    this.judge = new Judge(day);
    this.purge = day.faults.find(({ name }) => name === "purge");
    this.wallets = makeWallets(day, this.random, hasAddresses);
  }

  /** An operator's purge was confirmed now. */
  notePurge(): void {
    this.purgedAt = this.now();
  }

  /** Plays the day to its end. */
  async play(): Promise<WalletsResult> {
    const running: Promise<void>[] = [];
    for (const { at, run } of this.planTasks()) {
      const ahead = at - this.now();
      if (ahead > 0) await new Promise((resolve) => setTimeout(resolve, ahead));
      if (this.running < MOST_RUNNING) running.push(this.follow(run));
      else this.skipped += 1;
    }
    await Promise.all(running);
    await Promise.all([...this.pools.values()].map((pool) => pool.destroy()));
    const { firstSight, lastOld, skipped, troubles } = this;
    return { outcomes: this.tallies.outcomes(), firstSight, lastOld, skipped, troubles };
  }

  private async follow(run: Task["run"]): Promise<void> {
    this.running += 1;
    await run();
    this.running -= 1;
  }

  /** The same tasks at the same moments for every contestant. */
  private planTasks(): readonly Task[] {
    const { random, wallets } = this;
    const { length } = this.day;
    // Few at dawn and at night, most at noon.
    const activity = (at: number) => 0.4 + 0.6 * Math.sin((Math.PI * at) / length) ** 2;
    const moment = () => {
      for (;;) {
        const at = random() * length;
        if (random() < activity(at)) return at;
      }
    };
    const tasks: Task[] = [];
    for (const [i, wallet] of wallets.entries()) {
      const start = i < wallets.length * HERD.share ? random() * Math.min(HERD.within, length) : moment();
      tasks.push({ at: start, run: () => this.readAll(wallet) });
      for (let at = start + LOOK_EVERY * random(); at < length; at += LOOK_EVERY * (0.9 + 0.2 * random())) {
        if (random() < activity(at)) tasks.push({ at, run: () => this.look(wallet) });
      }
    }
    for (let left = (TRANSFERS_PER_SECOND * length) / 1000; left >= 1; left -= 1) {
      const wallet = wallets[Math.floor(random() * wallets.length)]!;
      const holding = wallet.holdings[Math.floor(random() * HOLDINGS)]!;
      tasks.push({ at: moment(), run: () => this.transfer(wallet, holding) });
    }
    return tasks.sort((a, b) => a.at - b.at);
  }

  /** What the SDK does at a start and before each transfer: one registry after the other, and page after page. */
  private async readAll(wallet: Wallet): Promise<void> {
    for (const registry of this.day.registries) {
      await this.ask(wallet, registry, { kind: "info" });
      for (let page = 0; page < pagesOf(registry); page += 1) await this.ask(wallet, registry, { kind: "page", page });
    }
  }

  private async look(wallet: Wallet): Promise<void> {
    await Promise.all(
      wallet.holdings.flatMap(({ registry, instrument }) => [
        this.ask(wallet, registry, { kind: "info" }),
        this.ask(wallet, registry, { kind: "instrument", instrument }),
      ]),
    );
  }

  private async transfer(wallet: Wallet, { registry, instrument }: Holding): Promise<void> {
    const nonce = randomBytes(68).toString("hex");
    await this.readAll(wallet);
    await this.ask(wallet, registry, { kind: "instrument", instrument });
    for (const kind of ["factory", "context"] as const) {
      await this.ask(wallet, registry, { kind, nonce, instrument });
    }
  }

  private async ask(wallet: Wallet, registry: Registry, question: Question): Promise<void> {
    const bases = this.bases[registry.number]!;
    const base = new URL(bases[Math.floor(Math.random() * bases.length)]!);
    const sentAt = this.now();
    const answer = await this.send(base, wallet, { registry, question });
    const { status, body } = answer;
    const at = this.now();
    const isPurged = this.purge?.registry === registry.number;
    const purgedAt = isPurged ? this.purgedAt : undefined;
    const { verdict, version } = this.judge.judge({ registry, question, sentAt, at, status, body, purgedAt });
    const noted = { verdict, latency: at - sentAt, status };
    const fault = this.day.faults.find(({ from, to }) => sentAt >= from && sentAt < to);
    this.note({ registry, question, fault }, noted);
    if (verdict !== "right" && this.troubles.length < MOST_TOLD) {
      const { kind: asked } = question;
      const said = answer.failure ?? answer.cacheStatus ?? gistOf(body);
      const [seconds, took] = [sentAt / 1000, at - sentAt];
      this.troubles.push({
        at: seconds,
        took,
        fault: fault?.name,
        registry: registry.number,
        asked,
        verdict,
        status,
        said,
      });
    }
    if (isPurged && version !== undefined) this.noteSight(versionAt(registry, this.purge.from) <= version, at);
  }

  private note(
    { registry, question, fault }: { registry: Registry; question: Question; fault: Fault | undefined },
    noted: Noted,
  ): void {
    const kind = question.kind === "factory" || question.kind === "context" ? "calls" : "reads";
    const names = [kind, `${kind}/${fault?.name ?? "quiet"}`];
    if (fault !== undefined) names.push(`${kind}/in faults`);
    if (fault?.registry === registry.number) names.push(`${kind}/${fault.name}/affected`);
    this.tallies.note(names, noted);
  }

  private noteSight(hasChange: boolean, at: number): void {
    const since = at - this.purge!.from;
    if (since < 0) return;
    if (hasChange) this.firstSight ??= since;
    else this.lastOld = since;
  }

  private send(
    base: URL,
    { headers }: Wallet,
    { registry, question }: { registry: Registry; question: Question },
  ): Promise<Answer> {
    let pool = this.pools.get(base.origin);
    if (pool === undefined) {
      pool = new Pool(base.origin, { headersTimeout: REQUEST_TIMEOUT, bodyTimeout: REQUEST_TIMEOUT });
      this.pools.set(base.origin, pool);
    }
    const body = requestBody(registry, question);
    const path = (base.pathname === "/" ? "" : base.pathname) + pathOf(registry, question);
    const method = body === undefined ? "GET" : "POST";
    const trace = Math.floor(Math.random() * 2 ** 52)
      .toString(16)
      .padStart(16, "0");
    const fields = { ...headers, traceparent: `00-${trace}${trace}-${trace}-01` };
    return new Promise((resolve) => {
      const chunks: Buffer[] = [];
      let status = 0;
      let cacheStatus: string | undefined;
      pool.dispatch(
        { path, method, headers: fields, body: body ?? null },
        {
          onRequestStart() {},
          onResponseStart(_, code, received) {
            status = code;
            cacheStatus = received["cache-status"]?.toString();
          },
          onResponseData: (_, chunk) => void chunks.push(chunk),
          onResponseEnd() {
            const whole = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
            resolve({ status, body: whole, cacheStatus });
          },
          onResponseError: (_, { message }) => resolve({ status: 0, body: Buffer.alloc(0), failure: message }),
        },
      );
    });
  }

  private now(): number {
    return Date.now() - this.begin;
  }
}

/** The code of an error's body, or how the body begins. */
function gistOf(body: Buffer): string {
  const text = body.toString("utf8", 0, 300);
  return /"code":"(\w+)"/.exec(text)?.[1] ?? text;
}

function makeWallets({ wallets, registries }: Day, random: () => number, hasAddresses: boolean): readonly Wallet[] {
  const chooseRegistry = zipf(registries.length);
  return Array.from({ length: wallets }, (_, i) => ({
    holdings: Array.from({ length: HOLDINGS }, () => {
      const registry = registries[chooseRegistry(random())]!;
      return { registry, instrument: zipf(registry.instruments)(random()) };
    }),
    headers: {
      ...AGENTS[i % AGENTS.length]!,
      "content-type": "application/json",
      authorization: `Bearer eyJhbGciOiJIUzI1NiJ9.${Buffer.from(`wallet ${i} `.repeat(30)).toString("base64url")}.${i}`,
      ...(hasAddresses && { "x-envoy-external-address": `10.0.${i >> 8}.${i & 255}` }),
    },
  }));
}
