import { join } from "node:path";
import { build } from "vite";

const ROOT = join(import.meta.dirname, "../..");

/** Beside `dist`, so that a run of the tests takes nothing away from a package that is being made. */
const FOLDER = join(ROOT, ".program");

/** The program as users run it: built, not its sources. */
export const PROGRAM = join(FOLDER, "main.js");

/** Builds it, in a second. What an earlier run built stays: its processes may still load parts of it. */
export async function buildProgram(): Promise<void> {
  await build({
    configFile: join(ROOT, "vite.config.ts"),
    mode: "program",
    logLevel: "warn",
    build: { outDir: FOLDER, emptyOutDir: false },
  });
}
