import { test } from "vitest";
import { expectModel } from "./property.ts";

test("whatever happens to one gateway or several, the contract holds", () => expectModel({ steps: 1_350 }));
