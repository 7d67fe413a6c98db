import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { type Browser, chromium } from "playwright-core";
import { atEnd } from "./closing.ts";
import { CHROMIUM, provideProgram } from "./programs.ts";
import { ROOT } from "./project.ts";

/** Builds the console into the place from where every gateway of this checkout serves it. */
export function buildConsole(): void {
  const vite = join(ROOT, "node_modules/vite/bin/vite.js");
  execFileSync(process.execPath, [vite, "build", "--logLevel", "error"], { cwd: ROOT, stdio: "ignore" });
}

/** Starts a headless Chromium, which ends with the test or the file. */
export async function startBrowser(): Promise<Browser> {
  const browser = await chromium.launch({
    executablePath: provideProgram(CHROMIUM),
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  });
  atEnd(() => browser.close());
  return browser;
}
