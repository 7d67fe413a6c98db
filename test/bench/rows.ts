import { aggregateRows } from "./aggregate-rows.ts";
import { agreementRows } from "./agreement-rows.ts";
import { clientRows } from "./client-rows.ts";
import { hitRows } from "./hit-rows.ts";
import { overheadRows } from "./overhead-rows.ts";
import { latencyRows } from "./latency-rows.ts";
import { missRow } from "./miss-row.ts";
import { postRows } from "./post-rows.ts";
import { redisRows } from "./redis-rows.ts";
import type { Row } from "./row.ts";
import { worstBodyRow } from "./worst-body-row.ts";

/** All rows, in the order of the table. */
export const ROWS: readonly Row[] = [
  ...hitRows,
  missRow,
  ...postRows,
  ...agreementRows,
  ...latencyRows,
  worstBodyRow,
  ...redisRows,
  ...overheadRows,
  ...clientRows,
  ...aggregateRows,
];

/** The rows that a look in passing is for, by name. */
export const QUICK: readonly string[] = ["hit-page", "hit-instrument", "not-modified", "miss", "post", "redis-hit"];
