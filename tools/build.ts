import { spawnSync } from "node:child_process";
import { cpSync, globSync, rmSync } from "node:fs";
import { join } from "node:path";

/** Builds the program into dist/, where `src/version.ts` finds package.json one folder above. The console is built by vite. */

const root = join(import.meta.dirname, "..");

rmSync(join(root, "dist"), { recursive: true, force: true });
const { status } = spawnSync("tsc", ["-p", "tsconfig.build.json"], { cwd: root, stdio: "inherit" });
// What the program reads when it runs.
for (const file of globSync("**/*.yaml", { cwd: join(root, "src") })) {
  cpSync(join(root, "src", file), join(root, "dist", file));
}
process.exitCode = status ?? 1;
