import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { credentialsUrl, readCredentials } from "../../src/discovery/credentials.ts";
import { testConfig } from "../support/gateway.ts";
import { partyOf, usePublishers, useSearches } from "../support/discovery.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";

const startRegistry = useSampleRegistries();
const startScan = usePublishers();
const search = useSearches();
const folder = useTemporaryFolder();

const ONE = partyOf("one");
const KEY = "cip-56/asset-registry-urls";
const NOW = Date.parse("2026-11-24T00:00:00Z");
const DAY = 86_400_000;

const at = (days: number): string => new Date(NOW + days * DAY).toISOString();

/** A record as a scan holds it; with other claims, or by somebody else. */
function record(
  urls: string,
  { values = { [KEY]: urls }, claims = {}, ...other }: Record<string, unknown> = {},
): object {
  return {
    admin: partyOf("dso"),
    issuer: ONE,
    holder: ONE,
    claims: { values, validFrom: null, validUntil: null, ...(claims as object) },
    createdAt: at(-1),
    expiresAt: at(89),
    ...other,
  };
}

const ok = (...credentials: object[]) => ({ status: 200, text: JSON.stringify({ credentials }) });
const A = "https://a.example/registry/";

describe("records of a party about itself", () => {
  test.each<[string, object[], string[]]>([
    ["one", [record(A)], ["https://a.example"]],
    [
      "several URLs, in any order",
      [record(" https://b.example, https://a.example ,")],
      ["https://a.example", "https://b.example"],
    ],
    ["a claim that names its subject", [record("", { values: { [`${KEY}!${ONE}`]: A } })], ["https://a.example"]],
    ["none", [], []],
    ["no such claim", [record("", { values: { "cip-1/displayName": "One" } })], []],
    ["a claim about another party", [record("", { values: { [`${KEY}!${partyOf("two")}`]: A } })], []],
    ["another issuer", [record(A, { issuer: partyOf("two") })], []],
    ["another holder", [record(A, { holder: partyOf("two") })], []],
    ["one that has expired", [record(A, { expiresAt: at(0) })], []],
    ["one that is not valid any more", [record(A, { claims: { validUntil: at(-1) } })], []],
    ["one that is not valid yet", [record(A, { claims: { validFrom: at(1) } })], []],
    ["one of 90 days ago that nobody renewed", [record(A, { createdAt: at(-90), expiresAt: null })], []],
    ["one from the future", [record(A, { createdAt: at(1) })], []],
    ["a time that cannot be read", [record(A, { expiresAt: "soon" })], []],
    [
      "an older one beside it",
      [record("https://old.example", { createdAt: at(-2) }), record(A)],
      ["https://a.example"],
    ],
    [
      "a newer one that has expired",
      [record("https://new.example", { createdAt: at(0), expiresAt: at(0) }), record(A)],
      ["https://a.example"],
    ],
    ["the same twice", [record(A), record(A)], ["https://a.example"]],
    ["what is no record", [7 as unknown as object, { issuer: ONE, holder: ONE }, record(A)], ["https://a.example"]],
  ])("%s", (_about, credentials, urls) => {
    expect(readCredentials(ok(...credentials), ONE, NOW)).toEqual(urls);
  });

  test.each<[string, { status: number; text: string }, RegExp]>([
    ["an error", { status: 404, text: '{"error":"no such path"}' }, /answered 404/],
    ["something else", { status: 200, text: "[]" }, /no credentials/],
    ["no JSON", { status: 200, text: "<html>" }, /no credentials/],
    ["pages", { status: 200, text: JSON.stringify({ credentials: [], nextPageToken: "x" }) }, /in pages/],
    ["two that differ", ok(record(A), record("https://b.example")), /records of the same moment that differ/],
    ["a URL that is none", ok(record("ftp://a.example")), /registry URL that must begin with http/],
  ])("are not taken from %s", (_about, answer, fault) => {
    expect(() => readCredentials(answer, ONE, NOW)).toThrow(fault);
  });

  test("are asked for by holder, issuer and key", () => {
    expect(credentialsUrl("https://scan.example", "a::b::1220")).toBe(
      "https://scan.example/credential-registry/v1/credentials?holder=a%3A%3Ab%3A%3A1220&issuer=a%3A%3Ab%3A%3A1220&keyPrefix=cip-56%2Fasset-registry-urls",
    );
  });
});

test("of three scans two have to agree, and one that lies misleads nobody", async () => {
  const [registry, attacker] = await Promise.all([startRegistry({ admin: ONE }), startRegistry({ admin: ONE })]);
  const answerOf = (url: string) => {
    const times = { createdAt: new Date(Date.now() - DAY).toISOString(), expiresAt: null };
    return JSON.stringify({ credentials: [record(`${url}/registry/`, times)] });
  };
  const scans = await Promise.all([1, 2, 3].map(() => startScan(answerOf(registry.url))));
  const found = await search({
    sources: [{ credentials: scans.map(({ url }) => url), admins: [ONE], agree: 2 }],
    pinFile: join(folder(), "pins.json"),
  });
  await found.search.run();
  scans[1]!.publish(answerOf(attacker.url));
  await found.search.run();
  expect([found.used(), found.state(ONE)]).toEqual([{ [ONE]: [registry.url] }, "pinned"]);
  for (const scan of scans.slice(1)) scan.publish(answerOf(attacker.url));
  await found.search.run();
  expect([found.used(), found.state(ONE)]).toEqual([{ [ONE]: [registry.url] }, "waiting"]);
});

const SCAN = "https://scan.example";

test.each<[object, string]>([
  [{ credentials: [SCAN] }, "credentials needs admins"],
  [{ credentials: [SCAN, SCAN], admins: [ONE] }, "the same scan is given at discovery.sources[0].credentials[0]"],
  [{ credentials: [SCAN], admins: [ONE], agree: 2 }, "number of scans (1)"],
  [{ credentials: [SCAN], cns: [SCAN], admins: [ONE] }, "credentials"],
  [{ credentials: [SCAN], admins: [ONE], network: "MainNet" }, "goes with url and file"],
  [{ credentials: ["http://scan.example"], admins: [ONE] }, "must begin with https://"],
  [{ url: "https://list.example/", admins: [ONE] }, "goes with cns and credentials"],
])("%j is refused by check", (source, why) => {
  expect(() => testConfig({ discovery: { sources: [source] } })).toThrow(why);
});
