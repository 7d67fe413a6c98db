import * as fc from "fast-check";
import { afterAll } from "vitest";
import { closeFile } from "./closing.ts";
import { IS_THOROUGH } from "./thorough.ts";

// Runs before each file. Properties are tried with the same cases each time: what passed passes again.
if (!IS_THOROUGH) fc.configureGlobal({ seed: 1_220 });

afterAll(closeFile);
