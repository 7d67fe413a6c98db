import type { FastifyInstance } from "fastify";
import type { Clock } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import type { Coordinator, PurgeReach } from "../sharing/ports.ts";
import { operatorOf } from "./access.ts";
import type { Operator } from "./actions.ts";
import type { Audit, AuditEntry } from "./audit.ts";
import { bodyOf } from "./request.ts";

/** What every action goes through. */
export interface ActionParts {
  readonly clock: Clock;
  readonly shared: Pick<Coordinator, "replicas">;
  readonly audit: Audit;
}

/** What was done. */
export interface Done {
  /** For the audit: what was asked for. */
  readonly what: object;
  readonly reach: PurgeReach;
  /** The answer, but for its `scope` and `replicas`. */
  readonly answer: object;
}

/**
 * Adds `POST path`, by which an operator does something: it is noted, and the answer says which replicas took it.
 *
 * @param act does what the body says, or throws a GatewayError
 */
export function addAction(
  app: FastifyInstance,
  { clock, shared, audit }: ActionParts,
  [path, did]: readonly [path: string, did: AuditEntry["did"]],
  act: (body: unknown, operator: Operator) => Promise<Done>,
): void {
  app.post(path, async (request, reply) => {
    const since = clock.now();
    const operator = operatorOf(request.raw, request.credential);
    const { what, reach, answer } = await act(bodyOf(request), operator);
    const replicas = reach === "pending" ? undefined : shared.replicas.whoTook(since, reach);
    audit.note(did, operator, { what, scope: reach, replicas });
    if (reach === "pending") {
      const text = "done on this replica only: Redis is away. It is written to Redis before that is read again";
      throw new GatewayError("redis_away", text, { retryAfter: 5 });
    }
    return reply.send({ ...answer, scope: reach, replicas: await replicas });
  });
}
