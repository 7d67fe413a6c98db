import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { ROOT } from "./project.ts";

/** Builds the console, once before all tests that look at it, into the place from where every gateway of this checkout serves it. */
export default function setup(): void {
  const vite = join(ROOT, "node_modules/vite/bin/vite.js");
  execFileSync(process.execPath, [vite, "build", "--logLevel", "error"], { cwd: ROOT, stdio: "ignore" });
}
