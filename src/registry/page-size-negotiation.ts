import { LRUCache } from "lru-cache";
import type { Duration } from "../clock.ts";
import type { FactsPort } from "../sharing/ports.ts";
import { digestOf } from "../digest.ts";

/** Of one registry: its admins, and the page sizes that are asked for by default. */
const MAX_SUBJECTS = 100;
const REMEMBERED: Duration = 24 * 3_600_000;

/** Page sizes to ask for, the first that the registry accepts; undefined leaves the size to it. */
export const PAGE_SIZES: readonly (number | undefined)[] = [100, 50, 25, undefined];

/** What registries refuse a page size or a token with. */
const REFUSALS: ReadonlySet<number> = new Set([400, 422]);

/** Whether a registry refuses a page size or a token. */
export function isRefusal({ status }: { readonly status: number }): boolean {
  return REFUSALS.has(status);
}

/**
 * Which of several ways to ask a registry for pages it accepts, the best first: found out once, and shared with other
 * replicas, so that all of them ask for the very same pages.
 */
export class PageSizeNegotiation {
  private readonly facts: FactsPort;
  private readonly name: string;
  /** Undefined as long as nothing is remembered: empty, three of them for each registry are more than it has otherwise. */
  private accepted: LRUCache<string, number> | undefined;

  /** @param name distinguishes one set of choices from another */
  constructor(facts: FactsPort, name: string) {
    this.facts = facts;
    this.name = name;
  }

  /**
   * Asks with the choice that was accepted last, at first the best; and with those after it as long as it is refused.
   *
   * @param subject what the outcome is remembered for
   * @param mayRefuseChoice asked after a refusal: false when it must be about something else
   * @returns the answer, a refusal of the last choice too
   */
  async negotiate<Choice, Answer extends { readonly status: number }>(
    subject: string,
    choices: readonly Choice[],
    ask: (choice: Choice) => Promise<Answer>,
    mayRefuseChoice: () => boolean = () => true,
  ): Promise<{ readonly choice: Choice; readonly answer: Answer }> {
    const last = choices.length - 1;
    for (let at = Math.min(await this.firstChoice(subject), last); ; at++) {
      const choice = choices[at]!;
      const answer = await ask(choice);
      if (isRefusal(answer) && at < last && mayRefuseChoice()) continue;
      if (answer.status === 200) this.accept(subject, at);
      return { choice, answer };
    }
  }

  /** Whether the registry has accepted the first choice, as far as this process knows. */
  isSettled(subject: string): boolean {
    return this.accepted?.has(subject) === true;
  }

  private async firstChoice(subject: string): Promise<number> {
    const known = this.accepted?.get(subject);
    if (known !== undefined) return known;
    const [recalled] = await this.facts.recall(this.factOf(subject));
    const choice = recalled === undefined ? Number.NaN : Number(recalled);
    if (!Number.isSafeInteger(choice) || choice < 0) return 0;
    this.note(subject, choice);
    return choice;
  }

  private accept(subject: string, choice: number): void {
    if (this.accepted?.get(subject) === choice) return;
    this.note(subject, choice);
    this.facts.remember(this.factOf(subject), String(choice), REMEMBERED);
  }

  private note(subject: string, choice: number): void {
    this.accepted ??= new LRUCache({ maxSize: MAX_SUBJECTS, sizeCalculation: () => 1 });
    this.accepted.set(subject, choice);
  }

  private factOf(subject: string): string {
    return `${this.name}:${digestOf(subject)}`;
  }
}
