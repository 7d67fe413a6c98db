import type { IncomingMessage, ServerResponse } from "node:http";
import { LRUCache } from "lru-cache";
import type { Resource } from "../cache/resource.ts";
import type { RecordRequest } from "../observe/traffic.ts";
import type { CachedOperation } from "../spec/endpoints.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { requestIdOf, type Services } from "./context.ts";
import { isFramedSafely } from "./framing.ts";
import type { Admission } from "./gate.ts";
import { sendKept } from "./kept-answer.ts";
import type { PageQuery, RegistryTarget } from "./target.ts";

/** What a URL without further headers stands for: everything that a hit needs, worked out once. */
export interface HitTarget {
  readonly target: RegistryTarget;
  readonly operation: CachedOperation;
  /** Of a page. */
  readonly page: PageQuery | undefined;
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
 * within which a URL keeps its meaning.
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
    return target !== undefined && target.upstream.admin === target.admin ? target : undefined;
  }
}

/**
 * Answers requests that are fresh hits in memory; everything else is left to the routes.
 *
 * @param admission of the client, where it makes a difference who asks; such a request is framed safely
 */
export type AnswerHit = (request: IncomingMessage, response: ServerResponse, admission?: Admission) => boolean;

/**
 * The shortest way through the gateway: URL → resource → memory → one write. It runs before Fastify's routing and
 * hooks, and says false, having done nothing, for whatever needs more than that.
 */
export function createAnswerHit(services: Services): AnswerHit {
  const { clock, random, cache } = services;
  const { lines, tracing, clients } = services.observers;

  return function answerHit(request, response, admission) {
    const { method } = request;
    // While the process drains, answers also close their connections: the routes see to it.
    if ((method !== "GET" && method !== "HEAD") || services.inFlight.isDraining) return false;
    const snapshot = services.snapshot();
    const target = snapshot.hits.find(request.url!);
    if (target === undefined) return false;
    const client = admission?.client;
    // The routes say what is forbidden.
    if (client !== undefined && !client.tier.allows(target.upstream.name)) return false;
    const { headers } = request;
    const { config } = snapshot;
    if (headers[config.routing.adminHeader] !== undefined) return false;
    // With an admission this was found out before.
    if (admission === undefined && !isFramedSafely(request)) return false;
    const startedAt = clock.now();
    const answer = cache.hit(target.resource, { method, headers });
    if (answer === undefined) return false;

    const id = requestIdOf(headers["x-request-id"]);
    sendKept(response, answer, { id, snapshot, request, standing: admission?.standing, now: clock.wallNow() });

    const { status, age, body } = answer;
    target.recordHit({ status, age, bytes: body?.length ?? 0, seconds: (clock.now() - startedAt) / 1000 });
    if (client !== undefined) clients.count(client, target.operation, "hit", startedAt);
    tracing?.begin(headers, clock.now() - startedAt).end({
      requestId: id,
      method,
      operation: target.operation,
      upstream: target.upstream.name,
      status,
      outcome: "hit",
    });
    if (config.log.hits > 0 && random() < config.log.hits) {
      const { operation, upstream } = target;
      const hit = { requestId: id, method, operation, upstream: upstream.name, status, outcome: "hit" };
      lines.write(client === undefined ? hit : { ...hit, client: client.name });
    }
    return true;
  };
}
