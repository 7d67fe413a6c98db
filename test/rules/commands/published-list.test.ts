import { expect, it, test } from "vitest";
import { parse } from "yaml";
import { AssetListError, readAssetList } from "../../../src/commands/asset-list.ts";
import { writeUpstreams } from "../../../src/commands/import.ts";
import { nameFor } from "../../../src/commands/names.ts";

const DSO = `DSO::1220${"ab".repeat(32)}`;
const ISSUER = `basket-issuer::1220${"cd".repeat(32)}`;

function asset(admin: unknown, ...registryURLs: unknown[]): object {
  return { instrumentId: { admin, id: "Amulet" }, symbol: "CC", registryURLs, linkToDAR: "https://docs.example" };
}

function read(networks: object, only?: string) {
  return readAssetList(JSON.stringify(networks), only);
}

test("instruments of one admin are of one registry, with all their URLs in normal form", () => {
  const url = `https://utilities.example/api/token-standard/v0/registrars/${ISSUER}`;
  const list = read({
    MainNet: [
      asset(DSO, "https://a.example/registry/", "https://b.example"),
      asset(ISSUER, `${url}/registry/`),
      asset(ISSUER, `${url}/registry`),
      asset(DSO, "https://a.example", "https://c.example/api/"),
    ],
    DevNet: [],
  });
  expect(list).toEqual({
    registries: [
      {
        network: "MainNet",
        admin: DSO,
        urls: ["https://a.example", "https://b.example", "https://c.example/api"],
      },
      { network: "MainNet", admin: ISSUER, urls: [url] },
    ],
    problems: [],
  });
});

test("one network may be chosen", () => {
  const networks = { MainNet: [asset(DSO, "https://a.example")], TestNet: [asset(DSO, "https://t.example")] };
  expect(read(networks, "TestNet").registries.map(({ urls }) => urls)).toEqual([["https://t.example"]]);
  expect(read(networks).registries).toHaveLength(2);
});

it.each<[what: string, entry: unknown, problem: RegExp]>([
  ["no object", 7, /is no object/],
  ["no admin", { registryURLs: ["https://a.example"] }, /names no party/],
  ["an admin that is no party", asset("DSO", "https://a.example"), /names no party/],
  ["no URL", asset(DSO), /names no URL/],
  ["a URL that is none", asset(DSO, "registry"), /is not a URL/],
  ["a URL with a login", asset(DSO, "https://u:p@a.example"), /no user/],
  ["a URL of the standard's", asset(DSO, "https://a.example/registry/metadata/v1/info"), /path of the standard/],
  ["what acts on a terminal", asset(DSO, "\u001b[2J"), /\\u001b\[2J/],
])("an entry with %s is left out and named", (_what, entry, problem) => {
  const list = read({ MainNet: [entry] });
  expect(list.registries).toEqual([]);
  expect(list.problems).toEqual([expect.stringMatching(problem)]);
  expect(list.problems[0]).toMatch(/^"MainNet", entry 0: /);
});

test("a good URL beside a bad one is taken", () => {
  const { registries, problems } = read({ MainNet: [asset(DSO, "ftp://a.example", "https://b.example")] });
  expect([registries[0]?.urls, problems.length]).toEqual([["https://b.example"], 1]);
});

it.each([
  ["{", undefined, /is no JSON/],
  ["<html></html>", undefined, /is a web page/],
  ["[]", undefined, /is no list of registries/],
  ['{"a":1}', undefined, /is no list of registries/],
  ['{"MainNet":[]}', "TestNet", /has no network "TestNet": it has "MainNet"/],
])("%s is no list", (text, only, message) => {
  expect(() => readAssetList(text, only)).toThrow(AssetListError);
  expect(() => readAssetList(text, only)).toThrow(message);
});

test("the upstreams of a list are a configuration, with what does not fit as comments", () => {
  const written = writeUpstreams([
    { network: "MainNet", admin: DSO, urls: ["https://a.example"], left: ["https://b.example is\nof another"] },
    { network: "MainNet", admin: ISSUER, urls: [], left: ["https://c.example does not answer"] },
    { network: "TestNet", admin: `${DSO.slice(0, 9)}${DSO.slice(9).toUpperCase()}`, urls: ["https://t.example"] },
    { network: "TestNet", admin: "a${HOME}::1220", urls: ["https://${HOST}.example"] },
  ]);
  expect(parse(written)).toEqual({
    upstreams: [
      { name: "dso", admin: DSO, urls: ["https://a.example"] },
      { name: "a-home", admin: "a$${HOME}::1220", urls: ["https://$${HOST}.example"] },
    ],
  });
  const comments = written.split("\n").filter((line) => line.startsWith("  #"));
  expect(comments).toEqual([
    '  # network "MainNet"',
    "  # left out: https://b.example is\\u000aof another",
    '  # network "MainNet"',
    "  # left out: https://c.example does not answer",
    `  # left out: ${ISSUER}: none of its URLs fits`,
    '  # network "TestNet"',
    expect.stringContaining('it is the same admin as on "MainNet"'),
    '  # network "TestNet"',
  ]);
});

test("a list of which nothing fits is a configuration without upstreams", () => {
  expect(parse(writeUpstreams([{ network: "MainNet", admin: DSO, urls: [] }]))).toEqual({ upstreams: [] });
});

it.each([
  ["DSO::1220ab", [], "dso"],
  ["scan.sv-1.example", [], "scan.sv-1.example"],
  ["DSO::1220ab", ["dso", "dso-2"], "dso-3"],
  ["代币::1220", [], "registry"],
  ["--Über issuer--::1220", [], "ber-issuer"],
  ["off", [], "off-2"],
  ["x".repeat(99), [], "x".repeat(60)],
])("the registry of %s, with %j taken, is named %s", (hint, taken, name) => {
  expect(nameFor(hint, new Set(taken))).toBe(name);
});
