import type { Duration } from "../clock.ts";
import type { FactsPort } from "../sharing/ports.ts";
import { digestOf } from "../digest.ts";

/** How long a success is remembered: contracts live for minutes or months, and forgetting costs one refusal. */
const REMEMBERED: Duration = 24 * 3_600_000;

/** What is remembered of an id that succeeded at two registries. No party id is that. */
const AMBIGUOUS = "*";

/**
 * Which admin's registry a contract id was answered by. Shared with other replicas through the coordinator, bounded
 * there, and under hashed keys: no id can be read out of what is remembered.
 *
 * Clients teach it, with registries' answers as proof: a registry that says yes to every id can
 * claim ids it has never seen, until the right one answers for them too.
 */
export class ContractAdmins {
  private readonly facts: FactsPort;

  constructor(facts: FactsPort) {
    this.facts = facts;
  }

  /** Notes that the registry of `admin` answered for the contract. */
  async learn(contract: string, admin: string): Promise<void> {
    const known = await this.facts.recall(factOf(contract));
    const value = known.every((each) => each === admin) ? admin : AMBIGUOUS;
    this.facts.remember(factOf(contract), value, REMEMBERED);
  }

  /** The admins whose registries answered for the contract, as far as is known: none, one, or several. */
  async recall(contract: string): Promise<{ readonly admin: string } | "several" | undefined> {
    const [known, another] = await this.facts.recall(factOf(contract));
    if (known === AMBIGUOUS || another !== undefined) return "several";
    return known === undefined ? undefined : { admin: known };
  }
}

function factOf(contract: string): string {
  return `contract:${digestOf(contract, 43)}`;
}
