import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import {
  explainPage,
  FOREIGN_HOST,
  goTo,
  openRegistry,
  PAGES,
  spillsOf,
  useConsoleScene,
} from "../../support/console-scene.ts";
import { until } from "../../support/until.ts";
import { DSO, UTILITY_ADMIN } from "../../support/sample.ts";

const scene = useConsoleScene();

const TOKEN = "operations-token-of-the-test";

/** What would run, be fetched or end an attribute, were it taken for markup. */
const MARKUP = `"'><img src=//${FOREIGN_HOST}/leak onerror=alert(1)><script>alert(2)</script><svg/onload=alert(3)>{{4}}javascript:alert(5)`;
/** The same for the width of a page: nowhere in it may a line end. */
const UNBROKEN = MARKUP.replaceAll(" ", "/").padEnd(400, "W");
/** As much of it as a field of HTTP holds. */
const TAG = `"<img/src=//${FOREIGN_HOST}/etag/onerror=alert(6)>"`;

test("markup in whatever a registry sends, or an operator writes, is shown as text", async () => {
  const hostile = await scene.registry({
    instruments: [
      { id: MARKUP, name: MARKUP, symbol: MARKUP, decimals: 10, supportedApis: { [MARKUP]: 1 } },
      { id: UNBROKEN, name: UNBROKEN, symbol: UNBROKEN, decimals: 10, supportedApis: { [UNBROKEN]: 1 } },
      { id: "plain", name: "plain", symbol: "P", decimals: 2, supportedApis: { [MARKUP]: 1 } },
    ],
    cacheHeaders: () => ({ etag: TAG, "cache-control": `max-age=60, <b>x</b>="${MARKUP.replaceAll('"', "")}"` }),
  });
  // An upstream error in the registry's own words; and one that says it is somebody else.
  hostile.script(({ method }) =>
    method === "POST"
      ? { status: 500, headers: ["content-type", "application/json"], body: JSON.stringify({ error: MARKUP }) }
      : undefined,
  );
  const stranger = await scene.registry({ admin: `${UNBROKEN.replaceAll(":", "")}::1220` });
  const gateway = await scene.gateway({
    log: { hits: 1 },
    clients: { anonymous: "open", tiers: { open: {} } },
    upstreams: [
      { name: "hostile", admin: DSO, urls: [hostile.url], retry: { attempts: 1 } },
      { name: "stranger", admin: UTILITY_ADMIN, urls: [stranger.url] },
    ],
  });
  const at = (admin: string) => `${gateway.url}/api/token-standard/v0/registrars/${admin}/registry`;
  const listing = `${at("hostile")}/metadata/v1/instruments`;
  const one = `${listing}/${encodeURIComponent(MARKUP)}`;
  for (const url of [listing, `${listing}?pageToken=${encodeURIComponent(MARKUP)}`, one])
    await (await fetch(url)).text();
  for (const admin of ["hostile", "stranger"]) {
    const url = `${at(admin)}/transfer-instruction/v1/${encodeURIComponent(MARKUP)}/choice-contexts/accept`;
    const answer = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" });
    await answer.text();
    expect(answer.status).toBeGreaterThanOrEqual(500);
  }

  const page = await scene.open(gateway);
  await openRegistry(page, "hostile");
  await page.getByRole("button", { name: "Cache only…" }).click();
  await page.getByLabel("Reason, shown").fill(UNBROKEN.slice(0, 200));
  await page.getByRole("dialog").getByRole("button", { name: "Cache only", exact: true }).click();
  // The message that it was done may come before the state that tells the reason.
  await page.getByRole("main").getByText("cache-only since").waitFor();
  const shown = new Map<string, string>();
  const spilled: string[] = [];
  const look = async (title: string) => {
    shown.set(title, await page.getByRole("main").innerText());
    expect(await page.locator("main :is(img, script, iframe, [onerror], [onload])").count()).toBe(0);
    for (const width of [360, 3840, 1280]) {
      await page.setViewportSize({ width, height: 760 });
      spilled.push(...(await spillsOf(page)).map((spill) => `${title} at ${width} px: ${spill}`));
    }
  };
  await look("hostile");
  await openRegistry(page, "stranger");
  await look("stranger");
  for (const title of PAGES) {
    await goTo(page, title);
    await page.getByText("Asking the gateway…").waitFor({ state: "detached" });
    await look(title);
  }
  await goTo(page, "Cache");
  for (const url of [one, listing]) {
    await explainPage(page, url);
    await look(`explained ${url}`);
  }
  expect(spilled).toEqual([]);
  // It did arrive, and is what an operator reads.
  expect(shown.get("stranger")).toContain(`<img/src=//${FOREIGN_HOST}/leak`);
  expect(shown.get("hostile")).toContain("<script>alert(2)</script>");
  expect(shown.get("Overview")).toContain("<script>alert(2)</script>");
  expect(shown.get(`explained ${listing}`)).toContain("<img/src=");
});

/** A page of another origin, as somebody wrote it who knows this listener. */
async function startAttacker(): Promise<string> {
  const server = createServer((_request, response) => {
    response.setHeader("content-type", "text/html");
    response.end("<!doctype html><title>cats</title><iframe name=there></iframe>");
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  scene.defer(async () => server.close());
  return String((server.address() as AddressInfo).port);
}

const READS = ["status", "config", "audit", "requests", "history", "clients", "session", "explain?path=/"];
const ACTIONS: readonly (readonly [string, object])[] = [
  ["purge", {}],
  ["nodes", { upstream: "amulet", node: 0, state: "cordoned", force: true }],
  ["upstreams", { upstream: "amulet", mode: "cache-only" }],
  ["session", { token: TOKEN }],
];

/** All that a page can try against `target`; resolves with what it could read, and rejects if it could try nothing. */
function attack(target: string): string {
  return `(async () => {
    const read = [], target = ${JSON.stringify(target)};
    const attempt = async (what, run) => { const got = await run().catch(() => ""); if (got) read.push([what, got]); };
    const reads = ${JSON.stringify(READS)}, actions = ${JSON.stringify(ACTIONS)};
    for (const mode of ["cors", "no-cors"]) {
      for (const path of reads) {
        await attempt(mode + " GET " + path, async () => (await fetch(target + "/" + path, { mode, credentials: "include" })).text());
      }
      for (const [path, body] of actions) for (const method of ["POST", "DELETE"]) {
        const options = { method, mode, credentials: "include", body: JSON.stringify(body) };
        await attempt(mode + " " + method + " text " + path, async () => (await fetch(target + "/" + path, options)).text());
        const headers = { "content-type": "application/json", "x-registry-gateway-console": "1" };
        await attempt(mode + " " + method + " json " + path, async () => (await fetch(target + "/" + path, { ...options, headers })).text());
      }
    }
    for (const [path, body] of actions) {
      const form = document.createElement("form");
      Object.assign(form, { method: "POST", enctype: "text/plain", action: target + "/" + path, target: "there" });
      const text = JSON.stringify(body);
      const input = document.createElement("input");
      // name=value is the JSON, with the = inside a text.
      Object.assign(input, { name: text.slice(0, -1) + (text === "{}" ? "" : ",") + '"x":"', value: '"}' });
      form.append(input); document.body.append(form); form.submit();
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    const load = (tag, set) => new Promise((resolve) => {
      const element = document.createElement(tag);
      element.onload = () => resolve(tag === "iframe" ? (() => { try { return element.contentDocument?.body?.innerText } catch { return "" } })() : "loaded");
      element.onerror = () => resolve("");
      setTimeout(() => resolve(""), 2000);
      Object.assign(element, set); document.body.append(element);
    });
    for (const path of ["console/", ...reads]) await attempt("iframe " + path, () => load("iframe", { src: target + "/" + path }));
    for (const path of ["console/icon.svg", "status"]) await attempt("img " + path, () => load("img", { src: target + "/" + path }));
    for (const path of ["status", "config"]) await attempt("script " + path, () => load("script", { src: target + "/" + path }));
    return read;
  })()`;
}

/** The statuses that the gateway gave to what `page` sent it. */
function statusesOf(page: Page, origin: string): Map<string, number> {
  const statuses = new Map<string, number>();
  page.on("response", (response) => {
    if (!response.url().startsWith(origin)) return;
    const { pathname } = new URL(response.url());
    statuses.set(`${response.request().method()} ${pathname} ${response.request().resourceType()}`, response.status());
  });
  return statuses;
}

async function startTarget(keys: Record<string, unknown>) {
  const registry = await scene.registry();
  const gateway = await scene.gateway({
    ...keys,
    cache: { ttl: { instruments: "10m" } },
    upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }],
  });
  const ask = async (path: string) =>
    (await (
      await fetch(`${gateway.operations}/${path}`, { headers: { authorization: `Bearer ${TOKEN}` } })
    ).json()) as {
      readonly actions: unknown;
      readonly inForce: unknown;
    };
  await (await fetch(`${gateway.url}/registry/metadata/v1/instruments`)).text();
  /** Neither purged nor changed: what was cached is a hit, and the audit is empty. */
  const expectUntouched = async () => {
    const again = await fetch(`${gateway.url}/registry/metadata/v1/instruments`);
    await again.text();
    expect(again.headers.get("cache-status")).toContain("hit");
    expect([(await ask("audit")).actions, (await ask("status")).inForce]).toEqual([[], []]);
  };
  return { gateway, expectUntouched };
}

test.each(["127.0.0.1", FOREIGN_HOST])(
  "a page at another port of %s reads nothing and does nothing, with the session of an operator in the same browser",
  async (host) => {
    const { gateway, expectUntouched } = await startTarget({ operations: { token: TOKEN } });
    const port = await startAttacker();
    const operator = await scene.open(gateway, { token: TOKEN });
    await operator.getByText("The registry is well.").waitFor();
    const page = await scene.foreign(`http://${host}:${port}/`, operator);
    const statuses = statusesOf(page, gateway.operations);
    expect(await page.evaluate(attack(gateway.operations))).toEqual([]);
    expect([...statuses].filter(([, status]) => status !== 403)).toEqual([]);
    expect([...statuses.keys()].filter((what) => what.startsWith("POST ")).length).toBeGreaterThanOrEqual(4);
    expect(statuses.size).toBeGreaterThan(15);
    await expectUntouched();
    // The operator's own session is as it was.
    await operator.reload();
    await operator.getByText("The registry is well.").waitFor();
  },
);

test("nor does one while there is no token at all", async () => {
  const { gateway, expectUntouched } = await startTarget({});
  const page = await scene.foreign(`http://127.0.0.1:${await startAttacker()}/`);
  const statuses = statusesOf(page, gateway.operations);
  expect(await page.evaluate(attack(gateway.operations))).toEqual([]);
  expect([...statuses.keys()].filter((what) => what.startsWith("POST ")).length).toBeGreaterThanOrEqual(4);
  await expectUntouched();
});

test("after DNS rebinding a page reaches the listener by its own name, and gets 421 alone", async () => {
  const { gateway, expectUntouched } = await startTarget({});
  const origin = `http://${FOREIGN_HOST}:${new URL(gateway.operations).port}`;
  const page = await scene.foreign("about:blank");
  // The page itself comes from elsewhere, then its name leads to 127.0.0.1: the same origin, as far as the browser knows.
  await page.route(`${origin}/cats`, (route) =>
    route.fulfill({ contentType: "text/html", body: "<!doctype html><p>cats" }),
  );
  await page.goto(`${origin}/cats`);
  const answers = new Map<string, number>();
  page.on("response", (response) =>
    answers.set(`${response.request().method()} ${new URL(response.url()).pathname}`, response.status()),
  );
  for (const path of [...READS, "console/", "cache"]) {
    const text = await page.evaluate<string>(`fetch("/${path}").then((answer) => answer.text())`);
    expect(text).toMatch(/^\{"error":"registry-gateway: this listener does not answer to the host/);
  }
  for (const [path, body] of ACTIONS) {
    const headers = { "content-type": "application/json", "x-registry-gateway-console": "1" };
    const options = JSON.stringify({ method: "POST", headers, body: JSON.stringify(body) });
    await page.evaluate(`fetch("/${path}", ${options}).then((answer) => answer.text())`);
  }
  await until(async () => answers.size >= READS.length + 2 + ACTIONS.length);
  expect(new Set(answers.values())).toEqual(new Set([421]));
  await expectUntouched();
});
