import { clientGone, GatewayError, isClientGone, toGatewayError } from "../errors.ts";
import type { Leave } from "../limits/concurrency.ts";
import { OPERATION_RECORDS } from "../spec/operations.ts";
import type { Access } from "./access.ts";
import { agree } from "./agreement.ts";
import { attempt, Run } from "./attempt.ts";
import type { Leash } from "./exchange.ts";
import { Failure } from "./failure.ts";
import { whenFree } from "./free-nodes.ts";
import type { Node } from "./node.ts";
import { chooseNode } from "./node-state.ts";
import type { Answer, Call } from "./types.ts";

/**
 * One call to a registry: a place, a node that is up, attempts until one brings an answer, or the end.
 *
 * @throws GatewayError alone
 */
export async function makeCall(access: Access, nodes: readonly Node[], call: Call): Promise<Answer> {
  const run = new Run(access, nodes, call);
  const { places, budget, observer, config } = access;
  let leave: Leave | undefined;
  call.signal?.addEventListener("abort", run.cutAll, { once: true });
  try {
    if (call.signal?.aborted === true) throw clientGone();
    const entered = places.enter(run);
    leave = entered instanceof Promise ? await run.wait(entered) : entered;
    budget.called();
    return await (isAgreed(run) ? agree(run) : askInTurn(run));
  } catch (error) {
    const known = toGatewayError(error);
    if (run.tally.attempts === 0 && !isClientGone(known)) observer.callRefused(config.name, known.code);
    throw known;
  } finally {
    leave?.();
    call.signal?.removeEventListener("abort", run.cutAll);
    const { attempts, lastNode, waited } = run.tally;
    call.onEnd?.({ attempts, node: lastNode && nodes.indexOf(lastNode), waited });
  }
}

/** Factories and contexts are asked of several nodes at once, where the configuration says so. */
function isAgreed({ access, call }: Run): boolean {
  if (access.config.agreement < 2 || call.operation === "pass_through") return false;
  return OPERATION_RECORDS[call.operation].kind !== "metadata";
}

/** One node after the other, another each time, until one has an answer. */
async function askInTurn(run: Run): Promise<Answer> {
  const { observer, config } = run.access;
  let node: Node | undefined = await firstNode(run);
  let last: Failure | undefined;
  for (let attempts = 1; node !== undefined; attempts += 1) {
    const outcome: Answer | Failure | GatewayError = await race(run, node).catch(ownRefusal);
    if (!(outcome instanceof Failure)) {
      if (!(outcome instanceof GatewayError)) return outcome;
      // A limit of ours lets no other attempt through: what the first one brought stands.
      if (last === undefined) throw outcome;
      break;
    }
    if (last === undefined && isLeftAlone(run, node, outcome)) {
      run.tried.delete(node);
      node = await firstNode(run);
      continue;
    }
    // Another node was asked about a 404, too: its answer would have gone, its failure does not.
    const isAskedElsewhere = last?.reason === "not_found";
    if (!isAskedElsewhere) last = outcome;
    const isOver = isAskedElsewhere || run.tally.notFound > 1 || attempts > config.retries;
    node = isOver ? undefined : nextNode(run, node, outcome);
    if (node !== undefined) observer.retried(config.name, "retry");
  }
  return give(run, last!);
}

/** It answered 429 before this call was sent: that is no answer to this one, which goes elsewhere or waits for the pause. */
function isLeftAlone({ access }: Run, node: Node, { last }: Failure): boolean {
  const isRefusal = last instanceof GatewayError && last.code === "upstream_paused";
  return isRefusal && node.isPaused(access.clock.now());
}

function ownRefusal(error: unknown): GatewayError {
  if (error instanceof GatewayError && !isClientGone(error)) return error;
  throw error;
}

/** The node that is asked once more, paid from the budget; undefined: none. */
function nextNode(run: Run, node: Node, { row }: Failure): Node | undefined {
  const { access, call, deadline } = run;
  if (call.operation === "pass_through" || access.clock.now() >= deadline) return undefined;
  const others = row.elsewhere ? run.candidates() : [];
  const isAgain = row.again === "yes" || (row.again === "address" && node.connections.hasSeveral);
  const mayBeAgain = isAgain && node.state === "up" && !node.isPaused(access.clock.now());
  if (others.length === 0 && !mayBeAgain) return undefined;
  if (!access.budget.tryPay("retry")) return undefined;
  return others.length === 0 ? node : chooseNode(others, Math.random);
}

/** The last word: the registry's own error, or one of ours. */
function give({ access, tally, began, deadline }: Run, { reason, last }: Failure): Answer {
  // The node had less than half of the call's time: it is the limit that made it late.
  if (reason === "late" && tally.waitedForLimit > (deadline - began) / 2) throw limitTookTheTime(access);
  if (last instanceof GatewayError) throw last;
  return last;
}

function limitTookTheTime({ config }: Access): GatewayError {
  const text = `the call waited for the limit of calls to the registry "${config.name}" until its time was over; try again in 1 s`;
  return new GatewayError("rate_limited", text, { retryAfter: 1 });
}

/** The node to ask first. @throws GatewayError where there is none */
async function firstNode(run: Run): Promise<Node> {
  await whenFree(run, 1);
  const free = run.candidates();
  const wanted = free.find(({ url }) => url === run.call.condition?.node);
  const chosen = wanted ?? chooseNode(free, Math.random);
  for (const node of free) if (node !== chosen) node.askIfSilent();
  return chosen;
}

/** One attempt, and a second one beside it at another node where the first is late. The first answer wins, and ends the other. */
function race(run: Run, first: Node): Promise<Answer | Failure> {
  const { access, nodes, call } = run;
  const { hedgeAfter } = access.config;
  const leash = run.leash();
  if (hedgeAfter === 0 || nodes.length === 1 || call.operation === "pass_through") return attempt(run, first, leash);
  return new Promise((resolve, reject) => {
    const racers = new Set<Leash>();
    let last: Failure | undefined;
    const enter = (node: Node, leash: Leash, leave?: Leave): void => {
      racers.add(leash);
      const end = (outcome: Answer | Failure | undefined, error?: GatewayError): void => {
        racers.delete(leash);
        leave?.();
        const isFailed = outcome === undefined || outcome instanceof Failure;
        if (outcome instanceof Failure && last?.reason !== "not_found") last = outcome;
        if (isFailed && racers.size > 0) return;
        cancelTimer();
        for (const other of racers) other.cut();
        if (!isFailed) resolve(outcome);
        else if (last !== undefined) resolve(last);
        else reject(error);
      };
      attempt(run, node, leash).then(end, (error: GatewayError) => end(undefined, error));
    };
    const cancelTimer = access.clock.after(hedgeAfter, () => {
      const hedge = leash.isLimited ? undefined : payHedge(run);
      if (hedge !== undefined) enter(hedge.node, run.leash(), hedge.leave);
    });
    enter(first, leash);
  });
}

/** A second node for a call that is late, and its place; all or nothing. */
function payHedge(run: Run): { readonly node: Node; readonly leave: Leave } | undefined {
  const { places, budget, observer, config } = run.access;
  const others = run.candidates().filter(({ state }) => state === "up");
  const leave = others.length === 0 ? undefined : places.tryEnter();
  if (leave === undefined) return undefined;
  if (!budget.tryPay("hedge")) {
    leave();
    return undefined;
  }
  observer.retried(config.name, "hedge");
  return { node: chooseNode(others, Math.random), leave };
}
