/**
 * Writes docs/console.png, the console as the demo shows it with a registry that was killed: `node tools/screenshot.ts`,
 * after `npm run build`. It takes two minutes, for the charts to have something to draw, and needs Chromium, at /usr/bin/chromium or
 * where $CHROMIUM says.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { chromium } from "playwright-core";

const ROOT = join(import.meta.dirname, "..");
const WELL_FOR = 90_000;
const KILLED_FOR = 30_000;
const START_TIMEOUT = 30_000;

const args = [join(ROOT, "src/main.ts"), "demo", "--port", "0", "--operations-port", "0"];
const demo = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
const browser = await chromium.launch({
  executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
  // Chromium starts for root, as in a container, only without it.
  args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
});
try {
  const url = await consoleUrl();
  const page = await browser.newPage({ viewport: { width: 1280, height: 1000 }, reducedMotion: "reduce" });
  await page.goto(url);
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await wait(WELL_FOR);
  demo.stdin.write("kill funds\n");
  await wait(KILLED_FOR);
  await page.screenshot({ path: join(ROOT, "docs/console.png") });
} finally {
  await browser.close();
  demo.kill("SIGINT");
}

/** What the demo prints of it. */
async function consoleUrl(): Promise<string> {
  let printed = "";
  for (;;) {
    const [chunk] = (await once(demo.stdout, "data", { signal: AbortSignal.timeout(START_TIMEOUT) })) as [Buffer];
    printed += chunk.toString();
    const [url] = /http:\S+\/console\//.exec(printed) ?? [];
    if (url !== undefined) return url;
  }
}
