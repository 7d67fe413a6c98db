import { provideProgram, REDIS_SERVER } from "./programs.ts";

/** Runs once before all tests: what the machine has to bring. */
export default function setup(): void {
  process.env["REDIS_SERVER"] = provideProgram(REDIS_SERVER);
}
