import { join } from "node:path";
import * as fc from "fast-check";
import { IS_THOROUGH } from "./thorough.ts";

// Runs in each worker before its files. Properties are tried with the same cases each time: what passed passes again.
if (!IS_THOROUGH) fc.configureGlobal({ seed: 1_220 });

// For processes that tests start: each strips the types of the sources anew otherwise, which is a third of its start.
// A worker itself has no such cache: it would write one as it ends, for seconds on a busy machine.
process.env["NODE_COMPILE_CACHE"] ??= join(import.meta.dirname, "../../node_modules/.cache/compiled");
