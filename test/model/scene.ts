import { tmpdir } from "node:os";
import { setImmediate as turn, setTimeout as pause } from "node:timers/promises";
import { sleep } from "../../src/clock.ts";
import type { createGateway } from "../../src/gateway/gateway.ts";
import { TestClock } from "../support/clock.ts";
import { ADMIN_HEADER, pathOf, PREFIX } from "../support/endpoints.ts";
import { type Line, load, TestGateway, type Values } from "../support/gateway.ts";
import type { RedisServer } from "../support/redis.ts";
import { History, type Setting, type Told } from "./history.ts";
import { judgeCalls, judgeTold } from "./oracle.ts";
import { type Action, type Ask, type Case, type Knobs, NAMES, STRANGER, type WorldPlan } from "./plan.ts";
import { adminOf, REPLICA_FIELD, Source } from "./source.ts";
import { inWords } from "./words.ts";

/** What may be another's in the place of the product's own: a build with a planted fault. */
export interface SceneOptions {
  readonly create: typeof createGateway;
  /** Runs already; for worlds with Redis. */
  readonly redis?: RedisServer;
}

/** Steps of moved time: shorter than any deadline. */
const STEP = 100;
/** Turns of the loop in which nothing happens: all that was sent has arrived. */
const QUIET_TURNS = 12;
/** The longest that a request may be without an answer: to learn an admin, and to ask (of all registries, a minute). */
const LONGEST_WAIT = { one: 15_000, all: 60_000 };

let scenes = 0;

/** A world that runs: registries, replicas before them, and perhaps a Redis. */
export class Scene {
  readonly plan: WorldPlan;
  readonly clock = TestClock.running();
  readonly history = new History(this.clock);
  readonly sources: Source[];
  readonly problems: string[] = [];
  private readonly options: SceneOptions;
  private readonly prefix: string;
  private readonly replicas: TestGateway[] = [];
  private readonly settings: Setting[] = [];
  private readonly lines: Line[] = [];
  private asked = 0;
  private redisState: "well" | "paused" | "killed" = "well";
  private redisTurn: Promise<void> = Promise.resolve();
  private redisTrouble: { readonly from: number; until: number } | undefined;
  private failedCommands = 0;

  constructor(plan: WorldPlan, options: SceneOptions) {
    const { history, clock } = this;
    scenes += 1;
    this.plan = plan;
    this.options = options;
    this.prefix = `model-${process.pid}-${scenes}:`;
    this.sources = plan.registries.map((each, index) => new Source(index, each, { history, clock }));
  }

  /** Runs a case from its beginning to its end, or to the first problem. @returns what is wrong, and all up to there in words */
  static async run({ world, course }: Case, options: SceneOptions): Promise<string | undefined> {
    const scene = new Scene(world, options);
    try {
      await scene.start();
      for (const [at, actions] of course.entries()) {
        await scene.act(actions);
        if (scene.problems.length === 0) continue;
        return `${scene.problems.slice(0, 3).join("\n")}\n\n${inWords({ world, course: course.slice(0, at + 1) })}`;
      }
      return undefined;
    } finally {
      await scene.close();
    }
  }

  private async start(): Promise<void> {
    const { registries, replicas } = this.plan;
    for (const [at, { knobs }] of registries.entries()) {
      this.history.knobs[at] = [knobs];
      await this.sources[at]!.start();
    }
    for (let replica = 0; replica < replicas; replica += 1) {
      const values = this.values(replica, (this.settings[replica] = registries.map(({ knobs }) => knobs)));
      const write = (text: string): void => void this.lines.push(JSON.parse(text) as Line);
      const gateway = await this.options.create(load(values), { clock: this.clock, logTo: { write } });
      this.replicas.push(new TestGateway(gateway, this.lines, { folder: tmpdir(), env: {} }));
    }
    if (!this.plan.hasRedis) return this.settle();
    await this.whenShared();
    await this.noteHiccups();
    this.history.redisTroubles.length = 0;
    this.history.sharedSince = this.history.now();
  }

  private async close(): Promise<void> {
    const closed = Promise.all(this.replicas.map((each) => each.stop()));
    if (!this.plan.hasRedis) await this.settle();
    await Promise.all([closed, ...this.sources.map((each) => each.close())]);
    await this.redisTurn;
    await this.healRedis();
  }

  /** Does these at once, and has the oracle look at what came of it. */
  private async act(actions: readonly Action[]): Promise<void> {
    const before = this.settings.map((each) => each);
    const told = actions.flatMap((action) => (action.kind === "ask" ? this.toldOf(action) : []));
    const done = actions.map((action) => (action.kind === "ask" ? undefined : this.do(action)));
    await this.finish([...told.map((each) => this.send(each)), ...done.map((each) => Promise.resolve(each))], told);
    for (const each of told) {
      const settings = [before[each.replica]!, this.settings[each.replica]!];
      this.history.told.push(Object.assign(each, { settings }));
    }
    if (this.plan.hasRedis) await this.noteHiccups();
    else await this.settle();
    for (const each of told) this.problems.push(...judgeTold(each, this));
    this.problems.push(...judgeCalls(this));
    const worst = this.lines.find(({ level }) => level === "error" || level === "fatal");
    if (worst !== undefined) this.problems.push(`a line above warn: ${JSON.stringify(worst)}`);
  }

  private async do(action: Exclude<Action, Ask>): Promise<void> {
    switch (action.kind) {
      case "wait":
        return sleep(action.ms, this.clock);
      case "mood":
        return this.sourceOf(action.registry).setMood(action.node, action.mood);
      case "restart":
        return this.sourceOf(action.registry).restart(action.node);
      case "relist":
        return this.sourceOf(action.registry).relist(action.ids);
      case "purge":
        return this.purge(action.replica % this.replicas.length, action.registry);
      case "reload":
        return this.reload(action);
      case "redis":
        return this.redis(action);
    }
  }

  private sourceOf(registry: number): Source {
    return this.sources[registry % this.sources.length]!;
  }

  private async purge(replica: number, registry: number | undefined): Promise<void> {
    const at = registry === undefined ? undefined : registry % this.sources.length;
    const began = this.history.moment();
    const answer = await this.replicas[replica]!.operations.purge(at === undefined ? undefined : NAMES[at]);
    const ended = this.history.moment();
    if (answer.status === 200 || answer.json.code === "purge_pending") {
      this.history.purges.push({ replica, registry: at, began, ended });
      if (answer.status !== 200 && !this.isRedisTroubled())
        this.problems.push("a purge is pending, and Redis was well");
    }
  }

  private reload({ replica, registry, change }: Extract<Action, { kind: "reload" }>): Promise<void> {
    const at = registry % this.sources.length;
    for (const each of this.replicas.keys()) {
      if (replica !== undefined && replica % this.replicas.length !== each) continue;
      const setting = this.settings[each]!.with(at, { ...this.settings[each]![at]!, ...change });
      // A gateway without a registry is no gateway.
      if (setting.every(({ isEnabled }) => !isEnabled)) continue;
      if (this.plan.plain === "ash" && !setting[0]!.isEnabled) continue;
      this.settings[each] = setting;
      this.history.knobs[at]!.push(setting[at]!);
      this.replicas[each]!.reload(this.values(each, setting));
    }
    this.history.turns.push(this.history.moment());
    return Promise.resolve();
  }

  /** One after the other, as with nodes. */
  private redis({ does }: Extract<Action, { kind: "redis" }>): Promise<void> {
    this.redisTurn = this.redisTurn.then(() => this.doToRedis(does));
    return this.redisTurn;
  }

  private async doToRedis(does: "pause" | "kill" | "heal" | "flush"): Promise<void> {
    const redis = this.options.redis!;
    const { redisTroubles } = this.history;
    const now = this.history.now();
    if (does === "heal") {
      if (this.redisState === "well") return;
      await this.healRedis();
      await this.whenShared();
      this.redisTrouble!.until = this.history.now();
    } else if (does === "flush") {
      if (this.redisState !== "well") return;
      redisTroubles.push({ from: now, until: now });
      await redis.client.flushall();
    } else if (this.redisState !== "killed") {
      if (this.redisState === "well") redisTroubles.push((this.redisTrouble = { from: now, until: Infinity }));
      this.redisState = does === "pause" ? "paused" : "killed";
      if (does === "pause") redis.pause();
      else await redis.kill();
    }
  }

  private async healRedis(): Promise<void> {
    const { redis } = this.options;
    if (this.redisState === "paused") redis!.resume();
    if (this.redisState === "killed") await redis!.start();
    this.redisState = "well";
  }

  /** On a machine that is busy, Redis may be late by itself: replicas count that. */
  private async noteHiccups(): Promise<void> {
    const metric = "registry_gateway_redis_commands_total";
    let failed = 0;
    for (const { operations } of this.replicas) {
      failed += await operations.metric(metric, 'outcome="error"');
      failed += await operations.metric(metric, 'outcome="skipped"');
    }
    const now = this.history.now();
    if (failed > this.failedCommands) this.history.redisTroubles.push({ from: now, until: now });
    this.failedCommands = failed;
  }

  private async whenShared(): Promise<void> {
    for (const each of this.replicas) {
      for (;;) {
        const { redis } = (await each.operations.status()) as { redis: { redis: string } };
        if (redis.redis === "up") break;
        await pause(20);
      }
    }
  }

  /** Redis is away, or has been within the last seconds. */
  isRedisTroubled(within = 3_000): boolean {
    const since = this.history.now() - within;
    return this.history.redisTroubles.some(({ until }) => until >= since);
  }

  private values(replica: number, setting: Setting): Values {
    const { plan } = this;
    const upstreams = setting.map((knobs, at) => this.upstream(replica, at, knobs));
    return {
      ...(plan.hasRedis && { redis: { url: this.options.redis!.url, keyPrefix: this.prefix } }),
      routing: { plain: plan.plain },
      upstreams,
    };
  }

  private upstream(replica: number, at: number, knobs: Knobs): object {
    const { isPinned, drained, timeout, attemptTimeout, hedgeAfter, proofEvery, ttl } = knobs;
    const { plan } = this;
    const { urls } = this.sources[at]!.registry;
    const kept = urls.length > 1 ? urls.filter((_url, place) => place !== drained % urls.length) : urls;
    const isGrouped = plan.isGrouped && at < 2;
    const rate = plan.registries[isGrouped ? 0 : at]!.rate;
    const in_ms = (ms: number): string => `${ms}ms`;
    return {
      name: NAMES[at],
      enabled: knobs.isEnabled,
      urls: kept,
      auth: { header: { name: REPLICA_FIELD, value: `replica-number-${replica}` } },
      basePaths: [`/base/${NAMES[at]!}`],
      extraPaths: [`/extra/${NAMES[at]!}/*`],
      ...(isPinned && { admin: adminOf(at), mode: knobs.isCacheOnly ? "cache-only" : "normal" }),
      ...(isPinned && { agreement: Math.min(knobs.agreement, kept.length) }),
      timeout: in_ms(timeout),
      attemptTimeout: in_ms(attemptTimeout),
      retries: knobs.retries,
      hedgeAfter: in_ms(hedgeAfter),
      concurrency: knobs.concurrency,
      proofEvery: in_ms(proofEvery),
      ...(rate !== undefined && {
        rateLimit: { requests: `${rate.requests}/${rate.per}ms`, ...(isGrouped && { group: "both" }) },
      }),
      cache: {
        ttl: {
          info: in_ms(ttl.info),
          instruments: in_ms(ttl.instruments),
          instrument: in_ms(ttl.instrument),
          notFound: in_ms(knobs.notFound),
        },
        staleWhileRevalidate: in_ms(knobs.staleWhileRevalidate),
        staleIfError: in_ms(knobs.staleIfError),
      },
    };
  }

  private toldOf(ask: Ask): Told[] {
    const replica = ask.replica % this.replicas.length;
    const registry = ask.registry === STRANGER ? STRANGER : ask.registry % this.sources.length;
    const also = ask.also && { ...ask.also, registry: this.otherOf(ask.also.registry, registry) };
    const whole: Ask = { ...ask, registry, also };
    return Array.from({ length: ask.copies }, () => {
      this.asked += 1;
      const began = this.history.moment();
      return {
        ask: whole,
        id: `ask-${this.asked}`,
        replica,
        path: pathTo(whole),
        body: bodyOf(whole, this.asked),
        began,
        settings: [],
      };
    });
  }

  private otherOf(other: number, registry: number): number {
    if (other === -1) return registry;
    return other === STRANGER ? STRANGER : other % this.sources.length;
  }

  private async send(told: Told): Promise<void> {
    const { ask, id, path, body } = told;
    const admin = headerOf(ask);
    const headers = { "x-request-id": id, ...(admin !== undefined && { [ADMIN_HEADER]: admin }) };
    try {
      told.answer = await this.replicas[told.replica]!.send({ path, headers, ...(body !== undefined && { body }) });
    } catch (error) {
      told.failure = String(error);
    }
    told.ended = this.history.moment();
  }

  /** Waits for all, moving time while none of them comes; those that are not there at their deadline have failed. */
  private async finish(work: readonly Promise<unknown>[], told: readonly Told[]): Promise<void> {
    let isDone = false;
    const all = Promise.all(work).then(() => (isDone = true));
    if (this.plan.hasRedis) return void (await Promise.race([all, pause(20_000)]));
    const most = LONGEST_WAIT[told.some(({ ask }) => ask.by === "plain") ? "all" : "one"] + 4_000 + 2 * STEP;
    for (let passed = 0; !isDone; passed += STEP) {
      await this.settle();
      if (passed > most && told.some(({ ended }) => ended === undefined)) return;
      if (!isDone) this.clock.advance(STEP);
    }
  }

  /** Until nothing happens any more but by time: what was sent has arrived, what was closed is closed. */
  private async settle(): Promise<void> {
    for (let quiet = 0, seen = this.history.activity; quiet < QUIET_TURNS; quiet += 1) {
      await turn();
      if (this.history.activity === seen) continue;
      seen = this.history.activity;
      quiet = 0;
    }
  }
}

/** What names the registry in a header. */
function headerOf({ by, registry, also }: Ask): string | undefined {
  if (by === "header") return adminOf(registry);
  if (by === "header-alias") return NAMES[registry] ?? "nobody";
  return also?.where === "header" ? adminOf(also.registry) : undefined;
}

function pathTo({ by, registry, operation, id, size, token }: Ask): string {
  const name = NAMES[registry] ?? "nobody";
  const bases = {
    party: `${PREFIX}/${encodeURIComponent(adminOf(registry))}`,
    alias: `${PREFIX}/${name}`,
    base: `/base/${name}`,
  };
  const base = by === "party" || by === "alias" || by === "base" ? bases[by] : "";
  const query = [
    size === undefined ? [] : `pageSize=${size}`,
    token === undefined ? [] : `pageToken=${encodeURIComponent(token)}`,
  ].flat();
  switch (operation) {
    case "instruments":
      return `${base}${pathOf(operation)}${query.length === 0 ? "" : `?${query.join("&")}`}`;
    case "draft":
    case "draft_post":
      return `${base}/registry/drafts/v1/${encodeURIComponent(id.replace("/", "-"))}`;
    case "extra":
      return `/extra/${name}/${encodeURIComponent(id)}`;
    default:
      return `${base}${pathOf(operation, id)}`;
  }
}

/** Bytes that no other request has. */
function bodyOf({ operation, also }: Ask, number: number): string | undefined {
  const named = also?.where === "body" ? adminOf(also.registry) : undefined;
  if (operation === "transfer_accept") return `{ "meta": {"n": ${number}} }`;
  if (operation === "draft_post")
    return `{"n":${number}${named === undefined ? "" : `,"choiceArguments":{"expectedAdmin":"${named}"}`}}`;
  if (!operation.includes("factory")) return undefined;
  const naming = operation.includes("v2") ? `"allocation":{"admin":"${named}"}` : `"expectedAdmin":"${named}"`;
  return `{"choiceArguments": {"n":${number}${named === undefined ? "" : `,${naming}`}}}`;
}
