import type { Dispatcher } from "undici";
import { decodeBody } from "../bodies/answer.ts";
import type { Instant } from "../clock.ts";
import { type Fields, fieldsOfDecodedBody, fieldValue, filterFields } from "../fields.ts";
import { formatSize } from "../units.ts";
import { isConflict, pauseAfter429, type Question, type RawAnswer, readAnswer } from "./answer.ts";
import type { Connection } from "./connection.ts";
import { exchange, type Leash, type Received } from "./exchange.ts";
import { Failure, failed } from "./failure.ts";
import type { Node } from "./node.ts";
import type { Answer, Call } from "./types.ts";

/** A question to a node: a call, or its info. */
export interface Asked extends Pick<
  Call,
  "operation" | "method" | "base" | "path" | "fields" | "body" | "id" | "condition"
> {
  /** Fields that show who the gateway is. */
  readonly credentials: Fields;
  /** The admin that an info has to name; undefined: whoever it is. */
  readonly admin: string | undefined;
  readonly deadline: Instant;
  readonly leash?: Leash | undefined;
}

/** All that goes to a registry besides what the call says. */
const OWN_FIELDS: Fields = ["accept", "application/json", "accept-encoding", "identity"];

/**
 * Asks over one connection, which is closed where it can carry no more, and notes what the answer says of the node but its
 * state.
 *
 * @throws GatewayError `client_gone` when the leash is cut, `overloaded`
 */
export async function ask(node: Node, connection: Connection, asked: Asked): Promise<Answer | Failure> {
  const { config, clock, answerLimit: limit } = node.access;
  const { deadline, leash } = asked;
  const received = await exchange(connection, requestOf(node, asked), { clock, deadline, limit, leash });
  if (received.kind === "fault") {
    const { reason, cause, isSent } = received;
    const text =
      reason === "too_large"
        ? `answered with more than the ${formatSize(limit)} that limits.responseBody allows`
        : undefined;
    node.connections.avoid(connection);
    return failed(reason === "reset" && !isSent ? "unsent" : reason, config.name, { cause, text });
  }
  node.answered();
  connection.infoAt = undefined;
  const raw = await withoutCoding(node, received);
  const outcome = raw instanceof Failure ? raw : readAnswer(raw, questionOf(node, asked));
  noteStatus(node, raw instanceof Failure ? received : raw);
  // An answer to another question: nothing more is believed that comes over its connection.
  if (outcome instanceof Failure && outcome.reason === "mismatch") connection.close();
  return outcome;
}

function requestOf(
  node: Node,
  { base, method, path, fields, body, condition, credentials }: Asked,
): Dispatcher.DispatchOptions {
  const { dialer } = node.connections;
  const headers = [...OWN_FIELDS, ...fields, ...credentials, ...dialer.fields];
  if (condition?.node === node.url) headers.push(...condition.fields);
  const place = base === "registry" ? node.basePath + path : path;
  return { method, path: dialer.pathPrefix + place, headers, body: body ?? null };
}

function questionOf(node: Node, { operation, id, admin, condition, fields }: Asked): Question {
  const { config, clock } = node.access;
  const showsOurs = config.auth !== undefined || config.tls?.certFile !== undefined;
  return {
    upstream: config.name,
    operation,
    validation: config.validation,
    id,
    admin,
    isConditional: condition?.node === node.url,
    // Where a client's Authorization went along, a refusal is about the client.
    hasOwnCredentials: showsOurs && fieldValue(fields, "authorization") === undefined,
    wallNow: clock.wallNow(),
  };
}

/** At once where nothing is coded; without a body there is nothing to decode, whatever the fields say (RFC 9110 §15.4.5). */
function withoutCoding(node: Node, received: Received): RawAnswer | Promise<RawAnswer | Failure> {
  const raw = { ...received, node: node.url };
  return received.body.length === 0 || !received.fields.includes("content-encoding") ? raw : decoded(node, raw);
}

async function decoded(node: Node, raw: RawAnswer): Promise<RawAnswer | Failure> {
  const { config, answerLimit } = node.access;
  const body = await decodeBody(raw.fields, raw.body, answerLimit);
  if (body === "too_large") return failed("too_large", config.name);
  if (typeof body === "string") return failed("coding", config.name);
  const fields = filterFields(
    fieldsOfDecodedBody(raw.fields),
    (name) => name !== "content-encoding" && name !== "content-length",
  );
  return { ...raw, body, fields };
}

function noteStatus(node: Node, { status, fields, body }: Pick<Received, "status" | "fields" | "body">): void {
  const { clock, config, credentials } = node.access;
  if (status === 429) {
    const wallNow = clock.wallNow();
    if (!isConflict({ status, fields, body }, wallNow)) node.pause(pauseAfter429(fields, wallNow));
  }
  if (status === 401 && config.auth !== undefined) credentials.refused();
}
