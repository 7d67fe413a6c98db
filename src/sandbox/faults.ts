import { type Answer, BUSY, htmlAnswer, refusal } from "./answer.ts";
import type { Random } from "./random.ts";

/** One thing that a fault does with a request. */
export type Fault =
  | { readonly kind: "answer"; readonly answer: Answer }
  /** The right answer, late. */
  | { readonly kind: "slow" }
  /** No answer, and the connection stays open. */
  | { readonly kind: "hang" }
  /** The connection is reset. */
  | { readonly kind: "reset" };

/** The faults by the names that users give them. */
export const FAULTS = {
  "error-500": { kind: "answer", answer: refusal(500, "Internal server error") },
  "error-503": { kind: "answer", answer: refusal(503, "The server is taking too long to respond to the request") },
  "busy-429": { kind: "answer", answer: BUSY },
  "html-404": { kind: "answer", answer: htmlAnswer(404, "Not Found") },
  "html-502": { kind: "answer", answer: htmlAnswer(502, "Bad Gateway") },
  "bad-json": {
    kind: "answer",
    answer: { status: 200, fields: { "content-type": "application/json" }, body: '{"adminId":"cut off he' },
  },
  slow: { kind: "slow" },
  hang: { kind: "hang" },
  reset: { kind: "reset" },
} as const satisfies Readonly<Record<string, Fault>>;

export type FaultName = keyof typeof FAULTS;

/** Share of the requests that get a fault, 0 to 1, by its name. */
export type FaultRates = Partial<Readonly<Record<FaultName, number>>>;

/** Query parameter and field by which a request asks for a fault. */
export const FAULT_QUERY = "fault";
export const FAULT_FIELD = "x-sandbox-fault";

export const FAULT_NAMES = Object.keys(FAULTS) as readonly FaultName[];

export function isFaultName(name: string): name is FaultName {
  return Object.hasOwn(FAULTS, name);
}

/** The fault that befalls a request, if any: one draw decides among all of them. */
export function drawFault(rates: FaultRates, random: Random): Fault | undefined {
  let drawn = random();
  for (const name of FAULT_NAMES) {
    drawn -= rates[name] ?? 0;
    if (drawn < 0) return FAULTS[name];
  }
  return undefined;
}
