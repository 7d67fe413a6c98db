import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { agreeOn, entryUrl, readEntry } from "../../src/discovery/name-service.ts";
import { partyOf, usePublishers, useSearches } from "../support/discovery.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";

const startRegistry = useSampleRegistries();
const startScan = usePublishers();
const search = useSearches();
const folder = useTemporaryFolder();

const ONE = partyOf("one");
const KEY = "splice.lfdecentralizedtrust.org/registryUrls";

/** A name-service entry as a scan answers it. */
function entryOf(urls: string, key = KEY): string {
  const description = JSON.stringify({ meta: { [key]: urls } });
  const entry = { contract_id: "00ab", user: ONE, name: "one.unverified.cns", url: "https://one.example", description };
  return JSON.stringify({ entry });
}

describe("an entry", () => {
  const ok = (text: string) => ({ status: 200, text });

  test.each([
    ["with one URL", entryOf("https://a.example/registry/"), ["https://a.example"]],
    [
      "with several, in any order",
      entryOf(" https://b.example, https://a.example ,"),
      ["https://a.example", "https://b.example"],
    ],
    [
      "with the other spelling",
      entryOf("https://a.example", KEY.replace("registryUrls", "registry-urls")),
      ["https://a.example"],
    ],
    ["with a description that is text", JSON.stringify({ entry: { description: "Hello" } }), []],
    ["with a description of something else", JSON.stringify({ entry: { description: '{"meta":7}' } }), []],
    ["without a description", JSON.stringify({ entry: { name: "one" } }), []],
  ])("%s names the registry's URLs", (_about, text, urls) => {
    expect(readEntry(ok(text))).toEqual(urls);
  });

  test("that is not there names none", () => {
    expect(readEntry({ status: 404, text: '{"error":"No ans entry found"}' })).toEqual([]);
  });

  test.each([
    ["a web page with 404", { status: 404, text: "<html>" }, /answered 404/],
    ["an error", { status: 503, text: "{}" }, /answered 503/],
    ["something else", ok("[]"), /no name-service entry/],
    ["a URL that is none", ok(entryOf("ftp://a.example")), /registry URL that must begin with http/],
    ["a URL that is too long to be pinned", ok(entryOf(`https://a.example/${"x".repeat(2_048)}`)), /longer than 2048/],
    [
      "one that is too long once it is escaped",
      ok(entryOf(`https://a.example/${"ü".repeat(400)}`)),
      /longer than 2048/,
    ],
  ])("is not taken from %s", (_about, answer, fault) => {
    expect(() => readEntry(answer)).toThrow(fault);
  });

  test("is asked for with the party in one segment", () => {
    expect(entryUrl("https://scan.example/api/scan", "a::1220")).toBe(
      "https://scan.example/api/scan/v0/ans-entries/by-party/a%3A%3A1220",
    );
  });
});

test.each([
  [2, [["a"], ["a"], ["b"]], { urls: ["a"] }],
  [2, [["a"], ["b"], ["b"]], { urls: ["b"] }],
  [2, [["a"], ["a"], undefined], { urls: ["a"] }],
  [2, [[], [], ["b"]], { urls: [] }],
  [3, [["a"], ["a"], ["b"]], { problem: "3 of 3 scans have to say the same, and they say 2 things (2 and 1)" }],
  [1, [["a"], ["b"]], { problem: "1 of 2 scans have to say the same, and they say 2 things (1 and 1)" }],
  [
    2,
    [undefined, undefined, ["a"]],
    { problem: expect.stringContaining("they say 1 things (1), and 2 did not answer") },
  ],
  [1, [undefined], { problem: "1 of 1 scans have to say the same, and none of them answered" }],
] as const)("of scans, %d agree where so many say the same: %j", (agree, answers, expected) => {
  expect(agreeOn(answers, agree)).toEqual(expected);
});

describe("three scans of which two have to agree", () => {
  async function scene() {
    const [registry, attacker] = await Promise.all([startRegistry({ admin: ONE }), startRegistry({ admin: ONE })]);
    const scans = await Promise.all([1, 2, 3].map(() => startScan(entryOf(`${registry.url}/registry/`))));
    const found = await search({
      sources: [{ cns: scans.map(({ url }) => url), admins: [ONE], agree: 2 }],
      pinFile: join(folder(), "pins.json"),
    });
    return { registry, attacker, scans, ...found };
  }

  test("are not misled by one that lies, or is away", async () => {
    const { registry, attacker, scans, used, state, ...found } = await scene();
    scans[1]!.publish(entryOf(attacker.url));
    await found.search.run();
    expect(used()).toEqual({ [ONE]: [registry.url] });
    scans[1]!.publish((response) => void response.writeHead(502).end("<html>"));
    await found.search.run();
    expect([used(), state(ONE), found.search.report().sources[0]!.lastError]).toEqual([
      { [ONE]: [registry.url] },
      "pinned",
      null,
    ]);
  });

  test("of which two lie have their word wait for approval, and never used by itself", async () => {
    const { registry, attacker, scans, used, state, ...found } = await scene();
    await found.search.run();
    for (const scan of scans.slice(1)) scan.publish(entryOf(attacker.url));
    await found.search.run();
    expect([used(), state(ONE)]).toEqual([{ [ONE]: [registry.url] }, "waiting"]);
  });

  test("that all say something else keep what was said before, and a fault tells it", async () => {
    const { registry, scans, used, state, ...found } = await scene();
    await found.search.run();
    for (const [index, scan] of scans.entries()) scan.publish(entryOf(`https://registry-${index}.example`));
    await found.search.run();
    expect([used(), state(ONE)]).toEqual([{ [ONE]: [registry.url] }, "pinned"]);
    expect(found.search.report().sources[0]!.lastError).toContain("2 of 3 scans have to say the same");
  });

  test("that no longer have the entry leave the registry in use, marked", async () => {
    const { registry, scans, used, state, ...found } = await scene();
    await found.search.run();
    for (const scan of scans) scan.publish((response) => void response.writeHead(404).end('{"error":"none"}'));
    await found.search.run();
    expect([used(), state(ONE)]).toEqual([{ [ONE]: [registry.url] }, "gone"]);
  });
});
