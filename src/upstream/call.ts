import type { CancelTimer } from "../clock.ts";
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
 * Makes a call to a registry: takes a place, and has nodes asked until one answers, or as many agree as have to.
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

/** Whether several nodes have to say the same: of factories and contexts, where the configuration says so. */
function isAgreed({ access, call }: Run): boolean {
  if (access.config.agreement < 2 || call.operation === "pass_through") return false;
  return OPERATION_RECORDS[call.operation].kind !== "metadata";
}

/** Asks one node after the other until one has an answer: another one each time, where there is one. */
async function askInTurn(run: Run): Promise<Answer> {
  const { observer, config } = run.access;
  let node: Node | undefined = await firstNode(run);
  let last: Failure | undefined;
  let attempts = 0;
  while (node !== undefined) {
    const outcome: Answer | Failure | GatewayError = await race(run, node).catch(ownRefusal);
    if (!(outcome instanceof Failure)) {
      if (!(outcome instanceof GatewayError)) return outcome;
      // A limit of ours refuses another attempt: what the last one brought stands.
      if (last === undefined) throw outcome;
      break;
    }
    if (wasPaused(run, node, outcome)) {
      // As with a limit of ours: what the last attempt brought stands.
      if (last !== undefined) break;
      run.tried.delete(node);
      node = await firstNode(run);
      continue;
    }
    attempts += 1;
    // This node was asked because another one said 404: its answer would have gone to the client, its failure does not.
    const isAskedElsewhere = last?.reason === "not_found";
    if (!isAskedElsewhere) last = outcome;
    const isOver = isAskedElsewhere || run.tally.notFound > 1 || attempts > config.retries;
    node = isOver ? undefined : nextNode(run, node, outcome);
    if (node !== undefined) observer.retried(config.name, "retry");
  }
  return give(run, last!);
}

/** Whether another call's 429 paused the node before this call was sent: it goes elsewhere, or waits for the pause to end. */
function wasPaused({ access }: Run, node: Node, { last }: Failure): boolean {
  const isRefusal = last instanceof GatewayError && last.code === "upstream_paused";
  return isRefusal && node.isPaused(access.clock.now());
}

/** Makes an outcome of an error of ours; that the client is gone stays an error. */
function ownRefusal(error: unknown): GatewayError {
  if (error instanceof GatewayError && !isClientGone(error)) return error;
  throw error;
}

/** Chooses the node of the next attempt, and pays for it from the budget; undefined: there is no other attempt. */
function nextNode(run: Run, node: Node, { row }: Failure): Node | undefined {
  const { access, call, deadline } = run;
  if (call.operation === "pass_through" || access.clock.now() >= deadline) return undefined;
  const others = row.elsewhere ? run.candidates() : [];
  const isWorthIt = row.again === "yes" || (row.again === "address" && node.connections.hasSeveral);
  const mayBeAgain = isWorthIt && node.state === "up" && !node.isPaused(access.clock.now());
  if (others.length === 0 && !mayBeAgain) return undefined;
  if (!access.budget.tryPay("retry")) return undefined;
  return others.length === 0 ? node : chooseNode(others, Math.random);
}

/** Gives the registry's own error as the answer, or throws one of ours. */
function give({ access, tally, began, deadline }: Run, { reason, last }: Failure): Answer {
  // The limit took more than half of the call's time: it is what made the node late.
  if (reason === "late" && tally.waitedForLimit > (deadline - began) / 2) throw limitTookTheTime(access);
  if (last instanceof GatewayError) throw last;
  return last;
}

function limitTookTheTime({ config }: Access): GatewayError {
  const text = `the call waited for the limit of calls to the registry "${config.name}" until its time was over; try again in 1 s`;
  return new GatewayError("rate_limited", text, { retryAfter: 1 });
}

/** Chooses the node to ask first: the one of the call's condition, where it is free. @throws GatewayError: none is free */
async function firstNode(run: Run): Promise<Node> {
  await whenFree(run, 1);
  const free = run.candidates();
  const conditional = free.find(({ url }) => url === run.call.condition?.node);
  const chosen = conditional ?? chooseNode(free, Math.random);
  for (const node of free) if (node !== chosen) node.askIfSilent();
  return chosen;
}

/** Makes an attempt, and a second one at another node where it is late. The first answer wins, and ends the other. */
function race(run: Run, first: Node): Promise<Answer | Failure> {
  const { access, nodes, call } = run;
  const { hedgeAfter } = access.config;
  const firstLeash = run.leash();
  if (hedgeAfter === 0 || nodes.length === 1 || call.operation === "pass_through")
    return attempt(run, first, firstLeash);
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
    const hedgeLater = (): CancelTimer =>
      access.clock.after(hedgeAfter, () => {
        if (firstLeash.isLimited) {
          cancelTimer = hedgeLater();
          return;
        }
        const hedge = payHedge(run);
        if (hedge !== undefined) enter(hedge.node, run.leash(), hedge.leave);
      });
    let cancelTimer = hedgeLater();
    enter(first, firstLeash);
  });
}

/** Pays for a hedge: a second node, and a place; undefined: one of these is not to be had, or the budget has no more. */
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
