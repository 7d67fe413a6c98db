import type { FastifyInstance } from "fastify";
import type { DiscoveryDecision, DiscoveryReport } from "../discovery/report.ts";
import { GatewayError } from "../errors.ts";
import { Type } from "typebox";
import { Compile } from "typebox/compile";
import { type ActionParts, addAction } from "./action-route.ts";

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

/** `GET /discovery`, and `POST`, by which an operator approves or refuses what waits. */
export function addDiscovery(app: FastifyInstance, discovery: DiscoveryOperations, parts: ActionParts): void {
  app.get("/discovery", async (_request, reply) => reply.send(discovery.report()));
  addAction(app, parts, ["/discovery", "discovery"], async (body) => {
    if (!validator.Check(body)) {
      const text =
        "the request is not valid: it is a JSON object that takes admin (a party id), approve (true or false) and urls (those that you saw proposed; may be left out)";
      throw new GatewayError("invalid_request", text);
    }
    const { admin, approve, urls } = body;
    const upstream = discovery.report().registries.find((each) => each.admin === admin)?.name;
    const { registry, reach } = await discovery.decide(admin, approve, urls);
    return { what: { admin, ...(upstream !== undefined && { upstream }), approve }, reach, answer: { registry } };
  });
}
