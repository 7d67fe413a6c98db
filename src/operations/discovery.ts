import type { FastifyInstance } from "fastify";
import type { Clock } from "../clock.ts";
import type { Coordinator } from "../sharing/ports.ts";
import type { DiscoveryDecision, DiscoveryReport } from "../discovery/report.ts";
import { GatewayError } from "../errors.ts";
import { Type } from "typebox";
import { Compile } from "typebox/compile";
import { operatorOf } from "./access.ts";
import type { Audit } from "./audit.ts";
import { bodyOf } from "./request-body.ts";

/** What the listener says of discovery, and has it do. */
export interface DiscoveryOperations {
  report(): DiscoveryReport;
  /** Every decision is in what replicas share. */
  isShared(): boolean;
  /** @throws GatewayError 404 for an admin that was not found, 409 where nothing waits, or something else than was `seen` */
  decide(admin: string, approve: boolean, seen?: readonly string[]): Promise<DiscoveryDecision>;
}

/** The body of `POST /discovery`. */
const DecisionRequest = Type.Object(
  {
    admin: Type.String({ minLength: 1, maxLength: 255 }),
    approve: Type.Boolean(),
    /** What was proposed when the operator looked; none to take away what is gone. */
    urls: Type.Optional(Type.Array(Type.String({ maxLength: 2_048 }), { maxItems: 64 })),
  },
  { additionalProperties: false },
);

const validator = Compile(DecisionRequest);

interface DiscoveryParts {
  readonly clock: Clock;
  readonly discovery: DiscoveryOperations;
  readonly shared: Pick<Coordinator, "whoTook">;
}

/** `GET /discovery`, and `POST`, by which an operator approves or refuses what waits. */
export function addDiscovery(app: FastifyInstance, parts: DiscoveryParts, audit: Audit): void {
  const { clock, discovery } = parts;
  app.get("/discovery", async (_request, reply) => reply.send(discovery.report()));
  app.post("/discovery", async (request, reply) => {
    const body = bodyOf(request);
    if (!validator.Check(body)) {
      const text =
        "the request is not valid: it is a JSON object that takes admin (a party id), approve (true or false) and urls (those that you saw proposed; may be left out)";
      throw new GatewayError("invalid_request", text);
    }
    const { admin, approve, urls } = body;
    const upstream = discovery.report().registries.find((each) => each.admin === admin)?.name;
    const since = clock.now();
    const { registry, reach } = await discovery.decide(admin, approve, urls);
    const what = { admin, ...(upstream !== undefined && { upstream }), approve };
    const replicas = reach === "pending" ? undefined : parts.shared.whoTook(since, reach);
    audit.note("discovery", operatorOf(request.raw, request.credential), { what, scope: reach, replicas });
    if (reach === "pending") {
      const text = "decided on this replica only: Redis is away. It is written to Redis when that is back";
      throw new GatewayError("redis_away", text, { retryAfter: 5 });
    }
    return reply.send({ registry, scope: reach, replicas: await replicas });
  });
}
