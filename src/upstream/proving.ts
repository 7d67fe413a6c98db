import { withDeadline } from "../clock.ts";
import { type GatewayError, isClientGone } from "../errors.ts";
import type { Turn } from "../limits/queue.ts";
import { Connection, holds } from "./connection.ts";
import { Failure, failed, reasonOf } from "./failure.ts";
import { askInfo } from "./info.ts";
import type { Node } from "./node.ts";

/** Most connections, and infos over one, for one call: a node may close behind its info, an address be another registry's. */
const MOST_ROUNDS = 3;

/**
 * Opens a connection that may carry a call: where its address is not proved, the info is asked over it first.
 *
 * @throws GatewayError of our own limit, where credentials cannot be had, and `client_gone`
 */
export async function connect(node: Node, turn: Turn): Promise<Connection | Failure> {
  const failures: FailuresByAddress = new Map();
  for (let round = 0; round < MOST_ROUNDS; round += 1) {
    const connection = await openOther(node, turn, failures);
    if (connection instanceof Failure) return connection;
    const failure = await prove(node, connection, turn).catch((error: unknown) => {
      discard(node, connection);
      throw error;
    });
    if (failure === undefined && connection.isOpen) return connection;
    discard(node, connection);
    if (failure !== undefined && !mayGoElsewhere(node, connection, failure)) return failure;
    if (failure !== undefined) failures.set(connection.address, failure);
  }
  return failed("closing", node.access.config.name);
}

/**
 * Asks a node's info over a new connection, even to an address that is proved.
 *
 * @returns why the node is not proved; undefined: it is
 * @throws GatewayError as {@link connect}
 */
export async function askOverNew(node: Node, priority: Turn["priority"]): Promise<Failure | undefined> {
  const { clock } = node.access;
  const failures: FailuresByAddress = new Map();
  for (let round = 1; ; round += 1) {
    node.info.askedAt = clock.now();
    const connection = await openOther(node, { deadline: clock.now() + node.infoTimeout, priority }, failures);
    if (connection instanceof Failure) {
      node.infoFailedEverywhere(connection);
      return connection;
    }
    const failure = await askInfoOnce(node, connection, priority).finally(() => node.connections.give(connection));
    if (failure === undefined || !mayGoElsewhere(node, connection, failure)) return failure;
    failures.set(connection.address, failure);
    if (round < MOST_ROUNDS) continue;
    node.infoFailedEverywhere(failure);
    return failure;
  }
}

/**
 * Waits for `work` until the deadline of `turn`, which is a failure; the work goes on for others.
 *
 * @throws GatewayError what `work` throws, and `client_gone`
 */
export async function inTime<T>({ access }: Node, work: Promise<T>, turn: Turn): Promise<T | Failure> {
  const late = failed("late", access.config.name);
  try {
    return await withDeadline(work, turn, () => late.last as GatewayError, access.clock);
  } catch (error) {
    if (error === late.last) return late;
    throw error;
  }
}

/** Proves a connection, by its info where need be. @returns undefined: it may carry a call, or was closed behind its info */
async function prove(node: Node, connection: Connection, turn: Turn): Promise<Failure | undefined> {
  const { clock, config } = node.access;
  const { proof } = connection;
  for (let round = 0; round < MOST_ROUNDS && connection.isOpen; round += 1) {
    const now = clock.now();
    if (holds(proof, now, config.proofEvery)) return undefined;
    if (proof.isAnothers && now < proof.shunnedUntil) return failed("wrong_admin", config.name);
    const failure = await inTime(node, askInfoOnce(node, connection, turn.priority), turn);
    if (failure !== undefined) return failure;
  }
  return connection.isOpen ? failed("closing", config.name) : undefined;
}

/** Asks the info, or joins the question that runs at the same address: one at a time. */
function askInfoOnce(node: Node, connection: Connection, priority: Turn["priority"]): Promise<Failure | undefined> {
  const { proof } = connection;
  if (proof.asking !== undefined) return proof.asking;
  connection.isAsked = true;
  proof.asking = askInfo(node, connection, priority).finally(() => {
    proof.asking = undefined;
    connection.isAsked = false;
  });
  return proof.asking;
}

/** Closes a connection that is of no use. An info that runs over it ends first: others wait for it, and would see it fail. */
function discard({ connections }: Node, connection: Connection): void {
  if (!connection.isAsked) return connection.close();
  connection.proof.asking!.then(
    () => connections.give(connection),
    () => connection.close(),
  );
}

/** Failures of infos, by the address at which they were asked. */
type FailuresByAddress = Map<string, Failure>;

/** Opens a connection to another address than these. Where it leads to one of them, no other can be reached: its failure. */
async function openOther(node: Node, turn: Turn, failures: FailuresByAddress): Promise<Connection | Failure> {
  const opened = await open(node, turn);
  const known = opened instanceof Connection ? failures.get(opened.address) : undefined;
  if (opened instanceof Connection && known !== undefined) opened.close();
  return known ?? opened;
}

/** Whether another address of the node's name may give the info that this one did not. */
function mayGoElsewhere({ connections }: Node, { address }: Connection, { reason }: Failure): boolean {
  return reason !== "http_429" && connections.hasOtherThan(address);
}

async function open(node: Node, turn: Turn): Promise<Connection | Failure> {
  const opening = node.connections.open();
  let isTaken = false;
  try {
    const opened = await inTime(node, opening, turn);
    isTaken = opened instanceof Connection;
    return opened;
  } catch (error) {
    if (isClientGone(error)) throw error;
    return failed(reasonOf(error, false), node.access.config.name, { cause: error });
  } finally {
    if (!isTaken) opening.then((unused) => unused.close(), ignore);
  }
}

function ignore(): void {
  // Whoever waited for it has heard.
}
