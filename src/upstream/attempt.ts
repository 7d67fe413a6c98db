import type { Duration, Instant } from "../clock.ts";
import { clientGone } from "../errors.ts";
import type { Fields } from "../fields.ts";
import type { Turn } from "../limits/queue.ts";
import type { RateLimit } from "../limits/rate.ts";
import type { Access } from "./access.ts";
import { ask, type Asked } from "./ask.ts";
import { Connection, holdsYet } from "./connection.ts";
import { Leash } from "./exchange.ts";
import { Failure, nodePaused } from "./failure.ts";
import type { Node } from "./node.ts";
import { connect, inTime } from "./proving.ts";
import type { Answer, Call } from "./types.ts";

/** Counts and times of a call so far. */
interface Tally {
  attempts: number;
  lastNode: Node | undefined;
  /** As `CallReport` tells it. */
  waited: Duration;
  waitedForLimit: Duration;
  waitedForPauses: Duration;
  /** Nodes that said 404 where another one may know better. */
  notFound: number;
}

/** One call while it runs: its deadline, who was asked, and what came of it so far. */
export class Run implements Turn {
  readonly access: Access;
  readonly nodes: readonly Node[];
  readonly call: Call;
  readonly began: Instant;
  readonly deadline: Instant;
  readonly signal: AbortSignal | undefined;
  readonly priority: Turn["priority"];
  readonly tried = new Set<Node>();
  readonly tally: Tally = {
    attempts: 0,
    lastNode: undefined,
    waited: 0,
    waitedForLimit: 0,
    waitedForPauses: 0,
    notFound: 0,
  };
  private readonly leashes = new Set<Leash>();

  constructor(access: Access, nodes: readonly Node[], call: Call) {
    this.access = access;
    this.nodes = nodes;
    this.call = call;
    this.began = access.clock.now();
    this.deadline = Math.min(call.deadline, this.began + access.config.timeout);
    this.signal = call.signal;
    this.priority = call.priority;
  }

  /** A leash for one attempt, until {@link release}. */
  leash(): Leash {
    const leash = new Leash();
    leash.isCut = this.signal?.aborted === true;
    this.leashes.add(leash);
    return leash;
  }

  release(leash: Leash): void {
    this.leashes.delete(leash);
  }

  /** Ends all attempts: nobody wants the answer any more. */
  readonly cutAll = (): void => {
    for (const leash of this.leashes) leash.cut();
  };

  /** Nodes that may be asked now and were not: those that are up; where none is, those that have not told yet. */
  candidates(): Node[] {
    const now = this.access.clock.now();
    const free = this.nodes.filter((node) => node.mayBeAsked && !node.isPaused(now) && !this.tried.has(node));
    const up = free.filter(({ state }) => state === "up");
    return up.length > 0 ? up : free;
  }

  /** Waits for `work`, and counts the time as waited. */
  async wait<T>(work: Promise<T>): Promise<T> {
    const { clock } = this.access;
    const began = clock.now();
    try {
      return await work;
    } finally {
      this.tally.waited += clock.now() - began;
    }
  }
}

/**
 * Asks one node: proof, credentials, connection, limit, answer. The limit comes last, because what is granted is to
 * arrive at once: a handshake in between would move calls from one window into the next.
 *
 * @throws GatewayError of our own limits, where credentials cannot be had, and `client_gone` when the leash is cut
 */
export async function attempt(run: Run, node: Node, leash: Leash): Promise<Answer | Failure> {
  node.inFlight += 1;
  run.tried.add(node);
  try {
    if (node.state !== "up") {
      const failure = await run.wait(inTime(node, node.ask(run.priority), run));
      if (failure !== undefined) return failure;
    }
    // Infos that came meanwhile may have named another upstream's admin, or different ones.
    const disabled = run.access.whyDisabled();
    if (disabled !== undefined) throw disabled;
    const fields = run.access.credentials.fields(run);
    const credentials = fields instanceof Promise ? await run.wait(fields) : fields;
    return await askNode(run, node, { credentials, leash });
  } finally {
    node.inFlight -= 1;
    run.release(leash);
  }
}

/** Parts of an attempt besides its call. */
interface Own {
  readonly credentials: Fields;
  readonly leash: Leash;
}

/** Asks over a connection whose proof holds, with a grant of the limit that is fresh; anew as long as nothing has left. */
async function askNode(run: Run, node: Node, own: Own): Promise<Answer | Failure> {
  const { access, call, tally } = run;
  const { clock, config, observer, rate } = access;
  let began = clock.now();
  let grantEnds: Instant = -Infinity;
  let isCounted = false;
  let outcome: Answer | Failure | undefined;
  while (outcome === undefined) {
    const idle = node.connections.take(config.proofEvery);
    const connection = idle ?? (await run.wait(connect(node, turnOf(run, began))));
    if (rate !== undefined && connection instanceof Connection && clock.now() >= grantEnds) {
      grantEnds = await takeLimit(run, rate, own.leash).catch(giveBack(node, connection));
      began = clock.now();
      if (!holdsYet(connection, began, config.proofEvery)) {
        connection.close();
        continue;
      }
    }
    const pause = node.pausedUntil - clock.now();
    if (pause > 0 && connection instanceof Connection) {
      node.connections.give(connection);
      return nodePaused(config.name, pause);
    }
    if (!isCounted) tally.attempts += 1;
    isCounted = true;
    tally.lastNode = node;
    const asked = { ...call, ...own, deadline: turnOf(run, began).deadline, admin: access.admin.party };
    outcome = connection instanceof Failure ? connection : await askOver(node, connection, asked);
    if (idle !== undefined && outcome instanceof Failure && outcome.reason === "unsent") outcome = undefined;
  }
  if (outcome instanceof Failure && outcome.row.doubts) node.doubt();
  if (outcome instanceof Failure && outcome.reason === "not_found") tally.notFound += 1;
  observer.attemptEnded(config.name, call.operation, labelOf(outcome), (clock.now() - began) / 1_000);
  return outcome;
}

function giveBack({ connections }: Node, connection: Connection): (error: unknown) => never {
  return (error) => {
    connections.give(connection);
    throw error;
  };
}

/** Takes one call from the rate limit. @returns when the grant ends */
async function takeLimit(run: Run, rate: RateLimit, leash: Leash): Promise<Instant> {
  const { clock } = run.access;
  const began = clock.now();
  leash.isLimited = true;
  const grantEnds = await run.wait(rate.take(run));
  leash.isLimited = false;
  run.tally.waitedForLimit += clock.now() - began;
  return grantEnds;
}

async function askOver(node: Node, connection: Connection, asked: Asked & Own): Promise<Answer | Failure> {
  if (asked.leash.isCut) {
    node.connections.give(connection);
    throw clientGone();
  }
  node.connections.carry(connection);
  const outcome = await ask(node, connection, asked);
  if (outcome instanceof Failure && outcome.reason === "wrong_admin") node.infoFailed(connection, outcome);
  node.connections.give(connection);
  return outcome;
}

/** The deadline of an attempt that began then: the call's own where there is nobody else to ask. */
function turnOf(run: Run, began: Instant): Turn {
  const { call, nodes, deadline, access } = run;
  const isSole = nodes.length === 1 || call.operation === "pass_through" || run.candidates().length === 0;
  const { signal, priority } = call;
  return { deadline: isSole ? deadline : Math.min(deadline, began + access.config.attemptTimeout), signal, priority };
}

function labelOf(outcome: Answer | Failure): string {
  if (outcome instanceof Failure) return outcome.reason;
  return outcome.status < 400 ? "success" : "error";
}
