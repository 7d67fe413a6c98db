import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { startBrowser } from "../../support/browser.ts";
import { atEnd } from "../../support/closing.ts";
import { expecting, FACTORY, INFO, LIST, PREFIX } from "../../support/endpoints.ts";
import { startGateway, temporaryFolder, type TestGateway } from "../../support/gateway.ts";
import { keyLine, newKey, writeKeys } from "../../support/keys.ts";
import { type Registry, startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

const OPS = { username: "ops", password: "token-of-the-operator" };
const VIEWER = { username: "viewer", password: "token-of-who-may-look" };
const NAMES = ["amulet", "bonds", "funds", "gold", "metals"] as const;

let browser: Browser;
let gateway: TestGateway;
/** `amulet` is well, `bonds` down, `funds` paused, `gold` cache-only, and of `metals` one node of two is out. */
let registries: Record<(typeof NAMES)[number], Registry>;

beforeAll(async () => {
  browser = await startBrowser();
  const all = await Promise.all(NAMES.map((name) => startRegistry(name, { nodes: name === "amulet" ? 1 : 2 })));
  registries = Object.fromEntries(all.map((each) => [each.name, each])) as typeof registries;
  const key = newKey();
  await Promise.all([registries.bonds.close(), registries.metals.nodes[1]!.close()]);
  gateway = await startGateway({
    operations: {
      tokens: [
        { name: OPS.username, token: OPS.password },
        { name: VIEWER.username, token: VIEWER.password, readonly: true },
      ],
    },
    clients: {
      keysFile: writeKeys(temporaryFolder(), [keyLine(key, "Example Wallet", "wallet")]),
      tiers: { anonymous: { requests: "600/1m" }, wallet: {} },
    },
    upstreams: all.map((each) => each.upstream({ mode: each.name === "gold" ? "cache-only" : "normal" })),
  });
  registries.funds.on("*", { status: 429, fields: ["retry-after", "600"], body: "busy" });
  const headers = { "x-api-key": key };
  for (const { name, admin } of all) {
    await gateway.get(`${PREFIX}/${name}${LIST}`, headers);
    await gateway.post(`${PREFIX}/${name}${FACTORY}`, expecting(admin), headers);
  }
  await gateway.post(`${PREFIX}/funds${FACTORY}`, expecting(registries.funds.admin), headers);
  await until(async () => (await status()).health.lines.filter(({ level }) => level !== "well").length === 3);
  await gateway.get(`${PREFIX}/nobody${INFO}`);
});

/** Has both nodes of `funds` answer 429 once more: a pause ends after a minute, and a busy machine takes longer for the tests. */
async function pauseFunds(): Promise<void> {
  for (const _node of registries.funds.nodes) {
    await gateway.post(`${PREFIX}/funds${FACTORY}`, expecting(registries.funds.admin));
  }
}

async function status(): Promise<{ health: { sentence: string; lines: { level: string }[] } }> {
  const authorization = `Bearer ${OPS.password}`;
  return (await gateway.operations.get("/status", { authorization })).json as Awaited<ReturnType<typeof status>>;
}

/** A page of the console, signed in, with what the browser complained of. */
async function open(path = "", options: BrowserContextOptions = {}): Promise<{ page: Page; complaints: string[] }> {
  const context = await browser.newContext({ httpCredentials: OPS, ...options });
  atEnd(() => context.close());
  context.setDefaultTimeout(10_000);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("console", (message) => void (message.type() !== "info" && complaints.push(message.text())));
  page.on("pageerror", (error) => void complaints.push(error.message));
  page.on("requestfailed", (request) => void complaints.push(`${request.url()} failed`));
  await page.goto(`${gateway.operations.url}/console/#/${path}`);
  return { page, complaints };
}

/** The page named so, when it shows what it asked for. */
async function show(page: Page, path: string, heading: RegExp): Promise<void> {
  await page.evaluate(`location.hash = ${JSON.stringify(`#/${path}`)}`);
  await page.locator("h1", { hasText: heading }).waitFor();
}

const PAGES: readonly (readonly [path: string, heading: RegExp])[] = [
  ["", /^bonds is down/],
  ["registries", /^Registries$/],
  ["registries/amulet", /^amulet is well: 1 of 1 node up$/],
  ["registries/bonds", /^bonds is down/],
  ["requests", /^Requests/],
  ["clients", /^Clients$/],
  ["explain", /^Explain a path$/],
  [`explain/${encodeURIComponent(`${PREFIX}/amulet${LIST}`)}`, /^Explain a path$/],
  ["registries/nobody", /^nobody$/],
];

describe.each([360, 1_280, 3_840])("at %d px", (width) => {
  test.each(["light", "dark"] as const)("every page in %s is whole", async (colorScheme) => {
    const { page, complaints } = await open("", { colorScheme, viewport: { width, height: 800 } });
    for (const [path, heading] of PAGES) {
      await show(page, path, heading);
      const widths = await page.evaluate("[document.documentElement.scrollWidth, innerWidth]");
      expect(widths, path).toEqual([width, width]);
      const links = await page.getByRole("navigation").getByRole("link").all();
      expect(links).toHaveLength(5);
      for (const link of links) {
        const box = (await link.boundingBox())!;
        expect(box.x >= 0 && box.x + box.width <= width && box.y >= 0 && box.y < 100, path).toBe(true);
      }
      const heads = await page.evaluate("document.querySelector('header').offsetHeight");
      expect(heads).toBeLessThan(width === 3_840 ? 120 : 90);
    }
    const background = await page.evaluate("getComputedStyle(document.body).backgroundColor");
    expect(background).toBe(colorScheme === "light" ? "rgb(246, 247, 249)" : "rgb(15, 18, 22)");
    expect(complaints).toEqual([]);
  });
});

describe("by keyboard", () => {
  test("Tab goes from the skip link over the pages to what the page is about", async () => {
    const { page } = await open("registries/amulet");
    await show(page, "registries/amulet", /amulet/);
    const stops: string[] = [];
    for (let i = 0; i < 8; i += 1) {
      await page.keyboard.press("Tab");
      stops.push(String(await page.evaluate("document.activeElement.textContent")));
      const outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle");
      expect(outline, stops.at(-1)).toBe("solid");
    }
    const pages = ["Overview", "Registries", "Requests", "Clients", "Explain"];
    expect(stops).toEqual(["Skip to the page", ...pages, "Purge…", "Explain its instruments"]);
  });

  test("the purge dialog opens, Escape closes it, the focus returns, and Enter purges", async () => {
    const { page } = await open("registries/amulet");
    const button = page.getByRole("button", { name: "Purge…" });
    await button.focus();
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog", { name: "Purge what is stored of amulet?" });
    await dialog.waitFor();
    await page.keyboard.press("Escape");
    await page.locator("dialog").waitFor({ state: "detached" });
    expect(await button.evaluate((each) => each === each.ownerDocument.activeElement)).toBe(true);
    const before = await gateway.operations.metric("registry_gateway_purges_total");
    await page.keyboard.press("Enter");
    await dialog.waitFor();
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.getByText("Purged.").waitFor();
    expect(await button.evaluate((each) => each === each.ownerDocument.activeElement)).toBe(true);
    expect(await gateway.operations.metric("registry_gateway_purges_total")).toBe(before + 1);
    expect(gateway.lines.find(({ msg }) => msg === "purged")).toMatchObject({ upstream: "amulet", by: OPS.username });
  });
});

describe("who signs in", () => {
  test.each([
    { what: "with no credential", httpCredentials: { username: "", password: "" }, is: 401 },
    { what: "with another's token", httpCredentials: { ...OPS, username: "viewer" }, is: 401 },
    { what: "as the operator", httpCredentials: OPS, is: 200 },
    { what: "as one who may read alone", httpCredentials: VIEWER, is: 200 },
  ])("$what gets $is", async ({ httpCredentials, is }) => {
    const context = await browser.newContext({ httpCredentials });
    atEnd(() => context.close());
    const answer = await (await context.newPage()).goto(`${gateway.operations.url}/console/`);
    expect(answer!.status()).toBe(is);
  });

  test("one who may read alone sees everything, and his purge is refused in a sentence", async () => {
    const { page } = await open("", { httpCredentials: VIEWER });
    await page.getByRole("button", { name: "Purge everything…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Purge" }).click();
    const alert = page.getByRole("alert");
    await alert.waitFor();
    expect(await alert.innerText()).toBe('the operator "viewer" may read everything and change nothing');
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.locator("dialog").waitFor({ state: "detached" });
  });
});

describe("the pages", () => {
  beforeEach(pauseFunds);

  test("the overview says what is wrong, the cause first, and each registry's state", async () => {
    const { page } = await open();
    const { health } = await status();
    expect(await page.locator("h1").innerText()).toBe(health.sentence);
    expect(health.sentence).toMatch(
      /^bonds is down since \d\d:\d\d: both nodes refused the connection\. Not well either: /,
    );
    const text = await page.locator("main").innerText();
    expect(text).toMatch(/funds answered 429, (was )?paused until \d\d:\d\d:\d\d \(2 nodes\)/);
    expect(text).toMatch(/metals: node 127\.0\.0\.1:\d+ out since \d\d:\d\d: refused the connection/);
    for (const said of ["down since", "paused", "some nodes are out", "cache only", "well"])
      expect(text).toContain(said);
    expect(await page.locator("header").innerText()).toMatch(/:\d+ · \d+\.\d+\.\d+ · \d\d:\d\d:\d\d UTC/);
  });

  test.each([
    { name: "amulet", says: [/^amulet is well: 1 of 1 node up/, /Up since \d\d:\d\d/, /Your limit\s+none/] },
    {
      name: "bonds",
      says: [/both nodes refused the connection/, /all else is answered 503/, /out\s+refused the connection/],
    },
    {
      name: "funds",
      says: [/^funds answered 429, (was )?paused until/, /(paused|up)\s+answered 429, (was )?paused until [\d:]+ UTC/],
    },
    {
      name: "gold",
      says: [/^gold is cache-only, as configured/, /cache only: nothing is asked of it/, /not asked yet/],
    },
  ])("the page of $name says how it is", async ({ name, says }) => {
    const { page } = await open(`registries/${name}`);
    await page.locator("h1", { hasText: name }).waitFor();
    const text = await page.locator("main").innerText();
    for (const each of says) expect(text).toMatch(each);
    expect(text).toContain(registries[name as "gold"].admin);
    for (const url of registries[name as "gold"].urls) expect(text).toContain(new URL(url).host);
  });

  test("requests are found by words and by being errors, and stand still while they are looked at", async () => {
    const { page } = await open("requests");
    const rows = page.locator("tbody tr");
    await rows.first().waitFor();
    const all = await rows.count();
    await page.getByRole("searchbox").fill("bonds transfer");
    const found = await rows.allInnerTexts();
    expect(found.length).toBeGreaterThan(0);
    expect(found.length).toBeLessThan(all);
    for (const each of found) expect(each).toMatch(/transfer_factory[^]*bonds/);
    await page.getByRole("searchbox").fill("");
    await page.getByRole("checkbox", { name: "Errors only" }).check();
    for (const each of await rows.allInnerTexts()) expect(each).toMatch(/[45]\d\d/);
    const unknown = rows.filter({ hasText: "admin_unknown" });
    await unknown.locator("summary").click();
    expect(await unknown.innerText()).toContain(`GET ${PREFIX}/nobody${INFO}`);
    await page.getByRole("button", { name: "Pause" }).click();
    await gateway.get(`${PREFIX}/somebody-new${INFO}`);
    await page.waitForTimeout(6_000);
    expect(await page.locator("main").innerText()).not.toContain("somebody-new");
    await page.getByRole("button", { name: "Go on" }).click();
    await rows.filter({ hasText: "somebody-new" }).first().waitFor();
  });

  test("clients are shown with what each used", async () => {
    const { page } = await open("clients");
    const row = page.locator("tbody tr", { hasText: "Example Wallet" });
    await row.waitFor();
    expect(await row.innerText()).toMatch(/Example Wallet\s+API key\s+wallet\s+\d+/);
    expect(await page.locator("tbody tr", { hasText: "everybody else" }).innerText()).toMatch(/none\s+anonymous/);
  });

  test("a path is explained, and one that leads nowhere is refused in a sentence", async () => {
    const { page } = await open("explain");
    const path = page.getByRole("textbox");
    await path.fill(`${PREFIX}/amulet${LIST}?pageSize=10`);
    await page.keyboard.press("Enter");
    await page.getByText("The next request").waitFor();
    expect(await page.locator("main").innerText()).toContain(registries.amulet.admin);
    await path.fill("/registry/nowhere");
    await page.keyboard.press("Enter");
    const alert = page.getByRole("alert");
    await alert.waitFor();
    expect(await alert.innerText()).toMatch(/^\S.{20,}/);
  });

  test("a gateway that does not answer is said, and what was seen stays", async () => {
    const { page } = await open("registries");
    await page.locator("tbody tr").first().waitFor();
    await page.context().setOffline(true);
    await page.getByRole("alert").waitFor();
    expect(await page.getByRole("alert").innerText()).toBe("The gateway does not answer.");
    expect(await page.locator("tbody tr").count()).toBe(NAMES.length);
    await page.context().setOffline(false);
    await page.getByRole("alert").waitFor({ state: "detached" });
  });
});
