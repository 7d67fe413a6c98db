import type { Clock } from "../clock.ts";
import type { Coordinator } from "../coordination/coordinator.ts";
import { ListingKnowledge } from "../registry/listing.ts";
import type { RegistryMetadata } from "../registry/registry-metadata.ts";
import { Walker } from "../registry/walker.ts";
import { Catalogue } from "./catalogue.ts";
import { ContractAdmins } from "./contract-admins.ts";

/** What the aggregate keeps while the process lives, over reloads. */
export interface Aggregation {
  readonly knowledge: ListingKnowledge;
  readonly catalogue: Catalogue;
  readonly contracts: ContractAdmins;
  readonly walker: Walker;
}

export interface AggregationOptions {
  readonly clock: Clock;
  readonly random: () => number;
  readonly coordinator: Coordinator;
  /** The registries as they are configured now. */
  readonly registries: () => readonly RegistryMetadata[];
  /** Whether the plain base URL stands for all of them now. */
  readonly isListing: () => boolean;
}

export function createAggregation({ registries, isListing, ...shared }: AggregationOptions): Aggregation {
  const knowledge = new ListingKnowledge(shared.coordinator);
  const catalogue = new Catalogue(shared);
  const walked = catalogue.take.bind(catalogue);
  return {
    knowledge,
    catalogue,
    contracts: new ContractAdmins(shared.coordinator),
    walker: new Walker({ ...shared, knowledge, registries, isListing, walked }),
  };
}
