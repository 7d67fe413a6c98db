import type { Clock } from "../clock.ts";
import type { Coordinator } from "../coordination/coordinator.ts";
import { Catalogue } from "./catalogue.ts";
import { ContractAdmins } from "./contract-admins.ts";

/** What the aggregate keeps while the process lives, over reloads. */
export interface Aggregation {
  readonly catalogue: Catalogue;
  readonly contracts: ContractAdmins;
}

export interface AggregationOptions {
  readonly clock: Clock;
  readonly coordinator: Coordinator;
}

export function createAggregation(options: AggregationOptions): Aggregation {
  const { coordinator } = options;
  return {
    catalogue: new Catalogue(options),
    contracts: new ContractAdmins(coordinator),
  };
}
