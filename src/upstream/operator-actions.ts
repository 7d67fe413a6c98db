import type { Clock, Instant } from "../clock.ts";
import { type Action, type HeldAction, targetOf } from "../sharing/actions.ts";
import type { ActionsPort } from "../sharing/ports.ts";
import { type ErrorCode, GatewayError } from "../errors.ts";

/** When to come back, in seconds, where the operator did not say how long it lasts. */
const COME_BACK = 30;

/** What operators did to one upstream and its nodes, see {@link Actions}. */
export class OperatorActions {
  /** Nothing may be asked of the registry. */
  isCacheOnly = false;
  private readonly upstream: string;
  private readonly actions: Pick<ActionsPort, "find" | "held">;
  private readonly clock: Clock;
  private cacheOnly: HeldAction | undefined;

  constructor(upstream: string, actions: Pick<ActionsPort, "find" | "held">, clock: Clock) {
    this.upstream = upstream;
    this.actions = actions;
    this.clock = clock;
    this.followActions();
  }

  /** They may have changed. */
  followActions(): void {
    this.cacheOnly = this.actions.find(this.upstream);
    this.isCacheOnly = this.cacheOnly !== undefined;
  }

  /** What is in force for the node at this URL. */
  ofNode(url: string): Action | undefined {
    return this.actions.find(this.upstream, url)?.action;
  }

  /** Since when the node at this URL is to be used, where an operator said so. */
  activeSince(url: string): Instant | undefined {
    const held = this.actions.held(targetOf({ upstream: this.upstream, node: url }));
    return held === undefined || held.action.state === "cordoned" ? undefined : held.since;
  }

  /** What a call gets while nothing may be asked of the registry. */
  refusal(): GatewayError {
    return this.explain("cache_only", "is in cache-only mode, and this is not in the cache", this.cacheOnly);
  }

  /** What a call gets when the node at this URL could answer, but for the operator who cordoned it. */
  whyCordoned(url: string): GatewayError {
    return this.explain("node_cordoned", "has no node that takes calls", this.actions.find(this.upstream, url));
  }

  private explain(code: ErrorCode, what: string, held: HeldAction | undefined): GatewayError {
    const reason = held?.action.reason;
    const left =
      held?.until === undefined ? undefined : Math.max(1, Math.ceil((held.until - this.clock.now()) / 1_000));
    const when = left === undefined ? "later" : `in ${left} s`;
    const why = reason === undefined ? "by its operator" : `by its operator: ${reason}`;
    const text = `upstream "${this.upstream}" ${what}, ${why}; try again ${when}`;
    return new GatewayError(code, text, { retryAfter: left ?? COME_BACK });
  }
}
