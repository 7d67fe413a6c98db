import { describe, expect, test } from "vitest";
import { Facts } from "../../src/sharing/alone.ts";
import type { FactsPort } from "../../src/sharing/ports.ts";
import { PageSizeNegotiation } from "../../src/registry/page-size-negotiation.ts";
import { ManualClock } from "../support/manual-clock.ts";

const CHOICES = ["large", "small", "any"] as const;

/** A registry that accepts these choices, and what it was asked. */
function registry(...accepted: readonly string[]) {
  const asked: string[] = [];
  const ask = (choice: string) => {
    asked.push(choice);
    return Promise.resolve({ status: accepted.includes(choice) ? 200 : 400 });
  };
  return { asked, ask };
}

function negotiation(facts: FactsPort = new Facts(new ManualClock())): PageSizeNegotiation {
  return new PageSizeNegotiation(facts, "sizes");
}

describe("page sizes", () => {
  test("are tried from the best on until the registry accepts one, which is asked for first from then on", async () => {
    const sizes = negotiation();
    const { asked, ask } = registry("small", "any");
    expect(sizes.isSettled("a")).toBe(false);
    expect(await sizes.negotiate("a", CHOICES, ask)).toEqual({ choice: "small", answer: { status: 200 } });
    expect(sizes.isSettled("a")).toBe(true);
    await sizes.negotiate("a", CHOICES, ask);
    expect(asked).toEqual(["large", "small", "small"]);
  });

  test("are known to other replicas, each admin's and each set of choices apart", async () => {
    const facts = new Facts(new ManualClock());
    const { asked, ask } = registry("any");
    await negotiation(facts).negotiate("a", CHOICES, ask);
    await negotiation(facts).negotiate("a", CHOICES, ask);
    expect(asked).toEqual(["large", "small", "any", "any"]);
    const another = registry("large");
    await negotiation(facts).negotiate("b", CHOICES, another.ask);
    await new PageSizeNegotiation(facts, "overlaps").negotiate("a", CHOICES, another.ask);
    expect(another.asked).toEqual(["large", "large"]);
  });

  test.each(["nonsense", "-1", "1.5", "99"])("are tried though what is remembered is %s", async (remembered) => {
    const asked: string[] = [];
    const facts = { remember: () => undefined, recall: (fact: string) => (asked.push(fact), [remembered]) };
    const { choice } = await negotiation(facts).negotiate("a", CHOICES, registry(...CHOICES).ask);
    expect(CHOICES).toContain(choice);
    expect(asked[0]).toMatch(/^sizes:[A-Za-z0-9_-]{22}$/);
  });

  test("end with the refusal of the last one, which teaches nothing", async () => {
    const sizes = negotiation();
    const { asked, ask } = registry();
    expect(await sizes.negotiate("a", CHOICES, ask)).toEqual({ choice: "any", answer: { status: 400 } });
    expect(sizes.isSettled("a")).toBe(false);
    await sizes.negotiate("a", CHOICES, ask);
    expect(asked).toEqual([...CHOICES, ...CHOICES]);
  });

  test.each([404, 429, 500, 503])("are not what a registry refuses with %d", async (status) => {
    const sizes = negotiation();
    const answer = await sizes.negotiate("a", CHOICES, () => Promise.resolve({ status }));
    expect(answer).toEqual({ choice: "large", answer: { status } });
    expect(sizes.isSettled("a")).toBe(false);
  });

  test("stay as they are when the refusal must be about something else", async () => {
    const { asked, ask } = registry("any");
    const { answer } = await negotiation().negotiate("a", CHOICES, ask, () => false);
    expect([answer.status, asked]).toEqual([400, ["large"]]);
  });
});
