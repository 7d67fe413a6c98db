import { createHash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { LRUCache } from "lru-cache";
import { SharedFetch, type WaitLimits } from "../cache/shared-fetch.ts";
import { governingDirectives } from "../cache/rfc/cache-control.ts";
import { correctedInitialAge } from "../cache/rfc/freshness.ts";
import { varyNames } from "../cache/rfc/request-fields.ts";
import { type CacheStatus, isFreshFor, requestDirectives, whyNotStorable } from "../cache/rfc/reuse.ts";
import { ownCopy } from "../cache/stores/memory-store.ts";
import type { Clock, Duration, Instant } from "../clock.ts";
import { type Fields } from "../fields.ts";
import { TRACE_FIELDS } from "../trace-context.ts";
import type { Dependencies, EpochsPort } from "../sharing/ports.ts";
import type { UpstreamAnswer, UpstreamCall } from "../upstream/call.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { contractScopes } from "./metadata-key.ts";

/** What the kept answers of a process may take, in bytes, and one of them. */
const MAX_KEPT = 16 * 2 ** 20;
const MAX_KEPT_ANSWER = 2 ** 20;

/** Objects, the digest and the map slots of one kept answer. */
const OVERHEAD = 1_024;

/** How much longer than its own end a call is waited for, so that it ends by itself, and its node's record has it. */
const GRACE: Duration = 100;

export interface ContextsObserver {
  /** A POST had no call of its own: it waits for one that runs, or got an answer that the registry lets be reused. */
  callSpared(upstream: string, by: "shared" | "kept"): void;
}

/** The registry that is asked, as far as it matters here. */
export type AskedUpstream = Pick<Upstream, "name" | "admin" | "config" | "refusal" | "call">;

/** One client's question for a factory or a choice context. */
export interface ContextQuestion extends WaitLimits {
  readonly call: Omit<UpstreamCall, "deadline" | "signal" | "body"> & { readonly body: Buffer };
  /** Ids of the contracts that it is about, as far as path and body say. */
  readonly contracts: readonly string[];
  /** The client's, for its `Cache-Control`. */
  readonly headers: IncomingHttpHeaders;
  /** What is wrong with an answer that may be passed on; throws a GatewayError for one that may not. */
  readonly check: (answer: UpstreamAnswer) => string | undefined;
}

export interface ContextAnswer {
  readonly answer: Pick<UpstreamAnswer, "status" | "fields" | "body">;
  /** How it was come by; undefined where each question is a call. */
  readonly status: CacheStatus | undefined;
  /** Of a kept one, in whole seconds. */
  readonly age: number | undefined;
}

/** An answer that the registry lets be reused. */
interface KeptAnswer extends Pick<UpstreamAnswer, "status" | "fields" | "body"> {
  readonly requestedAt: Instant;
  readonly bornAt: Instant;
  readonly freshUntil: Instant;
}

interface ContextsOptions {
  readonly clock: Clock;
  readonly epochs: Pick<EpochsPort, "epochOf" | "softEpochOf">;
  readonly observer: ContextsObserver;
}

/**
 * Factories and choice contexts where `upstreams[].contexts` lets one call answer several questions: those that are equal and
 * wait at the same time, and those that come while the registry's own `max-age` lasts. Equal are questions with the same
 * bytes to the same path, sent on with the same fields.
 */
export class Contexts {
  private readonly options: ContextsOptions;
  /** By question and epoch: what was purged is found no more. */
  private readonly running = new Map<string, SharedFetch<UpstreamAnswer>>();
  private readonly kept = new LRUCache<string, KeptAnswer>({
    maxSize: MAX_KEPT,
    maxEntrySize: MAX_KEPT_ANSWER,
    sizeCalculation: ({ body, fields }) => OVERHEAD + body.length + 2 * fields.join("").length,
  });
  /** What tells upstreams apart: after a reload another may have the name, the admin or other credentials. */
  private readonly numbers = new WeakMap<AskedUpstream, number>();
  private upstreams = 0;

  constructor(options: ContextsOptions) {
    this.options = options;
  }

  /** What the kept answers take. */
  get bytes(): number {
    return this.kept.calculatedSize;
  }

  /** @throws GatewayError as {@link Upstream.call}, and 504 when the question's own deadline passes */
  async ask(upstream: AskedUpstream, question: ContextQuestion): Promise<ContextAnswer> {
    const { clock, observer } = this.options;
    const { share, maxAge } = upstream.config.contexts;
    const dependencies = share || maxAge > 0 ? dependenciesOf(upstream, question) : undefined;
    const epoch = dependencies && this.epochOf(dependencies);
    if (dependencies === undefined || epoch === undefined || upstream.refusal() !== undefined) {
      const answer = await upstream.call({ ...question.call, deadline: question.deadline, signal: question.signal });
      question.check(answer);
      return { answer, status: undefined, age: undefined };
    }
    const id = this.idOf(upstream, question, epoch);
    const asked = requestDirectives(question.headers);
    const now = clock.now();
    const kept = this.kept.get(id);
    if (kept !== undefined && isFreshFor(kept, now, asked)) {
      observer.callSpared(upstream.name, "kept");
      const ttl = Math.floor((kept.freshUntil - now) / 1_000);
      return { answer: kept, status: { ttl }, age: Math.floor((now - kept.bornAt) / 1_000) };
    }
    const forward = kept !== undefined && now < kept.freshUntil ? "request" : "uri-miss";
    const call = (limits: WaitLimits) => this.call(upstream, question, { id, epoch, dependencies }, limits);
    if (!share) return { answer: await call(question), status: { forward }, age: undefined };
    const running = asked.noCache || asked.maxAge === 0 ? undefined : this.running.get(id);
    if (running !== undefined) observer.callSpared(upstream.name, "shared");
    // A deadline that is about that of a call from now on is that of a client that named none.
    const end = now + upstream.config.timeout;
    const deadline = question.deadline < end - GRACE ? question.deadline : end + GRACE;
    const answer = await (running ?? this.start(upstream, id, call)).wait({ deadline, signal: question.signal });
    return { answer, status: { forward, collapsed: running !== undefined }, age: undefined };
  }

  /** A call that belongs to nobody who waits for it. */
  private start(
    upstream: AskedUpstream,
    id: string,
    call: (limits: WaitLimits) => Promise<UpstreamAnswer>,
  ): SharedFetch<UpstreamAnswer> {
    const { clock } = this.options;
    const { timeout } = upstream.config;
    const deadline = clock.now() + timeout;
    const shared: SharedFetch<UpstreamAnswer> = new SharedFetch({
      clock,
      timeout: timeout + GRACE,
      background: false,
      run: (signal) => call({ deadline, signal }),
      ended: () => {
        if (this.running.get(id) === shared) this.running.delete(id);
      },
    });
    this.running.set(id, shared);
    return shared;
  }

  /** Asks the registry, and keeps what it lets be kept, unless that was purged meanwhile. */
  private async call(
    upstream: AskedUpstream,
    { call, check }: ContextQuestion,
    { id, epoch, dependencies }: { readonly id: string; readonly epoch: string; readonly dependencies: Dependencies },
    { deadline, signal }: WaitLimits,
  ): Promise<UpstreamAnswer> {
    const answer = await upstream.call({ ...call, deadline, signal });
    const isSound = check(answer) === undefined;
    if (isSound && this.epochOf(dependencies) === epoch) this.keep(id, answer, upstream.config.contexts.maxAge);
    return answer;
  }

  /** Keeps an answer where the registry says how long it is good, unless a later one is kept. */
  private keep(id: string, answer: UpstreamAnswer, maxAge: Duration): void {
    const { clock } = this.options;
    const times = reusableUntil(answer, maxAge, clock);
    if (times === undefined || times.freshUntil <= clock.now()) return;
    const { status, fields, body, requestedAt } = answer;
    if ((this.kept.peek(id)?.requestedAt ?? -Infinity) > requestedAt) return;
    this.kept.set(id, { status, fields, body: ownCopy(body), requestedAt, ...times });
    answer.origin?.whenStray(() => this.kept.delete(id));
  }

  private epochOf(dependencies: Dependencies): string | undefined {
    const { epochs } = this.options;
    const epoch = epochs.epochOf(dependencies);
    return epoch === undefined ? undefined : `${epoch}\n${epochs.softEpochOf(dependencies)}`;
  }

  /** Equal for questions that one answer may be given to. */
  private idOf(upstream: AskedUpstream, { call }: ContextQuestion, epoch: string): string {
    let number = this.numbers.get(upstream);
    if (number === undefined) this.numbers.set(upstream, (number = this.upstreams += 1));
    const about = [number, epoch, call.method, call.path, ...sentFields(call.fields)];
    return createHash("sha256")
      .update(`${JSON.stringify(about)}\n`)
      .update(call.body)
      .digest("base64url");
  }
}

/** Undefined while the registry's admin is not known, under which it is purged. */
function dependenciesOf({ admin }: AskedUpstream, { contracts }: ContextQuestion): Dependencies | undefined {
  return admin === undefined ? undefined : { partition: admin, scopes: contractScopes(contracts) };
}

/** Fields that are another with each request, and by which no answer is to differ. */
const OF_ONE_REQUEST: ReadonlySet<string> = new Set([...TRACE_FIELDS, "x-request-id"]);

function sentFields(fields: Fields): string[] {
  return fields.filter((_, i) => !OF_ONE_REQUEST.has(fields[i - (i % 2)]!));
}

/** The policy of what is kept: nothing but what the registry marks. */
const MARKED = { notFoundTtl: undefined, errors: "never" } as const;

/** How long an answer may be reused: as its `max-age` says, and no longer than `maxAge`, both counted from its birth. */
function reusableUntil(
  { status, fields, requestedAt, receivedAt }: UpstreamAnswer,
  maxAge: Duration,
  clock: Clock,
): Pick<KeptAnswer, "bornAt" | "freshUntil"> | undefined {
  const { directives } = governingDirectives(fields);
  const varies = varyNames(fields);
  if (directives.maxAge === undefined || directives.noCache !== false || directives.private !== false) return undefined;
  // Questions with other credentials are not equal: that this one has some is no matter.
  const storable = { status, directives, policy: MARKED, explicit: true, varies, authorized: false };
  if (status !== 200 || whyNotStorable(storable) !== undefined) return undefined;
  if (varies !== "*" && varies.some((name) => OF_ONE_REQUEST.has(name))) return undefined;
  const receivedWall = clock.wallNow() - (clock.now() - receivedAt);
  const bornAt = receivedAt - correctedInitialAge(fields, { requestedAt, receivedAt, receivedWall });
  return { bornAt, freshUntil: bornAt + Math.min(directives.maxAge, directives.sMaxage ?? Infinity, maxAge) };
}
