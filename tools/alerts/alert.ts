import type { Condition } from "../../src/operations/conditions/condition.ts";
import { decimal } from "../promql.ts";

/** A value that always exists, and what it is compared with. */
interface Comparison {
  readonly value: string;
  readonly is: ">" | "<" | "==";
  readonly bound: number;
}

/** How Prometheus finds a condition, and what it tells whom it calls; the rest is in `src/operations/conditions`. */
export interface Alert {
  /** It fires when all of them hold. */
  readonly conditions: readonly Comparison[];
  readonly summary: string;
  /** What it means for clients, where to look, what to do. */
  readonly runbook: { readonly means: string; readonly look: string; readonly act: string };
}

/** One for each condition of a table: one that is missing, or has no condition, does not compile. */
export type AlertsOf<Table extends readonly Condition[]> = Readonly<Record<Table[number]["alert"], Alert>>;

/** What counts or gauges what should not be. */
export const above0 = (value: string): readonly Comparison[] => [{ value, is: ">", bound: 0 }];

/** An increase of so many: a rate's is a little more or less. */
export const atLeast = (least: number, value: string): Comparison => ({ value, is: ">", bound: least - 0.5 });

/** The condition under which an alert fires. */
export function expressionOf({ conditions }: Pick<Alert, "conditions">): string {
  const parts = conditions.map(({ value, is, bound }) => `${value} ${is} ${decimal(bound)}`);
  return parts.length === 1 ? parts[0]! : parts.map((part) => `(${part})`).join(" and ");
}
