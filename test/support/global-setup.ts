import { join } from "node:path";
import { CHROMIUM, provideProgram, REDIS_SERVER } from "./programs.ts";

/** Runs once before all tests: what the machine has to bring. */
export default function setup(): void {
  for (const program of [REDIS_SERVER, CHROMIUM]) process.env[program.variable] = provideProgram(program);
  // For the processes that tests start: each strips the types of the sources anew otherwise, a third of its start.
  process.env["NODE_COMPILE_CACHE"] ??= join(import.meta.dirname, "../../node_modules/.cache/compiled");
}
