import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { SMALL, useBusyGateways } from "../../support/busy-gateway.ts";
import { explainPage, goTo, openRegistry, PAGES, useConsoleScene } from "../../support/console-scene.ts";

const scene = useConsoleScene();
const startBusyGateway = useBusyGateways(scene);

interface Numbers {
  /** Texts with a number that nothing leads from to a metric, and where they stand. */
  readonly without: readonly string[];
  /** Metrics that the others lead to. */
  readonly metrics: readonly string[];
  readonly count: number;
}

/**
 * Finds every text that shows a number. It leads to a metric by a link in the head of its column, the label of its fact
 * or tile, the title of its chart, its sentence, or, outside of all these, the title of its section. No such number is:
 * a time; what is written in the configuration or by a registry (`code`, reasons); a name or URL (links, heads of rows);
 * what is typed or pressed; and how many rows the page itself shows.
 */
const FIND_NUMBERS = `(() => {
  const NUMBER = /(^|[\\s(])[<>]?\\d[\\d.,]*[kmb]?(?=$|[\\s%,;.)])/i;
  const OTHER = "time, code, pre, a, button, input, select, textarea, label, tbody th, .wrap, .unseen, .yaml, .search, .filters, .pages";
  const linkIn = (element) => element?.querySelector("a.metric");
  // The bytes of one request, as its log line says them: nothing counts them over time.
  const isOfOne = (head) => document.querySelector("h1").textContent === "Requests" && /^Bytes/.test(head.textContent);
  const headOf = (cell) => cell.closest("table").tHead.rows[0].cells[cell.cellIndex];
  const linkOf = (element) => {
    const cell = element.closest("td");
    const figure = element.closest("figure");
    if (figure) return linkIn(figure.querySelector("figcaption"));
    if (cell) return linkIn(headOf(cell));
    const fact = element.closest("dd");
    if (fact) {
      let label = fact;
      while (label.tagName !== "DT") label = label.previousElementSibling;
      return linkIn(label);
    }
    return linkIn(element.closest(".health")) ?? linkIn(element.closest("section")?.querySelector("header"));
  };
  const without = [], metrics = new Set();
  let count = 0;
  const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const element = text.parentElement;
    if (!NUMBER.test(text.data) || element.closest(OTHER) || !element.checkVisibility()) continue;
    count += 1;
    const link = linkOf(element);
    const label = element.closest("dd")?.previousElementSibling;
    // What a registry said of itself.
    if (label?.textContent.trim() === "Why") continue;
    const cell = element.closest("td");
    if (cell && isOfOne(headOf(cell))) continue;
    if (link) metrics.add(new URL(link.href).hash.replace("#:~:text=", ""));
    else without.push(text.data + " in " + element.parentElement.outerHTML.slice(0, 200));
  }
  return { without, metrics: [...metrics], count };
})()`;

/** The names of all metrics that a gateway tells. */
async function metricsOf(operations: string): Promise<ReadonlySet<string>> {
  const text = await (await fetch(`${operations}/metrics`)).text();
  return new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name!));
}

/** Without these the numbers beside them have none. */
const LINKS: readonly (readonly [page: (typeof PAGES)[number], link: string])[] = [
  ["Overview", ".tile a.metric"],
  ["Overview", ".health a.metric"],
  ["Overview", "figcaption a.metric"],
  ["Registries", "thead th.number a.metric"],
  ["Clients", "thead th a.metric"],
];

test("every number on every page leads to a metric that the gateway has", async () => {
  const { gateway, ask } = await startBusyGateway();
  for (const credential of ["token", "certificate", "nothing"] as const) await ask(credential, "amulet");
  for (let i = 0; i < SMALL + 2; i += 1) await ask("key of a small tier", "amulet");
  const page = await scene.open(gateway);
  const counts: Record<string, number> = {};
  const without: string[] = [];
  const metrics = new Set<string>();
  const look = async (title: string): Promise<void> => {
    const numbers = await page.evaluate<Numbers>(FIND_NUMBERS);
    counts[title] = numbers.count;
    without.push(...numbers.without.map((each) => `${title}: ${each}`));
    for (const metric of numbers.metrics) metrics.add(metric);
  };
  await page.getByText("3 of 4 registries are well").first().waitFor();
  // The first step of the history takes 5 s.
  await page.locator(".legend b", { hasText: /\d/ }).first().waitFor();
  for (const title of PAGES) {
    await settle(page, title);
    await look(title);
  }
  await settle(page, "Overview");
  for (const summary of await page.getByText("As a table").all()) await summary.click();
  await look("Overview, charts as tables");
  await openRegistry(page, "amulet");
  await page.getByRole("table", { name: "Nodes of amulet" }).waitFor();
  await look("amulet");
  await settle(page, "Cache");
  await explainPage(page);
  await look("Cache, explained");
  console.log(`numbers by page: ${JSON.stringify(counts)}; they lead to ${metrics.size} metrics`);
  expect(without).toEqual([]);
  for (const [title, count] of Object.entries(counts))
    // What is written, and what was done, is no measure.
    if (!["Configuration", "Audit"].includes(title))
      expect([title, count]).toEqual([title, expect.toSatisfy((found) => (found as number) > 0)]);
  expect(metrics.size).toBeGreaterThan(20);
  const known = await metricsOf(gateway.operations);
  expect([...metrics].filter((metric) => !known.has(metric))).toEqual([]);

  // And a number that has none would have been found.
  for (const [title, link] of LINKS) {
    await settle(page, title);
    expect((await page.evaluate<Numbers>(FIND_NUMBERS)).without).toEqual([]);
    await page.evaluate(`document.querySelectorAll("main ${link}").forEach((link) => link.remove())`);
    expect([title, link, (await page.evaluate<Numbers>(FIND_NUMBERS)).without]).not.toEqual([title, link, []]);
    await page.reload();
  }
});

/** Goes to a page, and waits until it has what it shows. */
async function settle(page: Page, title: (typeof PAGES)[number]): Promise<void> {
  await goTo(page, title);
  await page.getByText(/^Asking/).waitFor({ state: "detached" });
}
