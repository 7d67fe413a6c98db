import { LRUCache } from "lru-cache";
import type { Clock, Duration, Instant } from "../clock.ts";
import { Actions, type RequestedAction } from "./actions.ts";
import type { ActionsPort, Coordinator, EpochsPort, FactsPort, PurgeReach } from "./ports.ts";
import type { ReplicasPort, ReplicaState } from "./replicas.ts";
import { Epochs } from "./epochs.ts";
import { LocalLeases } from "./leases.ts";
import { LocalLimits } from "./limits.ts";
import { thisReplica } from "../version.ts";

const MAX_FACTS = 50_000;

/** The coordinator of a process that shares nothing: everything it promises holds within this process. */
export function localCoordinator(clock: Clock): Coordinator {
  const epochs = new LocalEpochs(clock);
  const actions = new LocalActions(clock);
  const leases = new LocalLeases(clock);
  return {
    epochs,
    chains: epochs,
    actions,
    // There is nobody else to show it.
    audit: { record: () => undefined, records: () => Promise.resolve(undefined) },
    leases,
    limits: new LocalLimits(clock),
    facts: new Facts(clock),
    // There are no others.
    announcements: { announce: () => undefined, onAnnounced: () => undefined },
    replicas: onlyThisReplica(),
    close: () => {
      actions.close();
      leases.close();
      return Promise.resolve();
    },
  };
}

class LocalEpochs extends Epochs implements EpochsPort {
  private readonly clock: Clock;

  constructor(clock: Clock) {
    super();
    this.clock = clock;
  }

  purge(partition: string | undefined, scopes: readonly string[]): Promise<PurgeReach> {
    this.raise(partition, scopes, this.clock.wallNow());
    return Promise.resolve("replica");
  }
}

class LocalActions extends Actions implements ActionsPort {
  act(requested: RequestedAction): Promise<PurgeReach> {
    this.begin(requested);
    return Promise.resolve("replica");
  }
}

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

function onlyThisReplica(): ReplicasPort {
  const { name, version, revision } = thisReplica;
  let stateOf: (() => ReplicaState) | undefined;
  return {
    alive: () => [{ ...thisReplica, state: stateOf?.() }],
    lost: () => [],
    countUnknown: () => Promise.resolve(0),
    introduce: (state) => {
      stateOf = state;
    },
    whoTook: () => Promise.resolve({ took: [{ name, version, revision }], missing: [], of: 1 }),
  };
}
