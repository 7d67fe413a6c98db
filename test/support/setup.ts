import * as fc from "fast-check";
import { IS_THOROUGH } from "./thorough.ts";

// Runs in each worker before its files. Properties are tried with the same cases each time: what passed passes again.
if (!IS_THOROUGH) fc.configureGlobal({ seed: 1_220 });
