import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { ACCEPT, CANCEL, expecting, FACTORY, INFO, LIST, PREFIX } from "../../support/endpoints.ts";
import { startGateway, type TestGateway } from "../../support/gateway.ts";
import { startCluster, startSentinel } from "../../support/redis-groups.ts";
import { type Registry, startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

/** Of the registry that is asked for more than it allows. */
const RATE = { requests: 40, per: 2_000 };
/** Between the moment at which Redis counts a call and the one at which the registry has it. */
const ON_THE_WAY = 250;
/** Time from a purge until all replicas know of it, and from when it was lost or they are back. */
const KNOWN_AFTER = { told: 250, lost: 2_000 };

interface Period {
  readonly from: number;
  readonly until: number;
}

interface Purge {
  readonly replica: number;
  readonly began: number;
  readonly ended: number;
  readonly isPending: boolean;
}

/** A page, and when the registry was asked for it. */
interface Page {
  readonly replica: number;
  readonly began: number;
  readonly asked: number;
}

/** Two replicas under a steady stream of lookups, calls and purges, and all that came of it. */
class Load {
  readonly gateways: readonly TestGateway[];
  readonly amulet: Registry;
  /** Calls of the registry with a limit: when they came. */
  readonly limited: number[] = [];
  readonly outcomes = new Set<string>();
  readonly pages: Page[] = [];
  readonly purges: Purge[] = [];
  /** When a replica had no Redis, as it says itself. */
  readonly away: Period[] = [];
  longest = 0;
  private isOver = false;
  private readonly running: Promise<unknown>;

  static async start(redis: object): Promise<Load> {
    const amulet = await startRegistry("amulet", { nodes: 2 });
    amulet.on("instruments", () => ({ body: { instruments: [], asked: performance.now() } }));
    const bonds = await startRegistry("bonds");
    const rateLimit = { requests: `${RATE.requests}/${RATE.per}ms` };
    const upstreams = [amulet, bonds.upstream({ rateLimit })];
    const start = () => startGateway({ redis, cache: { ttl: { instruments: "1m" } }, upstreams });
    const load = new Load([await start(), await start()], amulet, bonds);
    await load.isWell();
    return load;
  }

  private constructor(gateways: readonly TestGateway[], amulet: Registry, bonds: Registry) {
    this.gateways = gateways;
    this.amulet = amulet;
    for (const name of ["*", "info"]) bonds.on(name, () => void this.limited.push(performance.now()));
    this.running = Promise.all(
      gateways.flatMap((gateway, replica) => [
        ...[0, 1].map(() => this.every(5, (round) => this.ask(replica, round))),
        ...[0, 1].map(() => this.every(20, () => this.call(gateway))),
        this.every(300, (round) => this.purge(replica, round)),
        this.watch(gateway),
      ]),
    );
  }

  /** Both replicas have Redis, and have seen each other there. */
  async isWell(): Promise<void> {
    for (const { operations } of this.gateways) {
      await until(async () => {
        const { redis } = await operations.status();
        return redis.redis === "up" && redis.replicas === 2;
      });
    }
  }

  async end(): Promise<void> {
    this.isOver = true;
    await this.running;
  }

  /** Log lines of each replica about Redis. */
  get lines(): string[][] {
    return this.gateways.map(({ lines }) =>
      lines.map(({ msg }) => String(msg)).filter((text) => text.startsWith("Redis ")),
    );
  }

  private async every(wait: number, work: (round: number) => Promise<unknown>): Promise<void> {
    for (let round = 0; !this.isOver; round += 1) {
      await work(round);
      await pause(wait);
    }
  }

  private async ask(replica: number, round: number): Promise<void> {
    const page = { path: `${LIST}?pageSize=${(round % 8) + 1}` };
    const others = [
      { path: INFO },
      { path: CANCEL, body: "{}" },
      { path: FACTORY, body: expecting(this.amulet.admin) },
    ];
    const request = round % 2 === 0 ? page : others[((round - 1) / 2) % others.length]!;
    const began = performance.now();
    const { outcome, json } = await this.gateways[replica]!.send({
      ...request,
      path: `${PREFIX}/amulet${request.path}`,
    });
    this.longest = Math.max(this.longest, performance.now() - began);
    this.outcomes.add(outcome);
    if (request === page) this.pages.push({ replica, began, asked: Number(json.asked) });
  }

  private async call(gateway: TestGateway): Promise<void> {
    const { outcome } = await gateway.post(`${PREFIX}/bonds${ACCEPT}`);
    // Who has waited for the limit for 2 s is refused: no failure.
    if (outcome !== "429 rate_limited") this.outcomes.add(outcome);
  }

  private async purge(replica: number, round: number): Promise<void> {
    const began = performance.now();
    const { status } = await this.gateways[replica]!.operations.purge(round % 2 === 0 ? "amulet" : undefined);
    this.purges.push({ replica, began, ended: performance.now(), isPending: status !== 200 });
  }

  /** What went and came between two looks shows by `since`. */
  private async watch({ operations }: TestGateway): Promise<void> {
    let [before, since] = [performance.now(), 0];
    await this.every(20, async () => {
      const { redis } = await operations.status();
      const now = performance.now();
      if (redis.redis !== "up" || (since !== 0 && since !== redis.since)) this.away.push({ from: before, until: now });
      [before, since] = [now, Number(redis.since)];
    });
  }

  /** From when on a replica serves nothing that was asked for before a purge. */
  private knownAt(purge: Purge, replica: number): number {
    if (purge.replica === replica) return purge.ended;
    let at = purge.ended;
    for (const { from, until: back } of this.away.toSorted((a, b) => a.from - b.from)) {
      if (from <= at + KNOWN_AFTER.lost && back >= purge.began) at = Math.max(at, back);
    }
    return at + (at === purge.ended ? KNOWN_AFTER.told : KNOWN_AFTER.lost);
  }

  /** Pages that were asked of the registry before a purge that their replica had to know. */
  tooOld(): Page[] {
    const known = [0, 1].map((replica) =>
      this.purges.map((purge) => ({ began: purge.began, from: this.knownAt(purge, replica) })),
    );
    return this.pages.filter(({ replica, began, asked }) =>
      known[replica]!.some((purge) => began > purge.from && asked < purge.began),
    );
  }

  /** Most calls within a window of the limit: in those in which every replica had Redis, and in the others. */
  mostCalls(): { shared: number; alone: number } {
    const most = { shared: 0, alone: 0 };
    for (const from of this.limited) {
      const end = from + RATE.per - ON_THE_WAY;
      const calls = this.limited.filter((at) => at >= from && at < end).length;
      const kind = this.away.some((each) => each.from < end && each.until > from - RATE.per) ? "alone" : "shared";
      most[kind] = Math.max(most[kind], calls);
    }
    return most;
  }
}

function expectKept(load: Load): void {
  const { outcomes, purges, pages, longest, away } = load;
  const { shared, alone } = load.mostCalls();
  const seen = { pages: pages.length, purges: purges.length, pending: purges.filter((each) => each.isPending).length };
  const said = { ...seen, longest: Math.round(longest), away: away.length, shared, alone, lines: load.lines };
  process.stdout.write(`Redis under load: ${JSON.stringify(said)}\n`);
  expect([...outcomes]).toEqual(["200"]);
  expect(longest).toBeLessThan(3_000);
  expect(load.tooOld()).toEqual([]);
  expect(shared).toBeLessThanOrEqual(RATE.requests);
  expect(alone).toBeLessThanOrEqual(2 * RATE.requests);
  // Less says nothing of a limit.
  expect(shared).toBeGreaterThan(0.75 * RATE.requests);
}

/** Each replica says that Redis went, and that it is back; of one that comes and goes a line in ten seconds. */
function expectLines(lines: readonly string[][]): void {
  for (const [went, ...others] of lines) {
    expect(went).toMatch(/^Redis .+; the gateway goes on without it$/);
    expect(others.at(-1)).toBe("Redis can be used");
  }
}

test("under load a Sentinel group fails over: no request fails, no purge is forgotten, limits hold", async () => {
  const passwords = { server: "of the server", sentinel: "of the sentinel" };
  const { name, nodes, master, replica: promoted } = await startSentinel(passwords);
  const load = await Load.start({
    password: passwords.server,
    sentinel: { name, nodes, password: passwords.sentinel },
  });
  await pause(6_000);
  await master.kill();
  await until(async () => (await promoted.client.info("replication")).includes("role:master"));
  await load.isWell();
  await pause(8_000);
  await load.end();
  expectKept(load);
  expectLines(load.lines.map((lines) => lines.slice(1)));
});

test("under load a slot moves in a cluster, and then its new master is lost: the same", async () => {
  const cluster = await startCluster();
  const load = await Load.start({ cluster: cluster.urls });
  await pause(6_000);
  const { to } = await cluster.moveSlotOf(`rg:1:{${load.amulet.admin}}`, () => pause(1_000));
  // A line is told ten seconds after the one before at the earliest.
  await until(() => performance.now() - (load.away.at(-1)?.until ?? 0) > 10_500);
  const [before, told] = [load.away.length, load.lines.map((lines) => lines.length)];
  await to.kill();
  await until(() => load.away.length > before);
  await load.isWell();
  await pause(8_000);
  await load.end();
  expectKept(load);
  expectLines(load.lines.map((lines, at) => lines.slice(told[at])));
});
