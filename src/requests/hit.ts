import type { IncomingMessage, ServerResponse } from "node:http";
import { LRUCache } from "lru-cache";
import type { CacheAnswer, Resource } from "../cache/resource.ts";
import type { Client } from "../clients/client.ts";
import type { Instant } from "../clock.ts";
import type { RecordRequest } from "../observe/traffic.ts";
import type { CachedOperation } from "../spec/operations.ts";
import type { Upstream } from "../upstream/upstream.ts";
import type { Services, Snapshot } from "./context.ts";
import type { Admission } from "./gate.ts";
import { commonFieldsOf, isOwnError, requestIdOf, sendAnswer, withRequestId } from "./send.ts";
import type { RegistryTarget } from "./target.ts";

/** What a URL without further headers stands for: everything that a hit needs, worked out once. */
export interface HitTarget {
  readonly target: RegistryTarget;
  readonly operation: CachedOperation;
  readonly upstream: Upstream;
  /** The admin that the upstream had then; with another one the URL means something else. */
  readonly admin: string;
  readonly resource: Resource;
  readonly recordHit: RecordRequest;
}

/** Characters of remembered URLs; a URL may be 8 KiB long, and clients choose them. */
const MEMO_CHARACTERS = 4 * 1024 * 1024;
/** What a short URL counts for: some 20,000 are remembered. A number of entries would take its memory before the first. */
const LEAST_CHARACTERS = 200;
/** Bytes that an answer takes in memory at least: more URLs than it has room for answers are no hits. */
const LEAST_ANSWER = 3_000;

/**
 * Remembers what the URLs of metadata requests stand for, so that a hit parses nothing. It belongs to one snapshot,
 * within which a URL keeps its meaning, but where an upstream learns an admin that another one had.
 */
export class HitMemo {
  private readonly targets: LRUCache<string, HitTarget>;

  /** @param memory bytes that answers may take in memory: what is remembered takes half of that at most */
  constructor(memory: number) {
    const answers = Math.ceil(memory / LEAST_ANSWER);
    this.targets = new LRUCache<string, HitTarget>({
      maxSize: Math.min(MEMO_CHARACTERS, answers * LEAST_CHARACTERS),
      sizeCalculation: (_target, url) => Math.max(url.length, LEAST_CHARACTERS),
    });
  }

  remember(url: string, target: HitTarget): void {
    this.targets.set(url, target);
  }

  find(url: string): HitTarget | undefined {
    const target = this.targets.get(url);
    if (target === undefined || target.upstream.isDisabled) return undefined;
    return target.upstream.admin === target.admin ? target : undefined;
  }
}

/**
 * Answers a GET or HEAD without a body that is a fresh hit in memory. Says false, having done nothing, for a request that
 * needs more than that.
 *
 * @param admission of the client, where it makes a difference who asks
 */
export type AnswerHit = (request: IncomingMessage, response: ServerResponse, admission?: Admission) => boolean;

/** The shortest way through the gateway: URL → resource → memory → one write, before Fastify's routing and hooks. */
export function createHitAnswers(services: Services): AnswerHit {
  const { clock, random, cache } = services;
  const { lines, tracing, clients } = services.observers;

  return (request, response, admission) => {
    const { url, headers } = request;
    const method = request.method as "GET" | "HEAD";
    // While the process drains, answers also close their connections: the routes see to it.
    if (services.inFlight.isDraining) return false;
    const snapshot = services.snapshots.latest;
    const target = snapshot.hits.find(url!);
    if (target === undefined) return false;
    // The routes say what is forbidden.
    if (admission?.client?.tier.allows(target.upstream.name) === false) return false;
    if (headers[snapshot.config.routing.adminHeader] !== undefined) return false;
    const startedAt = clock.now();
    const answer = cache.hit(target.resource, { method, headers });
    if (answer === undefined) return false;
    const id = requestIdOf(headers["x-request-id"]);
    const common = commonFieldsOf({ id, snapshot, request, limitState: admission?.limitState }, false);
    const sent = isOwnError(answer) ? withRequestId(answer, id, clock.wallNow()) : answer;
    sendAnswer(request, response, sent, common);
    record(request, { target, answer, startedAt, id, snapshot }, admission?.client);
    return true;
  };

  function record({ method, headers }: IncomingMessage, hit: Hit, client: Client | undefined): void {
    const { target, startedAt, id, snapshot } = hit;
    const { status, age } = hit.answer;
    target.recordHit({ status, age, seconds: (clock.now() - startedAt) / 1000 });
    if (client !== undefined) clients.count(client, target.operation, "hit", startedAt);
    tracing?.begin(headers, clock.now() - startedAt).end({
      requestId: id,
      method: method!,
      operation: target.operation,
      upstream: target.upstream.name,
      status,
      outcome: "hit",
    });
    const { hits } = snapshot.config.log;
    if (hits > 0 && random() < hits) {
      const { operation, upstream } = target;
      const line = { requestId: id, method: method!, operation, upstream: upstream.name, status, outcome: "hit" };
      lines.write(client === undefined ? line : { ...line, client: client.name });
    }
  }
}

/** A fresh hit, and what is recorded of it. */
interface Hit {
  readonly target: HitTarget;
  readonly answer: CacheAnswer;
  readonly startedAt: Instant;
  readonly id: string;
  readonly snapshot: Snapshot;
}
