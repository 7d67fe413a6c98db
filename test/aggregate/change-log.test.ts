import { expect, test } from "vitest";
import { ChangeLog } from "../../src/aggregate/change-log.ts";
import type { Row } from "../../src/sharing/ports.ts";

// What repeats itself is short as a row, and long in memory: such rows left the memory first, and stayed in Redis for ever.
test("rows that memory has no room for any more go from the table too", () => {
  const table = new Map<string, Row>();
  const log = new ChangeLog();
  const changes = [{ type: "instrument_added" as const, instrument: { id: "A", name: "n".repeat(60_000) } }];
  for (let at = 0; at < 300; at += 1) {
    const rows = log.rowsOf({ admin: "amulet::1220", registry: "amulet", at: 0 }, changes)!;
    for (const [name, row] of rows) {
      if (row === undefined) table.delete(name);
      else table.set(name, row);
    }
    log.take(new Map(table));
  }
  expect(log.last?.n).toBe(299);
  expect(log.known().size).toBeLessThan(150);
  // The last one to go goes with the next that is written.
  expect(table.size).toBeLessThanOrEqual(log.known().size + 1);
});
