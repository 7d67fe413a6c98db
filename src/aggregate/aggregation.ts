import { Catalogue, type CatalogueOptions } from "./catalogue.ts";
import { CatalogueSearch } from "./catalogue-search.ts";
import { Changes, type ChangesOptions } from "./changes.ts";
import { ContractAdmins } from "./contracts.ts";
import type { FactsPort } from "../sharing/ports.ts";

/** What the aggregate keeps while the process lives, over reloads. */
export interface Aggregation {
  readonly catalogue: Catalogue;
  readonly search: CatalogueSearch;
  readonly changes: Changes;
  readonly contracts: ContractAdmins;
}

export function createAggregation(
  options: CatalogueOptions & ChangesOptions & { readonly facts: FactsPort },
): Aggregation {
  const catalogue = new Catalogue(options);
  return {
    catalogue,
    search: new CatalogueSearch(catalogue, options.clock),
    changes: new Changes(options),
    contracts: new ContractAdmins(options.facts),
  };
}
