import { LRUCache } from "lru-cache";
import type { Clock, Duration, Instant } from "../clock.ts";
import type { FactsPort } from "./ports.ts";

const MAX_FACTS = 50_000;

interface Fact {
  readonly value: string;
  readonly until: Instant;
}

/** Small facts of one process, each for its time; the least recently used go first when they are too many. */
export class Facts implements FactsPort {
  private readonly clock: Clock;
  // A size of one each, not `max`, which takes the memory of all at the start: milliseconds and a megabyte.
  private readonly facts = new LRUCache<string, Fact>({ maxSize: MAX_FACTS, sizeCalculation: () => 1 });

  constructor(clock: Clock) {
    this.clock = clock;
  }

  remember(key: string, value: string, ttl: Duration): void {
    if (ttl > 0) this.facts.set(key, { value, until: this.clock.now() + ttl });
    else this.facts.delete(key);
  }

  recall(key: string): readonly string[] {
    const fact = this.facts.get(key);
    if (fact === undefined) return [];
    if (fact.until > this.clock.now()) return [fact.value];
    this.facts.delete(key);
    return [];
  }
}
