import { buildProgram } from "./program.ts";
import { provideProgram, REDIS_SERVER } from "./programs.ts";

/** Runs once before all tests: what the machine has to bring, and the program that they start. */
export default async function setup(): Promise<void> {
  process.env["REDIS_SERVER"] = provideProgram(REDIS_SERVER);
  await buildProgram();
}
