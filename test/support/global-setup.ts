import { join } from "node:path";
import { provideProgram, REDIS_SERVER } from "./programs.ts";

/** Runs once before all tests: what the machine has to bring, and what processes that tests start have in common. */
export default function setup(): void {
  process.env["REDIS_SERVER"] = provideProgram(REDIS_SERVER);
  // Each process that runs the sources strips their types anew otherwise, which is a third of its start.
  process.env["NODE_COMPILE_CACHE"] ??= join(import.meta.dirname, "../../node_modules/.cache/compiled");
}
