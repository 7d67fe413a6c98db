import { hitRows } from "./hit-rows.ts";
import { postRow } from "./post-row.ts";
import type { Row } from "./row.ts";

/** All rows, in the order of the table. */
export const ROWS: readonly Row[] = [...hitRows, postRow];
