import { LRUCache } from "lru-cache";
import type { Instant } from "../../clock.ts";
import type { UpstreamNode } from "../node/node.ts";

/** Paginations that are remembered; a forgotten one may go on at another node. */
const MAX_PAGINATIONS = 4_096;

/** Chooses the node for each attempt: the least loaded by latency and calls in flight, a random one among equals. */
export class NodeChoice {
  private readonly nodes: readonly UpstreamNode[];
  private readonly random: () => number;
  private readonly paginations = new LRUCache<string, number>({ max: MAX_PAGINATIONS });

  constructor(nodes: readonly UpstreamNode[], random: () => number) {
    this.nodes = nodes;
    this.random = random;
  }

  /**
   * A node that takes requests and is not among those `tried`; undefined when there is none. A pagination stays on the node
   * that began it; a node that asked for a pause is left alone as long as there are others. An ejected node is better
   * than none.
   */
  choose(now: Instant, tried: readonly UpstreamNode[], pagination?: string): UpstreamNode | undefined {
    if (this.nodes.length === 1) return this.isOpen(this.nodes[0]!, tried) ? this.nodes[0] : undefined;
    if (!this.nodes.some(({ state }) => state === "up")) return this.nodes.find(({ state }) => state === "ejected");
    const stayed = pagination === undefined ? undefined : this.nodes[this.paginations.get(pagination) ?? -1];
    if (stayed !== undefined && this.isOpen(stayed, tried) && !stayed.isFailing) return stayed;
    const chosen = this.cheapest(tried, now) ?? this.cheapest(tried, Infinity);
    if (chosen !== undefined && pagination !== undefined) this.paginations.set(pagination, chosen.index);
    return chosen;
  }

  /** Whether {@link choose} would find a node that is not among those `tried` and not in a pause. */
  hasOther(now: Instant, tried: readonly UpstreamNode[]): boolean {
    return this.nodes.some((node) => this.isOpen(node, tried) && node.pausedUntil <= now);
  }

  private isOpen(node: UpstreamNode, tried: readonly UpstreamNode[]): boolean {
    return node.state === "up" && !tried.includes(node);
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
      const cost = node.cost(fallback);
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
    for (const { latency } of this.nodes) if (latency !== undefined && latency < least) least = latency;
    return least === Infinity ? 1 : least / 2;
  }
}
