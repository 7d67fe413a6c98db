import type { Logger } from "pino";
import { Cache } from "../../../src/cache/cache.ts";
import type { UpstreamConfig } from "../../../src/config/schema.ts";
import { GatewayError } from "../../../src/errors.ts";
import { parseJson } from "../../../src/json.ts";
import { type MetadataRequest, Registry } from "../../../src/registry/registry.ts";
import { createAlone } from "../../../src/sharing/alone.ts";
import { CACHED_OPERATIONS, type CachedOperation } from "../../../src/spec/operations.ts";
import type { Answer, Call } from "../../../src/upstream/types.ts";
import type { Upstream } from "../../../src/upstream/upstream.ts";
import { TestClock } from "../../support/clock.ts";

export const SECOND = 1_000;

/** Of those that no test is about. */
const ANY = Object.fromEntries(CACHED_OPERATIONS.map((each) => [each, SECOND])) as Record<CachedOperation, number>;

const CACHE: UpstreamConfig["cache"] = {
  ttl: { ...ANY, info: 600 * SECOND, instruments: 30 * SECOND, instrument: 20 * SECOND, notFound: 5 * SECOND },
  honorUpstream: true,
  staleWhileRevalidate: 0,
  staleIfError: 0,
  clientTtl: 0,
  forwardResponseHeaders: [],
};

/** What a registry answers: a body with 200, an answer, or an error that the call fails with. */
export type Scripted =
  | string
  | { readonly status?: number; readonly fields?: string[]; readonly body?: string }
  | Error;

/** Answers a call by the script of its registry; a function of the path and query below `/registry/metadata/v1/`. */
export type Script = (path: string, call: Call) => Scripted;

export interface RegistryOptions {
  readonly name?: string;
  /** Undefined: it is learned at the first call. */
  readonly admin?: string | undefined;
  readonly config?: Partial<UpstreamConfig>;
  readonly cache?: Partial<UpstreamConfig["cache"]>;
}

/** Some registries over one cache, with upstreams that answer as a test scripts them. */
export class Registries {
  readonly clock = TestClock.standing();
  readonly sharing = createAlone(this.clock);
  readonly cache: Cache;
  /** Alias and path of each call. */
  readonly calls: string[] = [];
  readonly details: Call[] = [];

  constructor(memory = 2 ** 22) {
    const { clock, sharing } = this;
    this.cache = new Cache({ memory, clock, sharing, random: () => 0, observer: { evicted() {} } });
  }

  registry(script: Script, options: RegistryOptions = {}): Registry {
    const { name = "amulet", config = {}, cache = {} } = options;
    const full = {
      name,
      mode: "normal",
      timeout: 15 * SECOND,
      cache: { ...CACHE, ...cache },
      ...config,
    } as UpstreamConfig;
    const admin = "admin" in options ? options.admin : `${name}::1220`;
    const upstream = new ScriptedUpstream(full, admin, this.answer(name, script));
    const log = { info() {} } as unknown as Logger;
    return new Registry(upstream as unknown as Upstream, { cache: this.cache, clock: this.clock, log });
  }

  get wait(): { readonly deadline: number } {
    return { deadline: this.clock.now() + 60 * SECOND };
  }

  private answer(name: string, script: Script): (call: Call) => Promise<Answer> {
    return (call) => {
      const path = call.path.replace("/registry/metadata/v1/", "");
      this.calls.push(`${name} ${path}`);
      this.details.push(call);
      const scripted = script(path, call);
      if (scripted instanceof Error) return Promise.reject(scripted);
      const { status = 200, fields = [], body = "" } = typeof scripted === "string" ? { body: scripted } : scripted;
      const receivedAt = this.clock.now();
      return Promise.resolve({ status, fields, body: Buffer.from(body), json: parseJson(body), node: "n", receivedAt });
    };
  }
}

/** What a registry needs of its upstream. */
class ScriptedUpstream implements Pick<Upstream, "config" | "name" | "admin" | "whyDisabled" | "learnAdmin" | "call"> {
  readonly config: UpstreamConfig;
  readonly name: string;
  admin: string | undefined;
  problem: GatewayError | undefined;
  readonly call: (call: Call) => Promise<Answer>;

  constructor(config: UpstreamConfig, admin: string | undefined, call: (call: Call) => Promise<Answer>) {
    this.config = config;
    this.name = config.name;
    this.admin = admin;
    this.call = call;
  }

  whyDisabled(): GatewayError | undefined {
    return this.problem;
  }

  learnAdmin(): Promise<string> {
    this.admin = `${this.name}::1220`;
    return Promise.resolve(this.admin);
  }

  status(): object {
    return { name: this.name, ...(this.admin !== undefined && { admin: this.admin }), mode: "normal", state: "up" };
  }
}

/** Has an upstream contradict itself. */
export function disable({ upstream }: Registry): void {
  (upstream as unknown as ScriptedUpstream).problem = new GatewayError("upstream_disabled", "two admins");
}

export const down = (): GatewayError => new GatewayError("upstream_down", "no node is up", { retryAfter: 3 });

/** A page of instruments by their ids. */
export function pageOf(ids: readonly string[], nextPageToken?: string): string {
  const instruments = ids.map((id) => ({ id, name: `${id} coin`, symbol: id.toUpperCase() }));
  return JSON.stringify({ instruments, nextPageToken });
}

/** A registry with pages: of so many instruments, tokens count them. */
export function paged(ids: readonly string[], size: number): Script {
  return (path) => {
    const from = Number(/pageToken=(\d+)/.exec(path)?.[1] ?? 0);
    if (path.startsWith("instruments/")) {
      const id = decodeURIComponent(path.slice("instruments/".length));
      return ids.includes(id) ? JSON.stringify({ id, name: `${id} coin` }) : { status: 404, body: '{"error":"none"}' };
    }
    return pageOf(ids.slice(from, from + size), from + size < ids.length ? String(from + size) : undefined);
  };
}

/** Lets everything run that waits for no time. */
export const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export const INFO = { operation: "info" } as const;
export const PAGE = { operation: "instruments" } as const;
export const TOKEN = { operation: "instruments", pageToken: "2" } as const;
export const one = (id: string): MetadataRequest => ({ operation: "instrument", id });

/** One registry, and how a request to it came out. */
export function scene(script: Script, options = {}) {
  const all = new Registries();
  const registry = all.registry(script, options);
  const get = async (request: MetadataRequest, wait = {}): Promise<string> => {
    const { outcome, entry } = await registry.get(request, { ...all.wait, ...wait });
    return `${outcome} ${entry.status} ${entry.body.toString()}`;
  };
  return { all, registry, get };
}
