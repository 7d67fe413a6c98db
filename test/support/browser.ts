import { type Browser, chromium } from "playwright-core";
import { atEnd } from "./closing.ts";
import { CHROMIUM, provideProgram } from "./programs.ts";

/** Starts a headless Chromium, which ends with the test or the file. */
export async function startBrowser(): Promise<Browser> {
  const browser = await chromium.launch({
    executablePath: provideProgram(CHROMIUM),
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  });
  atEnd(() => browser.close());
  return browser;
}
