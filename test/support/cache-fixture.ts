import type { IncomingHttpHeaders } from "node:http";
import { HttpCache } from "../../src/cache/http-cache.ts";
import type {
  CacheAnswer,
  CacheObserver,
  CachePolicy,
  FetchRequest,
  Fetched,
  Resource,
} from "../../src/cache/resource.ts";
import { MemoryStore } from "../../src/cache/stores/memory-store.ts";
import type { Duration } from "../../src/clock.ts";
import { cacheKey, type Entry, type Store } from "../../src/sharing/entries.ts";
import type { Coordinator } from "../../src/sharing/ports.ts";
import { localCoordinator } from "../../src/sharing/alone.ts";
import { GatewayError } from "../../src/errors.ts";
import { type Fields, fieldValue } from "../../src/fields.ts";
import { policy, SECOND } from "./cache-policy.ts";
import { ManualClock } from "./manual-clock.ts";

/** One scripted answer of an upstream. `Date` is added unless `undated`. */
export interface Scripted {
  readonly status?: number;
  readonly fields?: Fields;
  readonly body?: string | Buffer;
  readonly delay?: Duration;
  readonly undated?: boolean;
  readonly unstorable?: string;
  /** The fetch rejects with this status instead. */
  readonly fails?: number;
}

export type Script = (request: FetchRequest, n: number) => Scripted;

/** An upstream that answers what a test says, on the manual clock, and remembers what it was asked. */
export class ScriptedUpstream {
  readonly requests: FetchRequest[] = [];
  readonly aborted: FetchRequest[] = [];
  script: Script;
  private readonly clock: ManualClock;

  constructor(clock: ManualClock, script: Script) {
    this.clock = clock;
    this.script = script;
  }

  async fetch(request: FetchRequest): Promise<Fetched> {
    this.requests.push(request);
    const n = this.requests.length;
    const answer = this.script(request, n);
    const requestedAt = this.clock.now();
    if (answer.delay !== undefined) await this.pause(answer.delay, request);
    if (answer.fails !== undefined)
      throw new GatewayError("upstream_invalid", "scripted failure", { status: answer.fails });
    const fields = [...(answer.fields ?? [])];
    if (answer.undated !== true && fieldValue(fields, "date") === undefined) fields.push("date", this.date());
    return {
      status: answer.status ?? 200,
      fields,
      body: Buffer.from(answer.body ?? `body ${n}`),
      requestedAt,
      receivedAt: this.clock.now(),
      ...(answer.unstorable === undefined ? {} : { unstorable: answer.unstorable }),
    };
  }

  /** An HTTP-date `seconds` from now. */
  date(seconds = 0): string {
    return new Date(this.clock.wallNow() + seconds * SECOND).toUTCString();
  }

  private pause(delay: Duration, request: FetchRequest): Promise<void> {
    return new Promise((resolve, reject) => {
      this.clock.after(delay, resolve);
      request.signal.addEventListener("abort", () => {
        this.aborted.push(request);
        reject(new GatewayError("upstream_invalid", "aborted"));
      });
    });
  }
}

/** Keeps the events of a cache as lines. */
class RecordingObserver implements CacheObserver {
  readonly events: string[] = [];
  lookup: CacheObserver["lookup"] = (_key, tier, outcome) => this.note("lookup", tier, outcome);
  skipped: CacheObserver["skipped"] = (_key, reason) => this.note("skipped", reason);
  collapsed: CacheObserver["collapsed"] = () => this.note("collapsed");
  servedStale: CacheObserver["servedStale"] = (_key, reason) => this.note("stale", reason);
  refreshed: CacheObserver["refreshed"] = (_key, outcome) => this.note("refreshed", outcome);
  evicted: CacheObserver["evicted"] = () => this.note("evicted");

  private note(...words: string[]): void {
    this.events.push(words.join(" "));
  }
}

export interface FixtureOptions {
  readonly policy?: Partial<CachePolicy>;
  readonly script?: Script;
  readonly clock?: ManualClock;
  readonly coordinator?: Coordinator;
  readonly shared?: Store;
  readonly memory?: MemoryStore;
  readonly random?: () => number;
  readonly timeout?: Duration;
}

export interface Asked {
  readonly headers?: IncomingHttpHeaders;
  readonly resource?: Resource;
  readonly timeout?: Duration;
  readonly signal?: AbortSignal;
}

/** A cache over a scripted upstream, with the manual clock. */
export class CacheFixture {
  readonly clock: ManualClock;
  readonly coordinator: Coordinator;
  readonly upstream: ScriptedUpstream;
  readonly observer = new RecordingObserver();
  readonly cache: HttpCache;
  readonly memory: MemoryStore;
  readonly policy: CachePolicy;
  readonly resource: Resource;
  private readonly timeout: Duration;

  constructor(options: FixtureOptions = {}) {
    this.clock = options.clock ?? new ManualClock();
    this.coordinator = options.coordinator ?? localCoordinator(this.clock);
    this.upstream = new ScriptedUpstream(this.clock, options.script ?? (() => ({})));
    this.memory = options.memory ?? new MemoryStore({ maxBytes: 2 ** 24, maxObject: 2 ** 20 });
    this.policy = policy(options.policy);
    this.timeout = options.timeout ?? 10 * SECOND;
    this.resource = this.resourceOf("info");
    this.cache = new HttpCache({
      memory: this.memory,
      shared: options.shared,
      coordinator: this.coordinator,
      clock: this.clock,
      random: options.random ?? (() => 0),
      observer: this.observer,
    });
  }

  resourceOf(id: string, changes: Partial<Resource> = {}): Resource {
    return {
      key: cacheKey({ partition: "party::1220", id, scopes: ["all"] }),
      policy: this.policy,
      timeout: this.timeout,
      fetch: (request) => this.upstream.fetch(request),
      ...changes,
    };
  }

  /** Asks as a route does: a fresh hit first, then everything else. */
  async get({
    headers = {},
    resource = this.resource,
    timeout = this.timeout,
    signal,
  }: Asked = {}): Promise<CacheAnswer> {
    const hit = this.cache.hit(resource, { method: "GET", headers });
    if (hit !== undefined) return hit;
    const deadline = this.clock.now() + timeout;
    return this.cache.respond(resource, {
      method: "GET",
      headers,
      deadline,
      ...(signal === undefined ? {} : { signal }),
    });
  }

  /** Lets promises that are ready run on, and a remote store answer a few times, without moving time. */
  async settle(): Promise<void> {
    for (let i = 0; i < 4; i += 1) await new Promise<void>((resolve) => setImmediate(resolve));
  }

  /** Moves time; in steps where what happens at one instant has to have its consequences before the next. */
  async advance(duration: Duration, step = duration): Promise<void> {
    await this.settle();
    for (let left = duration; left > 0; left -= step) {
      this.clock.advance(Math.min(step, left));
      await this.settle();
    }
  }
}

/** A store like one in another process: it answers later, and its bodies are copies. */
export class RemoteStore implements Store {
  readonly entries = new Map<string, Awaited<ReturnType<Store["get"]>>>();
  gets = 0;
  /** How much later entries seem to be when they come back: their instants cross a border between clocks. */
  jitter: Duration = 0;

  async get(key: Parameters<Store["get"]>[0]): Promise<Awaited<ReturnType<Store["get"]>>> {
    this.gets += 1;
    await new Promise<void>((resolve) => setImmediate(resolve));
    return this.entries.get(key.partition + key.id)?.map((entry) => later(entry, this.jitter));
  }

  set(...[key, entry]: Parameters<Store["set"]>): void {
    const others = (this.entries.get(key.partition + key.id) ?? []).filter((e) => e.variant !== entry.variant);
    this.entries.set(key.partition + key.id, [{ ...entry, body: Buffer.from(entry.body) }, ...others]);
  }

  delete(...[key, entry]: Parameters<Store["delete"]>): void {
    const others = (this.entries.get(key.partition + key.id) ?? []).filter((e) => e.variant !== entry.variant);
    if (others.length === 0) this.entries.delete(key.partition + key.id);
    else this.entries.set(key.partition + key.id, others);
  }
}

function later(entry: Entry, by: Duration): Entry {
  return {
    ...entry,
    receivedAt: entry.receivedAt + by,
    bornAt: entry.bornAt + by,
    madeAt: entry.madeAt + by,
    freshUntil: entry.freshUntil + by,
    revalidateUntil: entry.revalidateUntil + by,
    usableUntil: entry.usableUntil + by,
  };
}

/** The value of a field of an answer. */
export function field(answer: CacheAnswer, name: string): string | undefined {
  return fieldValue(answer.fields, name);
}
