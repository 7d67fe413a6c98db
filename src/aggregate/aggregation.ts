import { Catalogue, type CatalogueOptions } from "./catalogue.ts";
import { ContractAdmins } from "./contract-admins.ts";

/** What the aggregate keeps while the process lives, over reloads. */
export interface Aggregation {
  readonly catalogue: Catalogue;
  readonly contracts: ContractAdmins;
}

export function createAggregation(options: CatalogueOptions): Aggregation {
  const { coordinator } = options;
  return {
    catalogue: new Catalogue(options),
    contracts: new ContractAdmins(coordinator),
  };
}
