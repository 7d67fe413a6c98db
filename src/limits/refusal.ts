import type { Duration } from "../clock.ts";
import { type Operation, OPERATIONS } from "../spec/operations.ts";

/** No registry has the gateway wait longer. */
export const LONGEST_RETRY_AFTER: Duration = 60_000;

/** A 429 as processes announce it: to what it was the answer, and how long nothing is to be asked. */
export interface Refusal {
  readonly whose: string;
  readonly operation: Operation;
  readonly pause: Duration;
}

export function formatRefusal({ whose, operation, pause }: Refusal): string {
  return `refused ${operation} ${pause} ${whose}`;
}

/** Undefined for other event, and for what goes beyond the bounds of a refusal. */
export function parseRefusal(event: string): Refusal | undefined {
  const [, name, pause, whose] = /^refused (\w+) (\d{1,5}) (.+)$/s.exec(event) ?? [];
  const operation = OPERATIONS.find((each) => each === name);
  if (operation === undefined || Number(pause) > LONGEST_RETRY_AFTER) return undefined;
  return { whose: whose!, operation, pause: Number(pause) };
}
