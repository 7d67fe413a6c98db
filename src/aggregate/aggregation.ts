import { Catalogue, type CatalogueOptions } from "./catalogue.ts";
import { Changes, type ChangesOptions } from "./changes.ts";
import { ContractAdmins } from "./contract-admins.ts";
import type { FactsPort } from "../sharing/ports.ts";

/** What the aggregate keeps while the process lives, over reloads. */
export interface Aggregation {
  readonly catalogue: Catalogue;
  readonly changes: Changes;
  readonly contracts: ContractAdmins;
}

export function createAggregation(
  options: CatalogueOptions & ChangesOptions & { readonly facts: FactsPort },
): Aggregation {
  return {
    catalogue: new Catalogue(options),
    changes: new Changes(options),
    contracts: new ContractAdmins(options.facts),
  };
}
