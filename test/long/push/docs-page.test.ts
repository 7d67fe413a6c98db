import { expect, test } from "vitest";
import { useConsoleScene } from "../../support/console-scene.ts";
import { DSO } from "../../support/sample.ts";

const scene = useConsoleScene();

/** What is wider than the window, but for boxes that scroll by themselves. */
const SPILLS = `document.documentElement.scrollWidth - document.documentElement.clientWidth`;

test.each([360, 1280])("at %i px, /docs names admins to copy, searches, and tries a request", async (width) => {
  const registry = await scene.registry();
  const gateway = await scene.gateway({ upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }] });
  const page = await scene.visit(`${gateway.url}/docs`, { viewport: { width, height: 800 } });

  await page.getByRole("button", { name: `Copy ${DSO}` }).click();
  expect(await page.evaluate<string>("navigator.clipboard.readText()")).toBe(DSO);
  await page.getByRole("button", { name: "Copy /api/" }).click();
  expect(await page.evaluate<string>("navigator.clipboard.readText()")).toBe(
    `${gateway.url}/api/token-standard/v0/registrars/amulet`,
  );

  const shown = page.locator(".opblock");
  await shown.first().waitFor();
  const all = await shown.count();
  expect(all).toBeGreaterThan(20);
  await page.getByPlaceholder(/filter/i).fill("settlement factory");
  await expect.poll(() => shown.count()).toBe(1);
  await page.getByPlaceholder(/filter/i).fill("");
  await expect.poll(() => shown.count()).toBe(all);

  const info = page.locator("#operations-token_metadata-info");
  await info.getByRole("button").first().click();
  await info.getByRole("button", { name: "Execute" }).click();
  await info.locator(".live-responses-table .response-col_status", { hasText: "200" }).waitFor();
  expect(await info.locator(".live-responses-table").innerText()).toContain(DSO);
  expect(await page.evaluate<number>(SPILLS)).toBe(0);
});

// Swagger UI encodes each slash of a parameter in a path, and the registry was asked for one segment.
test("/docs sends a path that is passed through with its slashes, and an instrument's encoded", async () => {
  const registry = await scene.registry();
  const gateway = await scene.gateway({ upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }] });
  const page = await scene.visit(`${gateway.url}/docs`);
  const asked: string[] = [];
  page.on("request", (request) => asked.push(request.url().slice(gateway.url.length)));
  for (const [id, name, value] of [
    ["other_paths-pass_through", "path", "drafts/v1/a b"],
    ["token_metadata-instrument", "instrumentId", "Amulet/USD"],
  ] as const) {
    const operation = page.locator(`#operations-${id}`);
    await operation.getByRole("button").first().click();
    await operation.getByPlaceholder(name).fill(value);
    await operation.getByRole("button", { name: "Execute" }).click();
    await operation.locator(".live-responses-table .response-col_status", { hasText: "200" }).waitFor();
  }
  expect(asked).toEqual(
    expect.arrayContaining(["/registry/drafts/v1/a%20b", "/registry/metadata/v1/instruments/Amulet%2FUSD"]),
  );
});

test("the viewer comes compressed, below 500 kB in all", async () => {
  const registry = await scene.registry();
  const gateway = await scene.gateway({ upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }] });
  let bytes = 0;
  for (const name of ["viewer.js", "viewer.css"]) {
    const answer = await fetch(`${gateway.url}/docs/${name}`, { headers: { "accept-encoding": "gzip" } });
    expect([answer.status, answer.headers.get("content-encoding")]).toEqual([200, "gzip"]);
    bytes += Number(answer.headers.get("content-length"));
    const { status } = await fetch(`${gateway.url}/docs/${name}`, {
      headers: { "accept-encoding": "gzip", "if-none-match": answer.headers.get("etag")! },
    });
    expect(status).toBe(304);
    const plain = await fetch(`${gateway.url}/docs/${name}`, { headers: { "accept-encoding": "identity" } });
    expect(plain.headers.get("content-encoding")).toBeNull();
    expect(await plain.text()).toBe(await answer.text());
  }
  expect(bytes).toBeLessThan(500_000);
});
