import type { FastifyReply, FastifyRequest } from "fastify";
import { adminsOfRequest } from "../bodies/request.ts";
import type { Clock } from "../clock.ts";
import { filterFields, passedFields } from "../fields.ts";
import { type Endpoint, endpointPath } from "../spec/operations.ts";
import { callFields, momentaryFields } from "./call-fields.ts";
import { deadlineOf, MOST_WAIT, signalOf } from "./context.ts";
import { checkJson } from "./gate.ts";
import { sendWhole } from "./reply.ts";
import { adminNotNamed, namedUpstream, plainUpstream } from "./route.ts";
import type { RegistryParams } from "./metadata.ts";

type PostEndpoint = Extract<Endpoint, { readonly record: { readonly kind: "factory" | "context" } }>;

const NOTHING = Buffer.alloc(0);

/**
 * Factories and choice contexts of both versions: the body is looked at, its admin compared with every other place that names
 * one, and the same bytes go to that registry.
 */
export async function answerChoice(
  request: FastifyRequest,
  reply: FastifyReply,
  { operation, record }: PostEndpoint,
  clock: Clock,
): Promise<void> {
  const { state } = request;
  const { admin: path, id } = request.params as RegistryParams;
  const body = (request.body as Buffer | undefined) ?? NOTHING;
  checkJson(request, body.length);
  const admins = adminsOfRequest(body, record);
  const signal = signalOf(request, reply);
  const wait = { deadline: deadlineOf(request, MOST_WAIT, clock), signal };
  const upstream = (await namedUpstream(request, { path, body: admins }, () => wait)) ?? plainUpstream(request);
  if (upstream === undefined) throw adminNotNamed(request, record.kind === "factory");
  state.upstream = upstream;
  const answer = await upstream.call({
    operation,
    method: "POST",
    base: "registry",
    path: endpointPath(operation, id),
    fields: [...callFields(request, upstream), ...(body.length === 0 ? [] : ["content-type", "application/json"])],
    body,
    priority: "client",
    deadline: deadlineOf(request, upstream.config.timeout, clock),
    signal,
    onEnd: (report) => {
      state.report = report;
    },
  });
  const passed = passedFields(answer.fields, upstream.config.cache.forwardResponseHeaders);
  const kept = filterFields(momentaryFields(passed), (name) => name !== "content-type");
  sendWhole(request, reply, {
    status: answer.status,
    fields: [...kept, "content-type", "application/json"],
    body: answer.body,
  });
}
