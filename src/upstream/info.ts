import { isObject, printable } from "../json.ts";
import type { Turn } from "../limits/queue.ts";
import { endpointPath } from "../spec/operations.ts";
import { ask } from "./ask.ts";
import type { Connection } from "./connection.ts";
import { Failure, failed, nodePaused } from "./failure.ts";
import type { Node } from "./node.ts";
import type { Answer } from "./types.ts";

const INFO = { operation: "info", method: "GET", base: "registry", path: endpointPath("info"), fields: [] } as const;

/**
 * Asks a node for its info over this connection, and tells the node what came of it.
 *
 * @returns why the node is not proved; undefined: it named the registry's admin
 * @throws GatewayError of our own limit, or where credentials cannot be had
 */
export async function askInfo(
  node: Node,
  connection: Connection,
  priority: Turn["priority"],
): Promise<Failure | undefined> {
  const { clock, config, observer, rate, credentials } = node.access;
  const deadline = clock.now() + node.infoTimeout;
  node.info.askedAt = clock.now();
  const fields = await credentials.fields({ deadline });
  // Last, as for a call: what is granted has to arrive at once.
  if (!node.isPaused(clock.now())) await rate?.take({ deadline, priority });
  if (node.isPaused(clock.now())) return nodePaused(config.name, node.pausedUntil - clock.now());
  const began = clock.now();
  const answer = await ask(node, connection, { ...INFO, credentials: fields, admin: undefined, deadline });
  const failure = readInfo(node, connection, answer);
  if (failure !== undefined) node.infoFailed(connection, failure);
  observer.attemptEnded(config.name, "info", failure?.reason ?? "success", (clock.now() - began) / 1_000);
  return failure;
}

/** Longest party id of a ledger, in characters. */
const LONGEST_PARTY = 255;

/** Whether a party may become a key of all that is stored, and a word in logs, `/status` and the console. */
function mayBeLearned(party: string): boolean {
  return party.length <= LONGEST_PARTY && printable(party, LONGEST_PARTY) === party;
}

/** Reads an info. It proves the node and its connection, or gives why not. */
function readInfo(node: Node, connection: Connection, answer: Answer | Failure): Failure | undefined {
  const { name } = node.access.config;
  if (answer instanceof Failure) {
    const { pausedUntil, access } = node;
    if (answer.reason === "http_429") return nodePaused(name, pausedUntil - access.clock.now());
    // The registry's error to this question is no answer to the client's.
    return answer.row.code === "upstream_error"
      ? failed("no_info", name, { text: `${answer.text} when asked for its info` })
      : answer;
  }
  const named = isObject(answer.json) ? answer.json["adminId"] : undefined;
  if (answer.status !== 200 || typeof named !== "string" || named === "") {
    const text =
      answer.status === 200 ? "names no admin in its info" : `answered ${answer.status} when asked for its info`;
    return failed("no_info", name, { text });
  }
  if (node.access.admin.party === undefined && !mayBeLearned(named)) {
    return failed("no_info", name, { text: "names an admin in its info that is no party id" });
  }
  node.info.named = named;
  const other = `names another admin, ${printable(named, 120)}`;
  if (!node.access.admin.accepts(named)) return failed("wrong_admin", name, { text: other });
  node.connections.prove(connection);
  node.happened("named");
  return undefined;
}
