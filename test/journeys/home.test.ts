import { describe, expect, test } from "vitest";
import { type Aggregate, get, useAggregates } from "../support/aggregate-registries.ts";

const { startAggregate, startRegistries, startBefore } = useAggregates();

const BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";

function home({ url }: Aggregate, accept?: string) {
  return get(`${url}/`, accept === undefined ? {} : { headers: { accept } });
}

describe("the page at /", () => {
  test.each([
    [BROWSER, "text/html; charset=utf-8"],
    ["*/*", "text/html; charset=utf-8"],
    ["text/*", "text/html; charset=utf-8"],
    ["application/json", "application/json"],
    ["Application/JSON; charset=utf-8", "application/json"],
    ["application/*, text/html;q=0.9", "application/json"],
    ["application/json;q=0.5, text/html", "text/html; charset=utf-8"],
    ["application/json;q=0.5, text/html;q=0.4", "application/json"],
    ["text/html;q=0, */*", "application/json"],
    ["application/json;q=0, */*;q=0.1", "text/html; charset=utf-8"],
    ["image/png", "text/html; charset=utf-8"],
    [", ;q=1, /, */json;;", "text/html; charset=utf-8"],
  ])("for Accept: %s is %s", async (accept, type) => {
    const { status, headers } = await home(await startAggregate({ amulet: {} }), accept);
    expect([status, headers.get("content-type")]).toEqual([200, type]);
    expect(headers.get("vary")).toMatch(/\baccept\b/i);
    expect(headers.get("x-content-type-options")).toBe("nosniff");
  });

  test("names the docs, the catalogue and each registry with its base path", async () => {
    const aggregate = await startAggregate({ amulet: {}, bonds: {} });
    expect((await home(aggregate, "application/json")).json).toEqual({
      name: "registry-gateway",
      docs: "/docs",
      openapi: "/openapi.json",
      catalog: {
        registries: "/catalog/v1/registries",
        instruments: "/catalog/v1/instruments",
        changes: "/catalog/v1/changes",
      },
      registries: ["amulet", "bonds"].map((name) => ({
        name,
        admin: `${name}::1220`,
        basePath: `/api/token-standard/v0/registrars/${name}`,
      })),
    });
    const { text } = await home(aggregate, BROWSER);
    const links = [...text.matchAll(/href="([^"]+)"/g)].map(([, href]) => href!);
    expect(links).toEqual([
      "/docs",
      "/openapi.json",
      "/catalog/v1/registries",
      "/catalog/v1/instruments",
      "/catalog/v1/changes?since=",
      "/api/token-standard/v0/registrars/amulet/registry/metadata/v1/info",
      "/api/token-standard/v0/registrars/bonds/registry/metadata/v1/info",
    ]);
    for (const href of links) expect((await get(aggregate.url + href)).status, href).toBe(200);
  });

  test("names only what is there", async () => {
    const registries = await startRegistries({ amulet: {}, hidden: {} });
    const upstreams = Object.entries(registries).map(([name, { admin, url }]) => {
      return { name, admin, urls: [url], enabled: name !== "hidden" };
    });
    const gateway = await startBefore(registries, { upstreams, docs: false });
    const { json } = await home(gateway, "application/json");
    expect(json).toEqual({
      name: "registry-gateway",
      registries: [{ name: "amulet", admin: "amulet::1220", basePath: "/api/token-standard/v0/registrars/amulet" }],
    });
    const { text } = await home(gateway);
    expect([text.includes("hidden"), text.includes("/docs"), text.includes("/catalog")]).toEqual([false, false, false]);
  });

  test("loads and runs nothing, and is not sent again to who has it", async () => {
    const aggregate = await startAggregate({ amulet: {}, bonds: {} });
    const { headers, text } = await home(aggregate);
    expect(headers.get("content-security-policy")).toMatch(
      /^default-src 'none'; style-src 'sha256-[^']+'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'$/,
    );
    expect(text).not.toMatch(/<script|src=|https?:|@import|url\(/);
    const etag = headers.get("etag")!;
    const again = await get(`${aggregate.url}/`, { headers: { "if-none-match": etag } });
    expect([again.status, again.text]).toEqual([304, ""]);
    const head = await fetch(`${aggregate.url}/`, { method: "HEAD" });
    expect([head.status, head.headers.get("content-length")]).toEqual([200, String(Buffer.byteLength(text))]);
  });
});

describe("an alias that is no alias", () => {
  test.each([
    ["amulte", "amulet"],
    ["Amulet", "amulet"],
    ["ammulet", "amulet"],
    ["bond", "bonds"],
  ])("%s: %s was meant, says the 404", async (alias, meant) => {
    const gateway = await startAggregate({ amulet: {}, bonds: {} });
    const inPath = await get(`${gateway.registrar(alias)}/registry/metadata/v1/info`);
    const inHeader = await get(`${gateway.url}/registry/metadata/v1/info`, {
      headers: { "x-instrument-admin": alias },
    });
    for (const { status, json } of [inPath, inHeader]) {
      expect([status, json.error]).toEqual([404, expect.stringMatching(new RegExp(`; did you mean "${meant}"\\?$`))]);
    }
  });

  test.each(["dollar", "", "amulet::1220aa", "amulet::1221", "hidden", "hiddn", "x".repeat(4_000), "<script>"])(
    "%j: nothing near is named, nor what is not enabled",
    async (alias) => {
      const registries = await startRegistries({ amulet: {}, hidden: {} });
      const upstreams = Object.entries(registries).map(([name, { admin, url }]) => {
        return { name, admin, urls: [url], enabled: name !== "hidden" };
      });
      const gateway = await startBefore(registries, { upstreams });
      const { status, text } = await get(`${gateway.registrar(alias)}/registry/metadata/v1/info`);
      expect([status, text.includes("did you mean"), text.includes("amulet?")]).toEqual([
        alias === "" ? 400 : 404,
        false,
        false,
      ]);
    },
  );
});
