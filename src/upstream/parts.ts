import { AT_ONCE, type BodyReader } from "../bodies/body-reader.ts";
import { HeldBodies } from "../bodies/held-bodies.ts";
import type { Clock, Duration } from "../clock.ts";
import type { Config, UpstreamConfig } from "../config/schema.ts";
import type { FileWatcher } from "../config/watched-files.ts";
import type { Coordinator } from "../sharing/ports.ts";
import { digestOf } from "../digest.ts";
import { OperatorActions } from "./operator-actions.ts";
import { RetryBudget } from "../limits/retry-budget.ts";
import { Latencies } from "./call/further-attempts.ts";
import type { Credentials, OwnCredentials } from "./credentials/credentials.ts";
import { CircuitBreaker, RecentRequests } from "../limits/circuit-breaker.ts";
import { ConcurrencyLimit } from "../limits/concurrency-limit.ts";
import { RateLimit } from "../limits/rate-limit.ts";
import type { RateLimitGroups } from "../limits/counted-calls.ts";
import { NodeChoice } from "./nodes/node-choice.ts";
import { Nodes } from "./nodes/nodes.ts";
import type { BreakerScope, UpstreamObserver } from "./observer.ts";

/** Sizes of bodies, bytes. */
export type UpstreamLimits = Pick<Config["limits"], "requestBody" | "responseBody">;

/** What all upstreams share. */
export interface UpstreamEnvironment {
  readonly limits: UpstreamLimits;
  readonly clock: Clock;
  /** Looks at the files of credentials. */
  readonly files: FileWatcher;
  /** Reads the bodies of large answers. */
  readonly bodies: BodyReader;
  /** The large answers that are kept until they are complete: {@link heldAnswers}. */
  readonly answers: HeldBodies;
  /** From 0 to 1, as Math.random. */
  readonly random: () => number;
  readonly coordinator: Pick<Coordinator, "actions" | "announcements" | "limits">;
  readonly observer: UpstreamObserver;
  /** What was stored of the registry with this admin may be of another one: it is not to be used any more. */
  readonly forget: (admin: string) => void;
}

/** What the calls of one upstream share. */
export interface UpstreamParts {
  readonly config: UpstreamConfig;
  readonly limits: UpstreamLimits;
  readonly clock: Clock;
  readonly bodies: BodyReader;
  readonly answers: HeldBodies;
  readonly random: () => number;
  readonly observer: UpstreamObserver;
  readonly nodes: Nodes;
  /** What operators did to it. */
  readonly operatorActions: OperatorActions;
  readonly choice: NodeChoice;
  readonly breaker: CircuitBreaker;
  /** Of what is passed through: paths of which nothing is known, and which clients choose as they like. */
  readonly passThroughBreaker: CircuitBreaker;
  /** Requests that failed on a node, which is one of two to blame: its place in the list. */
  readonly doubtful: RecentRequests<number>;
  /** Requests that failed on every node they were sent to. */
  readonly failedEverywhere: RecentRequests<true>;
  readonly concurrency: ConcurrencyLimit;
  readonly rateLimit: RateLimit | undefined;
  readonly credentials: Credentials | undefined;
  readonly latencies: Latencies;
  readonly retries: RetryBudget;
  readonly hedges: RetryBudget;
}

/** What answers of more than 64 KiB may take in all, of all registries, while they are kept until they are complete. */
const MOST_ANSWERS = 256 * 1024 * 1024;

/** How long it is known of a request that it failed. */
const REMEMBERED: Duration = 10_000;
/** Retries a second on top of their share of the calls. */
const RETRIES_PER_SECOND = 3;
const MOST_RETRIES_SAVED = 50;
const MOST_HEDGES_SAVED = 30;

/** What an upstream gives its parts, and gets from them. */
interface UpstreamHooks {
  readonly own: OwnCredentials;
  readonly groups: RateLimitGroups;
  /** Why the upstream may not have `admin`, if it may not. */
  readonly claim: (admin: string) => string | undefined;
  /** A node or a breaker may have another state. */
  readonly onChange: () => void;
}

/** The answers of all upstreams of a process, bounded in all. */
export function heldAnswers(most = MOST_ANSWERS): HeldBodies {
  return new HeldBodies({ most, free: AT_ONCE });
}

/** The parts of one upstream, each built from those before it. */
export function createParts(
  config: UpstreamConfig,
  environment: UpstreamEnvironment,
  hooks: UpstreamHooks,
): UpstreamParts {
  const { clock, bodies, answers, random, observer, limits } = environment;
  const { auth: credentials } = hooks.own;
  const rateLimit = createRateLimit(config, environment, hooks.groups);
  const operatorActions = new OperatorActions(config.name, environment.coordinator.actions, clock);
  const { nodes, breaker, passThroughBreaker } = createNodes(
    { config, rateLimit, operatorActions },
    environment,
    hooks,
  );
  return {
    config,
    limits,
    clock,
    bodies,
    answers,
    random,
    observer,
    nodes,
    operatorActions,
    breaker,
    passThroughBreaker,
    doubtful: new RecentRequests(clock, REMEMBERED),
    failedEverywhere: new RecentRequests(clock, REMEMBERED),
    rateLimit,
    credentials,
    choice: new NodeChoice(nodes.all, random),
    concurrency: new ConcurrencyLimit(config.name, config.concurrency, clock),
    latencies: new Latencies(config.hedge.quantile),
    retries: new RetryBudget(clock, {
      perCall: config.retry.budget,
      perSecond: RETRIES_PER_SECOND,
      most: MOST_RETRIES_SAVED,
      first: RETRIES_PER_SECOND,
    }),
    hedges: new RetryBudget(clock, { perCall: config.hedge.budget, perSecond: 0, most: MOST_HEDGES_SAVED, first: 0 }),
  };
}

function createRateLimit(
  config: UpstreamConfig,
  environment: UpstreamEnvironment,
  groups: RateLimitGroups,
): RateLimit | undefined {
  const { coordinator, clock, observer } = environment;
  if (config.rateLimit === undefined) return undefined;
  return new RateLimit({
    upstream: config.name,
    rateLimit: config.rateLimit,
    coordinator,
    clock,
    groups,
    onRation: (share, isNew) => observer.rationed(config.name, share, isNew),
  });
}

/** The nodes, and the breakers that ask them for the registry's info and close when one gives it. */
function createNodes(
  { config, rateLimit, operatorActions }: Pick<UpstreamParts, "config" | "rateLimit" | "operatorActions">,
  { clock, random, observer, coordinator, forget }: UpstreamEnvironment,
  { own, claim, onChange }: UpstreamHooks,
) {
  const timeout = Math.min(config.attemptTimeout, config.timeout);
  const nodes: Nodes = new Nodes({
    config,
    clock,
    random,
    observer,
    credentials: own.auth,
    rateLimit,
    operatorActions,
    claim,
    target: {
      connectTimeout: timeout,
      httpProxy: config.httpProxy,
      publicOnly: config.publicOnly === true,
      isStranger: config.isStranger === true,
      http2: config.http2 === "auto",
      tls: own.tls,
    },
    onImpostor: (node, admin) => {
      if (admin !== undefined) forget(admin);
      coordinator.announcements.announce(impostorAt(node.url));
    },
    onCheck: (isWell) => {
      if (isWell) for (const each of [breaker, passThroughBreaker]) each.hint();
      onChange();
    },
  });
  const createBreaker = (calls: BreakerScope) =>
    new CircuitBreaker({
      clock,
      timeout,
      askInfo: () => nodes.askInfo(),
      onChange: (change) => {
        observer.breaker(config.name, calls, change);
        onChange();
      },
    });
  const breaker = createBreaker("api");
  const passThroughBreaker = createBreaker("pass-through");
  return { nodes, breaker, passThroughBreaker };
}

/** Notifies other processes, which may have other aliases, that the node at this URL is another registry. */
export function impostorAt(url: string): string {
  return `impostor ${digestOf(url)}`;
}
