import { test } from "vitest";
import { checkLiars } from "../../support/lying-nodes.ts";

test("10,000 times 13 nodes, some of which lie: none is believed alone, and enough honest ones are", async () => {
  await checkLiars(10_000);
});
