import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createServer as createTlsServer } from "node:https";
import { describe, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { inspectRegistry } from "../../src/commands/inspect/inspect.ts";
import type { Finding } from "../../src/commands/inspect/finding.ts";
import { runHere } from "../support/command.ts";
import { SampleRegistry, type SampleRegistryOptions } from "../support/sample-registry.ts";

const ADMIN = `DSO::1220${"13f1b3a8".repeat(8)}`;
const LIST = "/registry/metadata/v1/instruments";
const STYLES = ["splice", "utility"] as const;

async function startRegistry(options: Partial<SampleRegistryOptions> = {}): Promise<SampleRegistry> {
  const registry = new SampleRegistry({
    admin: ADMIN,
    clock: systemClock(),
    allowsBrowsers: true,
    etags: true,
    ...options,
  });
  await registry.start();
  onTestFinished(() => registry.stop());
  return registry;
}

async function inspected(registry: SampleRegistry): Promise<readonly string[]> {
  return (await inspectRegistry(new URL(registry.url), systemClock())).map(lineOf);
}

function lineOf({ severity, about, text }: Finding): string {
  return `${severity} ${about}: ${text}`;
}

test("of a registry without fault nothing is worse than a note, in fewer than 50 requests", async () => {
  for (const style of STYLES) {
    const registry = await startRegistry({ style });
    const lines = await inspected(registry);
    expect(lines.filter((line) => /^(warning|error)/.test(line))).toEqual([]);
    expect(lines).toEqual(
      expect.arrayContaining([
        `good admin: ${ADMIN}`,
        "good pagination: 60 instruments in 3 pages",
        "good CORS: pages of any origin may call it",
        "good freshness: the listing answers 304 to its own tag",
        'good errors: errors are JSON, {"error": text}',
      ]),
    );
    expect(registry.calls.total).toBeLessThan(50);
  }
});

// They were said to break the standard: only the transfer factory of version 1 was asked.
test.each([
  [
    "version 2 alone",
    /\/v1\/(?:.*-factory|00\/)/,
    ["transfer-instruction", "allocation-instruction", "allocation"],
    "call",
  ],
  ["no calls", /-factory|\/00\//, [], "read"],
])("a registry that has %s, and names nothing else, is good", async (_what, missing, groups, may) => {
  const registry = await startRegistry();
  const names = ["metadata-v1", ...groups.map((group) => `${group}-v2`)];
  const supportedApis = Object.fromEntries(names.map((name) => [`splice-api-token-${name}`, 1]));
  registry.script(({ url }) =>
    missing.test(url)
      ? json({ error: "no such path" }, { status: 404 })
      : url.endsWith("/info")
        ? json({ adminId: ADMIN, supportedApis })
        : undefined,
  );
  const lines = await inspected(registry);
  expect(lines.filter((line) => /^(warning|error)/.test(line))).toEqual([]);
  expect(lines).toContain(`good CORS: pages of any origin may ${may} it`);
});

test.each(["a::b::1220", "Registry-1 of_x::1220"])("%s and 64 hex digits is a party id", async (start) => {
  const lines = await inspected(await startRegistry({ admin: `${start}${"0a".repeat(32)}` }));
  expect(lines.filter((line) => line.startsWith("warning"))).toEqual([]);
});

const json = (body: unknown, { status = 200, type = "application/json", field = "x-other" } = {}) => ({
  status,
  headers: ["content-type", type, field, "9"],
  body: JSON.stringify(body),
});
const bond = (id: string, other = {}) => ({ id, name: id, symbol: "B", decimals: 2, supportedApis: {}, ...other });

type Scripted = ReturnType<typeof json> | undefined;

/** What is planted, and what is found. */
describe.each(STYLES)("in a registry of the style %s", (style) => {
  test.each<[string, Partial<SampleRegistryOptions>, string]>([
    [
      "no pages of other origins",
      { allowsBrowsers: false },
      "warning CORS: pages of other origins cannot read its answers",
    ],
    [
      "no tags",
      { etags: false },
      "note freshness: the info has no ETag and no Last-Modified: each refresh reads all of it",
    ],
    ["a lifetime", { cacheHeaders: () => ({ "cache-control": "max-age=60" }) }, "note freshness: the info: max-age=60"],
    [
      "web pages for 404s",
      { unknownPaths: "html" },
      'note errors: a path that there is not is 404, text/html, without {"error": text}',
    ],
    ["sizes that are ignored", { paging: "ignored" }, "warning pagination: pageSize=1 is ignored: 60 come"],
    [
      "sizes that are refused",
      { maxPageSize: { limit: 100, beyond: "400" } },
      "warning pagination: pageSize=1000 is 400, application/json: a client that asks for it reads nothing",
    ],
    [
      "an admin that is no party",
      { admin: "somebody" },
      "warning admin: the admin is no party id (name::1220 and 64 hex digits): wallets compare it with the ledger's",
    ],
  ])("%s", async (_what, options, line) => {
    expect(await inspected(await startRegistry({ style, ...options }))).toContain(line);
  });

  test.each<[string, (url: string) => Scripted, string]>([
    [
      "capabilities whose number is not 1",
      (url) =>
        url.endsWith("/info")
          ? json({ adminId: ADMIN, supportedApis: { "splice-api-token-metadata-v1": 2 } })
          : undefined,
      "warning versions: splice-api-token-metadata-v1 is 2: the official client counts a capability only when its number is exactly 1",
    ],
    [
      "an API that is served and not named",
      (url) => (url.endsWith("/info") ? json({ adminId: ADMIN, supportedApis: {} }) : undefined),
      "warning versions: splice-api-token-allocation-v2 is served and not named: clients that look will not use it",
    ],
    [
      "an API that is named and not served",
      (url) => (url.endsWith("/v2/settlement-factory") ? json({}, { status: 404 }) : undefined),
      "error versions: splice-api-token-allocation-v2 is named, and /registry/allocation/v2/settlement-factory is 404",
    ],
    [
      "a token that comes back",
      (url) =>
        /instruments(\?pageToken.*)?$/.test(url)
          ? json({ instruments: [bond("a")], nextPageToken: "again" })
          : undefined,
      "error pagination: a page token comes back: a client that follows tokens never ends",
    ],
    [
      "an instrument on two pages",
      (url) =>
        url.endsWith("instruments")
          ? json({ instruments: [bond("a")], nextPageToken: "b" })
          : url.endsWith("pageToken=b")
            ? json({ instruments: [bond("a")] })
            : undefined,
      "error pagination: 1 instruments are on two pages",
    ],
    [
      "a listing that breaks the schema",
      (url) => (url.endsWith("instruments") ? json({ instruments: [{ id: "a" }] }) : undefined),
      "error pagination: this is no page of instruments: instruments.0: name, symbol, decimals, supportedApis is missing",
    ],
    [
      "an instrument that differs from its listing",
      (url) =>
        url.endsWith("instruments/x%2Fy")
          ? json(bond("x/y", { symbol: "C" }))
          : url.startsWith(LIST) && !url.includes("instruments/")
            ? json({ instruments: [bond("x/y")] })
            : undefined,
      'warning instruments: "x/y" differs from its listing: symbol',
    ],
    [
      "a type that is not JSON's",
      (url) =>
        url.endsWith("/info") ? json({ adminId: ADMIN, supportedApis: {} }, { type: "text/plain" }) : undefined,
      "error admin: the info is sent as text/plain",
    ],
    [
      "fields that say its limits",
      (url) =>
        url.endsWith("/info") ? json({ adminId: ADMIN, supportedApis: {} }, { field: "X-RateLimit-Limit" }) : undefined,
      "note rate limit: it says its limits in x-ratelimit-limit",
    ],
  ])("%s", async (_what, script, line) => {
    const registry = await startRegistry({ style });
    registry.script(({ url }) => script(url));
    expect(await inspected(registry)).toContain(line);
  });
});

test("a 429 is waited for, and told", async () => {
  const registry = await startRegistry();
  await registry.faults.set({ kind: "429", retryAfter: "0", times: 2, operations: ["instrument"] });
  const lines = await inspected(registry);
  expect(lines.some((line) => /^note rate limit: [12] of \d+ requests were 429, with Retry-After: 0$/.test(line))).toBe(
    true,
  );
});

test("what is no registry is said after its info, and asked nothing more", async () => {
  let asked = 0;
  const server = createServer((_request, response) => {
    asked += 1;
    response.writeHead(200, { "content-type": "text/html" }).end("<html>");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { code, stdout } = await runHere(["inspect", url]);
  expect([code, asked]).toEqual([1, 1]);
  expect(stdout).toMatch(/✗ admin +this is no info of a registry: the body must be object/);
});

test("one that nobody answers for, or that hangs up, is an error and no crash", async () => {
  const server = createTlsServer((_request, response) => response.destroy());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const broken = await runHere(["inspect", `https://127.0.0.1:${port}`, "--json"]);
  server.close();
  for (const url of ["http://127.0.0.1:1", `http://127.0.0.1:${port}`]) {
    const { code, stdout } = await runHere(["inspect", url, "--json"]);
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({ worst: "error" });
  }
  expect(JSON.parse(broken.stdout)).toMatchObject({ worst: "error" });
});

test("each finding names the line of the standard, or of an RFC, that it is held to", async () => {
  const registry = await startRegistry({
    unknownPaths: "html",
    allowsBrowsers: false,
    etags: false,
    admin: "somebody",
  });
  const findings = await inspectRegistry(new URL(registry.url), systemClock());
  const standard = /^(?:token-metadata-v1\.yaml: |RFC \d{4} ?|Fetch §)/;
  const others = findings.filter(({ source }) => !standard.test(source)).map(({ about }) => about);
  expect(others.filter((about) => about !== "latency")).toEqual([]);
});

test("the exit code says how bad it is, and the output names the line of the standard", async () => {
  const good = await runHere(["inspect", (await startRegistry()).url]);
  const warned = await runHere(["inspect", `${(await startRegistry({ allowsBrowsers: false })).url}/registry/`]);
  expect([good.code, warned.code]).toEqual([0, 2]);
  expect(warned.stdout).toContain("(Fetch §3.2");
  expect((await runHere(["inspect", "registry.example"])).code).toBe(1);
});
