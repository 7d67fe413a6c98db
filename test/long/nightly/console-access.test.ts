import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { NAMES, SMALL, useBusyGateways } from "../../support/busy-gateway.ts";
import {
  confirm,
  openRegistry,
  explainPage,
  goTo,
  PAGES,
  rowOf,
  spillsOf,
  useConsoleScene,
  violationsOf,
} from "../../support/console-scene.ts";
import { until } from "../../support/until.ts";

const scene = useConsoleScene();

const TOKEN = "operations-token-of-the-test";

const startBusyGateway = useBusyGateways(scene);

/** What there is to see on every page, and a node that is cordoned. */
async function startAll() {
  const { gateway, ask } = await startBusyGateway({ token: TOKEN });
  for (const credential of ["token", "certificate", "nothing"] as const) await ask(credential, "amulet");
  for (let i = 0; i < SMALL + 2; i += 1) await ask("key of a small tier", "amulet");
  const answer = await fetch(`${gateway.operations}/nodes`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${TOKEN}` },
    body: JSON.stringify({ upstream: "amulet", node: 1, state: "cordoned", for: "30m", reason: "its disk is full" }),
  });
  expect([answer.status, await answer.text()]).toEqual([200, expect.any(String)]);
  return gateway;
}

/** Every page that there is, as it is shown. */
async function lookAtAll(page: Page, look: (title: string) => Promise<void>): Promise<void> {
  await page.getByLabel("Operations token").waitFor();
  await look("Sign in");
  await page.getByLabel("Operations token").fill(TOKEN);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("3 of 4 registries are well").first().waitFor();
  for (const title of PAGES) {
    await goTo(page, title);
    await page.getByText("Asking the gateway…").waitFor({ state: "detached" });
    if (title === "Overview") await page.getByRole("img").or(page.locator("canvas")).first().waitFor();
    if (title === "Clients") await rowOf(page, "Clients", NAMES.certificate).waitFor();
    if (title === "Discovery") await rowOf(page, "Found registries", "waiting").waitFor();
    await look(title);
  }
  await goTo(page, "Cache");
  await explainPage(page);
  await look("Cache, explained");
  await goTo(page, "Requests");
  await page
    .getByRole("button", { name: /Copy as curl/ })
    .first()
    .click();
  await page.getByText("are placeholders").waitFor();
  await look("Requests, copied");
  await openRegistry(page, "amulet");
  await page.getByRole("table", { name: "Nodes of amulet" }).waitFor();
  await look("amulet");
  for (const button of ["Cordon node 0", "Weight of node 0", "Cache only…", "Purge…"]) {
    await page.getByRole("button", { name: button, exact: true }).click();
    await page.getByRole("dialog").waitFor();
    await look(`amulet, ${button}`);
    await page.getByRole("button", { name: "Cancel" }).click();
  }
}

/** Keeps the names of all that is animated or makes a transition. */
const NOTE_MOTION = `
  globalThis.moved = [];
  addEventListener("animationstart", ({ animationName }) => moved.push(animationName), true);
  addEventListener("transitionrun", ({ propertyName }) => moved.push(propertyName), true);
`;

test.each(["light", "dark"] as const)("no page has anything that axe-core finds wrong, in %s", async (colorScheme) => {
  const page = await scene.open(await startAll(), { colorScheme, reducedMotion: "reduce" });
  const found: string[] = [];
  let looked = 0;
  await lookAtAll(page, async (title) => {
    looked += 1;
    found.push(...(await violationsOf(page)).map((violation) => `${title}: ${violation}`));
  });
  expect(found).toEqual([]);
  expect(looked).toBe(PAGES.length + 8);
});

test.each([360, 1280, 3840])("nothing is wider than its place in a window of %d px", async (width) => {
  const page = await scene.open(await startAll(), { viewport: { width, height: 760 } });
  const wider: string[] = [];
  await lookAtAll(page, async (title) => {
    wider.push(...(await spillsOf(page)).map((spill) => `${title}: ${spill}`));
  });
  expect(wider).toEqual([]);
});

/** The tables of a page that are wider than their place. */
async function widerTables(page: Page): Promise<readonly string[]> {
  return page.evaluate<string[]>(`
    [...document.querySelectorAll(".scroll:not(.yaml)")]
      .filter((place) => place.scrollWidth > place.clientWidth + 1)
      .map((place) => place.ariaLabel + " by " + (place.scrollWidth - place.clientWidth) + " px")
  `);
}

test.each([1280, 3840])("every column of every table is in view in a window of %d px", async (width) => {
  const page = await scene.open(await startAll(), { viewport: { width, height: 900 } });
  const wider: string[] = [];
  await lookAtAll(page, async (title) => {
    wider.push(...(await widerTables(page)).map((table) => `${title}: ${table}`));
  });
  expect(wider).toEqual([]);
});

/** Places that scroll and do not say so, and those that say so and do not. */
const UNSAID = `
  [...document.querySelectorAll(".scroll")]
    .filter((place) => (place.scrollWidth > place.clientWidth + 1) !== (place.previousElementSibling?.matches(".more") === true))
    .map((place) => place.ariaLabel)
`;

test("in a window of 360 px a table that scrolls says so, and the column that names the row stays", async () => {
  const page = await scene.open(await startAll(), { viewport: { width: 360, height: 760 } });
  let scrolling = 0;
  await lookAtAll(page, async (title) => {
    if (/amulet, |Sign in/.test(title)) return;
    // Tables grow as answers come.
    await expect.poll(async () => [title, await page.evaluate(UNSAID)]).toEqual([title, []]);
    scrolling += (await widerTables(page)).length;
    const places = await page.evaluate<number[]>(`
      [...document.querySelectorAll(".scroll:has(table)")].map((place) => {
        place.scrollLeft = 10_000;
        return Math.round(place.querySelector("tbody tr > *").getBoundingClientRect().left - place.getBoundingClientRect().left);
      })
    `);
    for (const left of places) expect(Math.abs(left)).toBeLessThanOrEqual(1);
  });
  expect(scrolling).toBeGreaterThan(3);
});

test("a window of 3840 px is used from side to side", async () => {
  const page = await scene.open(await startAll(), { viewport: { width: 3840, height: 1600 }, token: TOKEN });
  await page.getByRole("img").first().waitFor();
  const right = await page.evaluate<number>(
    `Math.max(...[...document.querySelectorAll(".chart")].map((chart) => chart.getBoundingClientRect().right))`,
  );
  expect(right).toBeGreaterThan(3_600);
  expect(await page.evaluate(`parseFloat(getComputedStyle(document.body).fontSize)`)).toBeGreaterThanOrEqual(18);
});

test.each([
  ["reduce", []],
  ["no-preference", ["rise"]],
] as const)("where the system says %s of motion, what moves is %j", async (reducedMotion, moves) => {
  const page = await scene.open(await startAll(), { reducedMotion, token: TOKEN, beforehand: NOTE_MOTION });
  await page.getByRole("button", { name: "Undo node 1 cordoned of amulet" }).click();
  await confirm(page, "Activate");
  await page.getByText("Node 1 of amulet has calls again").waitFor();
  for (const title of PAGES) await goTo(page, title);
  expect(await page.evaluate("globalThis.moved")).toEqual(moves);
});

/** Presses Tab until this has the focus, and is seen to have it. */
async function tabTo(page: Page, name: RegExp): Promise<void> {
  for (let presses = 0; presses < 120; presses += 1) {
    const [said, outline] = await page.evaluate<[string, string]>(`(() => {
      const element = document.activeElement, style = getComputedStyle(element);
      const labels = [...(element.labels ?? [])].map((label) => label.textContent).join(" ");
      return [(element.ariaLabel ?? "") + " " + labels + " " + element.textContent, style.outlineStyle + " " + style.outlineWidth];
    })()`);
    if (name.test(said) && said.length < 400) {
      expect([said, outline]).toEqual([said, expect.not.stringMatching(/^none| 0px$/)]);
      return;
    }
    await page.keyboard.press("Tab");
  }
  throw new Error(`Tab does not lead to ${name}`);
}

test("with the keyboard alone an operator signs in, cordons a node and undoes it", async () => {
  const gateway = await startAll();
  const page = await scene.open(gateway);
  const inForce = async () => {
    const answer = await fetch(`${gateway.operations}/status`, { headers: { authorization: `Bearer ${TOKEN}` } });
    return ((await answer.json()) as { readonly inForce: readonly { readonly node: number }[] }).inForce;
  };
  await page.getByLabel("Operations token").waitFor();
  await tabTo(page, /Operations token/);
  await page.keyboard.type(TOKEN);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  // A person who signs in is told where that led.
  const focused = (property: string) => page.evaluate<string>(`document.activeElement.${property}`);
  await until(async () => `${await focused("tagName")} ${await focused("textContent")}` === "H1 Overview");
  await tabTo(page, /Undo node 1 cordoned of amulet/);
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await tabTo(page, /^\s*Activate$/);
  await page.keyboard.press("Enter");
  await until(async () => (await inForce()).length === 0);
  await page.getByRole("dialog").waitFor({ state: "detached" });
  // The button that opened it goes with what it undid.
  await until(async () => `${await focused("tagName")} ${await focused("textContent")}` === "H1 Overview");

  await page.reload();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await tabTo(page, /^\s*Registries$/);
  await page.keyboard.press("Enter");
  // Who follows a link is told where it led.
  await until(async () => `${await focused("tagName")} ${await focused("textContent")}` === "H1 Registries");
  await tabTo(page, /^\s*amulet$/);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "amulet" }).waitFor();
  await tabTo(page, /Cordon node 0/);
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  expect(await inForce()).toEqual([]);
  // The focus is where it was before the dialog.
  expect(await focused("ariaLabel")).toBe("Cordon node 0");
  await page.keyboard.press("Enter");
  await tabTo(page, /Reason, shown/);
  await page.keyboard.type("no hands");
  await tabTo(page, /^\s*Cordon$/);
  await page.keyboard.press("Enter");
  await until(async () => (await inForce())[0]?.node === 0);
});
