import axe from "axe-core";
import { type Browser, type BrowserContextOptions, chromium, type Locator, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { CHROMIUM, provideProgram } from "./programs.ts";
import { GatewayProcess } from "./gateway-process.ts";
import { SampleRegistry, type SampleRegistryOptions } from "./sample-registry.ts";
import { DSO } from "./sample.ts";

/** A name that leads to 127.0.0.1 in the browser, and that no gateway here answers to. */
export const FOREIGN_HOST = "cats.example";

/** On a machine that has no Chromium yet, its installation included. */
const BEGIN_WITHIN = 900_000;

/** A page is drawn, or has done what it was told, within; a machine busy with other tests takes its time. */
const SHOWN_WITHIN = 20_000;

export interface OpenOptions extends BrowserContextOptions {
  /** The page to begin with, such as `registries/amulet`; by default the overview. */
  readonly at?: string;
  /** Signs in with this operations token. */
  readonly token?: string;
  /** Errors that the browser's own console may show: those of answers that are no success. */
  readonly expected?: RegExp;
  /** A script that runs before those of the page. */
  readonly beforehand?: string;
}

/** The pages that the navigation leads to. */
export const PAGES = [
  "Overview",
  "Registries",
  "Cache",
  "Requests",
  "Clients",
  "Discovery",
  "Audit",
  "Configuration",
] as const;

/** Real registries, gateways and pages; what was begun last ends first, with the test. */
export interface ConsoleScene {
  registry(options?: Partial<SampleRegistryOptions>): Promise<SampleRegistry>;
  gateway(keys: Record<string, unknown>, predecessor?: GatewayProcess): Promise<GatewayProcess>;
  /** The console of a gateway, watched: see `watch`. */
  open(gateway: Pick<GatewayProcess, "operations">, options?: OpenOptions): Promise<Page>;
  /** Any page of a gateway, watched as the console is. */
  visit(url: string, options?: BrowserContextOptions): Promise<Page>;
  /** A page that is not the console, in the same browser window as `page` or in one of its own. */
  foreign(url: string, beside?: Page): Promise<Page>;
  /** Ends with the test, before all that was begun before. */
  defer(close: () => Promise<unknown>): void;
}

/** Starts a browser for the tests of the file; the console is what was built before all tests. */
export function useConsoleScene(): ConsoleScene {
  let browser: Browser;
  const closing: (() => Promise<unknown>)[] = [];
  const problems: string[] = [];
  beforeAll(async () => {
    const executablePath = provideProgram(CHROMIUM);
    // Root, as in a container, cannot have the sandbox; the pages are our own.
    // This browser would keep pages from loopback by itself; others do not, and it is the gateway's part that is tried.
    const unprotected = "--disable-features=LocalNetworkAccessChecks,PrivateNetworkAccessRespectPreflightResults";
    const names = `--host-resolver-rules=MAP ${FOREIGN_HOST} 127.0.0.1`;
    const args = ["--no-sandbox", "--disable-dev-shm-usage", unprotected, names];
    browser = await chromium.launch({ executablePath, args });
  }, BEGIN_WITHIN);
  afterAll(() => browser.close());
  afterEach(async () => {
    for (const close of closing.splice(0).toReversed()) await close();
    expect(problems.splice(0)).toEqual([]);
  });
  const newPage = async (options: BrowserContextOptions): Promise<Page> => {
    const context = await browser.newContext({ ...options, permissions: ["clipboard-read", "clipboard-write"] });
    closing.push(() => context.close());
    const page = await context.newPage();
    page.setDefaultTimeout(SHOWN_WITHIN);
    return page;
  };
  return {
    async registry(options = {}) {
      const registry = new SampleRegistry({ admin: DSO, clock: systemClock(), ...options });
      await registry.start();
      closing.push(() => registry.stop());
      return registry;
    },
    async gateway(keys, predecessor) {
      const gateway = await GatewayProcess.start(keys, { predecessor });
      closing.push(() => gateway.stop());
      return gateway;
    },
    async visit(url, options = {}) {
      const page = await newPage(options);
      watch(page, { origin: new URL(url).origin, expected: undefined, problems });
      await page.goto(url);
      return page;
    },
    async open({ operations }, { at = "overview", token, expected, beforehand, ...options } = {}) {
      const page = await newPage(options);
      if (beforehand !== undefined) await page.addInitScript(beforehand);
      watch(page, { origin: operations, expected, problems });
      await page.goto(`${operations}/console/#/${at}`);
      if (token !== undefined) {
        await page.getByLabel("Operations token").fill(token);
        await page.getByRole("button", { name: "Sign in" }).click();
      }
      return page;
    },
    async foreign(url, beside) {
      const context = beside?.context() ?? (await browser.newContext());
      if (beside === undefined) closing.push(() => context.close());
      const page = await context.newPage();
      page.setDefaultTimeout(SHOWN_WITHIN);
      await page.goto(url);
      return page;
    },
    defer: (close) => void closing.push(close),
  };
}

interface Watch {
  readonly origin: string;
  readonly expected: RegExp | undefined;
  readonly problems: string[];
}

/**
 * Notes what no page of the console may do: ask another origin, throw, have something refused by its own
 * Content-Security-Policy, and ask for anything in a window of the browser's (which is what markup that runs would do).
 */
function watch(page: Page, { origin, expected, problems }: Watch): void {
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== origin) problems.push(`asked elsewhere: ${request.url()}`);
  });
  page.on("pageerror", (error) => problems.push(`threw: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() !== "error" && message.type() !== "warning") return;
    const text = `${message.type()}: ${message.text()} ${message.location().url}`;
    if (expected?.test(text) !== true) problems.push(text);
  });
  page.on("dialog", (dialog) => {
    problems.push(`opened a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
}

/** Goes to another page by its link, and waits until that is shown. */
export async function goTo(page: Page, title: string): Promise<void> {
  await page.getByRole("navigation", { name: "Pages", exact: true }).getByRole("link", { name: title }).click();
  await page.getByRole("heading", { level: 1, name: title }).waitFor();
}

/** Goes to the page of one registry, by its links. */
export async function openRegistry(page: Page, name: string): Promise<void> {
  await goTo(page, "Registries");
  await page.getByRole("link", { name, exact: true }).click();
  await page.getByRole("heading", { level: 1, name }).waitFor();
}

/** Says yes in the dialog that is open. */
export async function confirm(page: Page, button: string): Promise<void> {
  await page.getByRole("dialog").getByRole("button", { name: button, exact: true }).click();
}

/** The row of a table in which this is written. */
export function rowOf(page: Page, table: string, text: string | RegExp): Locator {
  return page.getByRole("table", { name: table }).getByRole("row").filter({ hasText: text });
}

/** What axe-core finds wrong with the page as it is shown, by rule and element. */
export async function violationsOf(page: Page): Promise<readonly string[]> {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate<axe.AxeResults>("axe.run(document, { resultTypes: ['violations'] })");
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id} ${target.join(" ")} ${failureSummary}`),
  );
}

/** What is wider than its place: the page than its window, or what stands in a card than the card. */
export async function spillsOf(page: Page): Promise<readonly string[]> {
  return page.evaluate<string[]>(`
    ["html", "main", ".top", ".card", ".tile", ".health", ".chart", ".banner", ".notice", "dialog[open]"]
      .flatMap((selector) => [...document.querySelectorAll(selector)].map((element) => [selector, element]))
      .filter(([, element]) => element.scrollWidth > element.clientWidth + 1)
      .map(([selector, element]) => selector + " by " + (element.scrollWidth - element.clientWidth) + " px: " + element.innerText.slice(0, 60))
  `);
}

/** Has the Cache page, which is open, explain a URL: by default a page of amulet's instruments. */
export async function explainPage(
  page: Page,
  url = "/api/token-standard/v0/registrars/amulet/registry/metadata/v1/instruments?pageSize=1",
): Promise<void> {
  await page.getByLabel("URL or path").fill(url);
  // The explanation of before is there until this one is asked for.
  const answer = page.waitForResponse(/\/explain\?/);
  await page.getByRole("button", { name: "Explain" }).click();
  await answer;
  await page.getByText("Asking…").waitFor({ state: "hidden" });
  await page
    .getByText(/The next request/)
    .first()
    .waitFor();
}
