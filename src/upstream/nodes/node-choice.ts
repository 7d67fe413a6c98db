import { LRUCache } from "lru-cache";
import type { Instant } from "../../clock.ts";
import type { UpstreamNode } from "./node.ts";

/** Paginations that are remembered; a forgotten one may go on at another node. */
const MAX_PAGINATIONS = 4_096;

/**
 * Chooses the node for each attempt: the least loaded by latency and calls in flight, a random one among equals. Where
 * nodes differ in weight, each gets its share instead.
 */
export class NodeChoice {
  private readonly nodes: readonly UpstreamNode[];
  private readonly random: () => number;
  /** Where each pagination began; undefined where there is one node. */
  private readonly paginations: LRUCache<string, number> | undefined;

  /** What each node is owed while weights differ, in the order of the nodes. */
  private readonly credits: number[];
  private areWeighted = false;

  constructor(nodes: readonly UpstreamNode[], random: () => number) {
    this.nodes = nodes;
    this.random = random;
    // A size of one each: with `max` each of hundreds of upstreams takes the memory of all at once.
    if (nodes.length > 1) this.paginations = new LRUCache({ maxSize: MAX_PAGINATIONS, sizeCalculation: () => 1 });
    this.credits = nodes.map(() => 0);
    this.reweigh();
  }

  /** Weights or cordons may have changed. */
  reweigh(): void {
    const weights = this.nodes.filter(({ isCordoned }) => !isCordoned).map(({ weight }) => weight);
    this.areWeighted = weights.some((weight) => weight !== weights[0]);
    this.credits.fill(0);
  }

  /**
   * A node that takes requests and is not among those `tried`; undefined when there is none. A pagination stays on the node
   * that began it; a node that asked for a pause is left alone as long as there are others. An ejected node is better
   * than none.
   */
  choose(now: Instant, tried: readonly UpstreamNode[], pagination?: string): UpstreamNode | undefined {
    if (this.nodes.length === 1) return this.isOpen(this.nodes[0]!, tried) ? this.nodes[0] : undefined;
    if (!this.nodes.some(({ isOpen }) => isOpen)) return this.nodes.find(isBetterThanNone);
    const stayed = pagination === undefined ? undefined : this.nodes[this.paginations?.get(pagination) ?? -1];
    if (stayed !== undefined && this.isOpen(stayed, tried) && !stayed.isFailing) return stayed;
    const distrusted = this.nodes.filter(({ connections }) => connections.isDistrusted);
    const chosen = this.next([...tried, ...distrusted], now) ?? this.next(tried, now) ?? this.next(tried, Infinity);
    if (chosen !== undefined && pagination !== undefined) this.paginations?.set(pagination, chosen.index);
    return chosen;
  }

  /** Whether {@link choose} would find a node that is not among those `tried` and not in a pause. */
  hasOther(now: Instant, tried: readonly UpstreamNode[]): boolean {
    return this.nodes.some((node) => this.isOpen(node, tried) && node.pausedUntil <= now);
  }

  /** The same for an attempt beside one that runs: no reason to use a node of weight 0. */
  hasOtherBeside(now: Instant, tried: readonly UpstreamNode[]): boolean {
    if (!this.areWeighted) return this.hasOther(now, tried);
    return this.nodes.some((node) => this.isOpen(node, tried) && node.pausedUntil <= now && node.weight > 0);
  }

  private isOpen(node: UpstreamNode, tried: readonly UpstreamNode[]): boolean {
    return node.isOpen && !tried.includes(node);
  }

  private next(tried: readonly UpstreamNode[], pausedBefore: Instant): UpstreamNode | undefined {
    if (!this.areWeighted) return this.cheapest(tried, pausedBefore);
    return this.mostOwed(tried, pausedBefore) ?? this.cheapest(tried, pausedBefore);
  }

  /**
   * By smooth weighted round robin, as nginx does it: each choice owes every node that could be chosen its weight, and the
   * one that is owed most pays for all. Undefined where only nodes of weight 0 are left.
   */
  private mostOwed(tried: readonly UpstreamNode[], pausedBefore: Instant): UpstreamNode | undefined {
    const { nodes, credits } = this;
    let best: UpstreamNode | undefined;
    let total = 0;
    for (const node of nodes) {
      if (node.weight === 0 || !this.isOpen(node, tried) || node.pausedUntil > pausedBefore) continue;
      credits[node.index]! += node.weight;
      total += node.weight;
      if (best === undefined || credits[node.index]! > credits[best.index]!) best = node;
    }
    if (best !== undefined) credits[best.index]! -= total;
    return best;
  }

  private cheapest(tried: readonly UpstreamNode[], pausedBefore: Instant): UpstreamNode | undefined {
    const { nodes } = this;
    const start = Math.floor(this.random() * nodes.length);
    const fallback = this.hopedLatency();
    let best: UpstreamNode | undefined;
    let least = Infinity;
    for (let i = 0; i < nodes.length; i++) {
      const node = nodes[(start + i) % nodes.length]!;
      if (!this.isOpen(node, tried) || node.pausedUntil > pausedBefore) continue;
      const cost = node.load.cost(fallback);
      if (cost < least) {
        best = node;
        least = cost;
      }
    }
    return best;
  }

  /** Stands for the latency of nodes that have not answered yet: low enough for them to be tried. */
  private hopedLatency(): number {
    let least = Infinity;
    for (const { load } of this.nodes) least = Math.min(least, load.latency ?? Infinity);
    return least === Infinity ? 1 : least / 2;
  }
}

/** An ejected node is better than none, but for one that an operator has cordoned. */
function isBetterThanNone({ state, isCordoned }: UpstreamNode): boolean {
  return state === "ejected" && !isCordoned;
}
