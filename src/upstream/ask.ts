import type { Dispatcher } from "undici";
import { decodeBody } from "../bodies/answer.ts";
import { type Fields, fieldsOfDecodedBody, fieldValue, filterFields } from "../fields.ts";
import type { Operation } from "../spec/operations.ts";
import { formatSize } from "../units.ts";
import { isConflict, pauseAfter429, type Question, type RawAnswer, readAnswer } from "./answer.ts";
import type { Connection } from "./connection.ts";
import { exchange, type Leash, type Received } from "./exchange.ts";
import { Failure, failed } from "./failure.ts";
import type { Node } from "./node.ts";
import type { Answer, Call } from "./types.ts";

/** A question to a node: a call, or its info. */
export interface Asked extends Omit<Call, "priority" | "signal" | "onEnd"> {
  /** Fields that show who the gateway is. */
  readonly credentials: Fields;
  /** The admin that an info has to name; undefined: whoever it is. */
  readonly admin: string | undefined;
  readonly leash?: Leash | undefined;
}

/** Fields of each request, besides those of its call. */
const OWN_FIELDS: Fields = ["accept", "application/json", "accept-encoding", "identity"];
/** Fields that end with a content coding. */
const OF_CODED_BODY: ReadonlySet<string> = new Set(["content-encoding", "content-length"]);

/**
 * Asks over one connection, and notes what the answer says of the node: that it answers, a pause, refused credentials. Where
 * the connection can carry no more, it is closed.
 *
 * @throws GatewayError `client_gone` when the leash is cut, `overloaded`
 */
export async function ask(node: Node, connection: Connection, asked: Asked): Promise<Answer | Failure> {
  const { config, clock, answerLimit: limit } = node.access;
  const { deadline, leash } = asked;
  const received = await exchange(connection, requestOf(node, asked), { clock, deadline, limit, leash });
  if (received.kind === "fault") {
    const { reason, cause, isSent } = received;
    const tooLarge = `answered with more than the ${formatSize(limit)} that limits.responseBody allows`;
    const text = reason === "too_large" ? tooLarge : undefined;
    node.connections.avoid(connection);
    return failed(reason === "reset" && !isSent ? "unsent" : reason, config.name, { cause, text });
  }
  node.answered();
  connection.infoAt = undefined;
  const raw = await withoutCoding(node, received);
  const outcome = raw instanceof Failure ? raw : readAnswer(raw, questionOf(node, asked));
  noteStatus(node, asked.operation, raw instanceof Failure ? received : raw);
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
  const ownPath = base === "registry" ? node.basePath + path : path;
  return { method, path: dialer.pathPrefix + ownPath, headers, body: body ?? null };
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

/** Undoes content codings; synchronous where there are none, or no body, whatever the fields say (RFC 9110 §15.4.5). */
function withoutCoding(node: Node, received: Received): RawAnswer | Promise<RawAnswer | Failure> {
  const raw = { ...received, node: node.url };
  return received.body.length === 0 || !received.fields.includes("content-encoding") ? raw : decoded(node, raw);
}

async function decoded(node: Node, raw: RawAnswer): Promise<RawAnswer | Failure> {
  const { config, answerLimit } = node.access;
  const body = await decodeBody(raw.fields, raw.body, answerLimit);
  if (body === "too_large") return failed("too_large", config.name);
  if (typeof body === "string") return failed("coding", config.name);
  const isAsItCame = body === raw.body;
  const kept = isAsItCame ? raw.fields : fieldsOfDecodedBody(raw.fields);
  return { ...raw, body, fields: filterFields(kept, (name) => !OF_CODED_BODY.has(name)) };
}

/** Notes what a 429 says of the node, and the status of the credentials. */
function noteStatus(
  node: Node,
  operation: Operation,
  { status, fields, body }: Pick<Received, "status" | "fields" | "body">,
): void {
  const { clock, config, credentials } = node.access;
  if (status === 429) {
    const wallNow = clock.wallNow();
    if (!isConflict({ status, fields, body }, wallNow)) node.pause(pauseAfter429(fields, wallNow));
  }
  if (config.auth !== undefined) credentials.answered(operation, status);
}
