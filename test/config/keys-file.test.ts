import * as fc from "fast-check";
import { truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import { createKey } from "../../src/clients/api-key.ts";
import { loadConfig, parseConfig } from "../../src/config/parse.ts";
import { checkKeysFile, parseKeys, readKeysFile } from "../../src/config/keys-file.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";
import { runs } from "../support/thorough.ts";

const folder = useTemporaryFolder();
const hex = (digit: string) => digit.repeat(64);
const D = `digest: "sha256:${hex("a")}"`;
const E = `digest: "sha256:${hex("b")}"`;
const KEY = "rgk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA_00000000";

function problemsOf(yaml: string, tiers?: readonly string[]): string[] {
  const { keys, problems } = parseKeys(yaml, tiers);
  expect(keys.length === 0 || problems.length === 0).toBe(true);
  return problems.map(({ line, path, message }) => `${line} ${path}: ${message}`);
}

/** What is read, without where it stood. */
function keysOf(yaml: string) {
  const { keys, problems } = parseKeys(yaml);
  expect(problems).toEqual([]);
  return keys.map(({ name, tier, digest, expires }) => ({ name, tier, digest, expires }));
}

const A = { name: "a", tier: "wallet", digest: hex("a"), expires: undefined };
const B = { name: "b", tier: "wallet", digest: hex("b"), expires: Date.UTC(2027, 0, 31) };

test.each<[form: string, yaml: string]>([
  [
    "as clients new prints it",
    `- name: a\n  tier: wallet\n  ${D}\n- name: b\n  tier: wallet\n  ${E}\n  expires: 2027-01-31T00:00:00Z\n`,
  ],
  [
    "with comments and in another order",
    `# keys\n---\n# a\n- ${D} # old\n  name: a\n\n  # its tier\n  tier: wallet\n- name: "b"\n  expires: "2027-01-31T01:00:00.000+01:00"\n  ${E}\n  tier: wallet`,
  ],
  [
    "with line ends of Windows",
    `- name: a\r\n  tier: wallet\r\n  ${D}\r\n- name: b\r\n  tier: wallet\r\n  ${E}\r\n  expires: 2027-01-31T00:00:00Z\r\n`,
  ],
  [
    "in braces",
    `- { name: a, tier: wallet, ${D} }\n- { name: b, tier: wallet, expires: 2027-01-31T00:00:00Z, ${E} }\n`,
  ],
  [
    "indented",
    `  - name: a\n    tier: wallet\n    ${D}\n  - name: b\n    tier: wallet\n    ${E}\n    expires: 2027-01-31T00:00:00Z\n`,
  ],
  [
    "as JSON",
    JSON.stringify([
      { name: "a", tier: "wallet", digest: `sha256:${hex("A")}` },
      { name: "b", tier: "wallet", digest: `sha256:${hex("b")}`, expires: "2027-01-31T00:00:00Z" },
    ]),
  ],
])("a list of keys is read %s", (_form, yaml) => {
  expect(keysOf(yaml)).toEqual([A, B]);
});

test("a list without keys is good, and a client has as many keys as it likes", () => {
  expect(keysOf("[]\n")).toEqual([]);
  expect(keysOf(`- name: a\n  tier: wallet\n  ${D}\n- name: a\n  tier: wallet\n  ${E}\n`)).toHaveLength(2);
});

const GOOD = `- name: a\n  tier: wallet\n  ${D}\n`;

test.each<[about: string, yaml: string, problems: string[]]>([
  ["an empty file", "", ["1 : the file is empty: [] is a list without keys"]],
  ["comments alone", "# none\n", ["1 : the file is empty: [] is a list without keys"]],
  ["a group of keys", "name: a\n", ["1 : must be a list of keys"]],
  ["a word", "keys\n", ["1 : must be a list of keys"]],
  [
    "a bracket left open",
    `${GOOD}- { name: b\n`,
    ["5 : not valid YAML: Flow map in block collection must be sufficiently indented and end with a }"],
  ],
  [
    "two documents",
    `${GOOD}---\n${GOOD}`,
    ["4 : not valid YAML: Source contains multiple documents; please use YAML.parseAllDocuments()"],
  ],
  ["an item that is a word", `${GOOD}- b\n`, ["4 [1]: must be a group of keys"]],
  ["an item without anything", `${GOOD}- \n`, ["4 [1]: is empty"]],
  [
    "a tier and a digest left out",
    `${GOOD}- name: b\n`,
    [
      "4 [1].tier: is missing: it must be the name of a tier",
      "4 [1].digest: is missing: it must be sha256: and 64 hex digits",
    ],
  ],
  [
    "an unknown key",
    `${GOOD}- name: b\n  tier: wallet\n  ${E}\n  expire: 2027-01-31T00:00:00Z\n`,
    ['7 [1].expire: unknown key; did you mean "expires"?'],
  ],
  [
    "a key twice",
    `${GOOD}- name: b\n  name: c\n  tier: wallet\n  ${E}\n`,
    ["5 [1].name: is given twice, first on line 1"],
  ],
  [
    "a date without time",
    `${GOOD}- name: b\n  tier: wallet\n  ${E}\n  expires: 2027-01-31\n`,
    ['7 [1].expires: "2027-01-31" is not a time such as 2027-01-31T00:00:00Z'],
  ],
  [
    "a day that there is not",
    `${GOOD}- name: b\n  tier: wallet\n  ${E}\n  expires: 2027-02-29T00:00:00Z\n`,
    ['7 [1].expires: "2027-02-29T00:00:00Z" is no time that there is'],
  ],
  [
    "a time without zone",
    `${GOOD}- name: b\n  tier: wallet\n  ${E}\n  expires: 2027-02-28T00:00:00\n`,
    ['7 [1].expires: "2027-02-28T00:00:00" is not a time such as 2027-01-31T00:00:00Z'],
  ],
  [
    "a digest of another kind",
    `${GOOD}- name: b\n  tier: wallet\n  digest: md5:abc\n`,
    ["6 [1].digest: is not sha256: and 64 hex digits"],
  ],
  [
    "a digest cut off",
    `${GOOD}- name: b\n  tier: wallet\n  digest: sha256:${hex("b").slice(1)}\n`,
    ["6 [1].digest: is not sha256: and 64 hex digits"],
  ],
  [
    "the key itself",
    `${GOOD}- name: b\n  tier: wallet\n  digest: ${KEY}\n`,
    ["6 [1].digest: is a key: the file holds digests alone. Take the entry that clients new printed, and a new key"],
  ],
  [
    "the key as a name",
    `${GOOD}- name: b\n  tier: ${KEY}!\n  ${E}\n`,
    ['5 [1].tier: must be the name of a tier, not "rgk_…!"'],
  ],
  [
    "the key as the name of a key",
    `${GOOD}- ${KEY}: b\n  name: b\n  tier: wallet\n  ${E}\n`,
    ["4 [1].rgk_…: unknown key"],
  ],
  ["a number as name", `${GOOD}- name: 7\n  tier: wallet\n  ${E}\n`, ["4 [1].name: must be text: put it in quotes"]],
  ["true as tier", `${GOOD}- name: b\n  tier: true\n  ${E}\n`, ["5 [1].tier: must be text: put it in quotes"]],
  [
    "a name with a line break",
    `${GOOD}- name: "b\\nc"\n  tier: wallet\n  ${E}\n`,
    ['4 [1].name: must be 1 to 128 characters without spaces at its ends, not "b\\nc"'],
  ],
  [
    "a name with a mark of direction",
    `${GOOD}- name: "b\\u202Ec"\n  tier: wallet\n  ${E}\n`,
    ['4 [1].name: must be 1 to 128 characters without spaces at its ends, not "b\u202Ec"'],
  ],
  [
    "a name that stands for others",
    `- name: anonymous\n  tier: wallet\n  ${D}\n- name: none\n  tier: wallet\n  ${E}\n`,
    [
      '1 [0].name: "anonymous" stands for others in logs and metrics: take another name',
      '4 [1].name: "none" stands for others in logs and metrics: take another name',
    ],
  ],
  [
    "a key for two clients",
    `${GOOD}- name: b\n  tier: wallet\n  digest: sha256:${hex("A")}\n`,
    ["6 [1].digest: the same key is given on line 3"],
  ],
  [
    "a client with two tiers",
    `${GOOD}- name: a\n  tier: exchange\n  ${E}\n`,
    ["5 [1].tier: the keys of one client are of one tier: on line 2 it is wallet"],
  ],
  ["an alias", `- &a { name: a, tier: wallet, ${D} }\n- *a\n`, ["2 [1]: there is no anchor &a before this"]],
])("%s is refused", (_about, yaml, problems) => {
  expect(problemsOf(yaml)).toEqual(problems);
});

test("a tier must be one of those that are configured, and the nearest one is named", () => {
  expect(problemsOf(`${GOOD}- name: b\n  ${E}\n  tier: walet\n`, ["wallet", "anonymous"])).toEqual([
    '6 [1].tier: "walet" is no tier: clients.tiers has wallet, anonymous; did you mean "wallet"?',
  ]);
  expect(problemsOf(`- { name: b, ${E}, tier: constructor }\n`, ["wallet"])).toHaveLength(1);
});

test("a key in the place of something else is not repeated, and is no name", () => {
  const key = createKey();
  const problems = problemsOf(`- name: a\n  tier: ${key}\n  ${D}\n- name: ${key}\n  tier: wallet\n  ${E}\n`, [
    "wallet",
  ]);
  expect(problems).toEqual([
    '2 [0].tier: "rgk_…" is no tier: clients.tiers has wallet',
    "4 [1].name: looks like an API key: names stand in logs and metrics",
  ]);
});

test("every mistake is named, in the order of the file", () => {
  const yaml = `- name: a\n  tier: gold\n  ${D}\n- name: b\n- name: a\n  tier: wallet\n  ${D}\n`;
  expect(problemsOf(yaml, ["wallet"]).map((problem) => problem.split(":")[0])).toEqual([
    "2 [0].tier",
    "4 [1].tier",
    "4 [1].digest",
    "6 [2].tier",
    "7 [2].digest",
  ]);
});

const value = fc.oneof(
  fc.constantFrom(
    "a",
    "wallet",
    "true",
    "null",
    "off",
    "1",
    "0x1",
    "~",
    "a:b",
    "a: b",
    "a #b",
    "x:",
    "-",
    "- a",
    ".inf",
    "2027-01-31T00:00:00Z",
  ),
  fc.constantFrom(
    `sha256:${hex("a")}`,
    `sha256:${hex("B")}`,
    '"a"',
    "'a'",
    '"a\\n"',
    "!!str 1",
    "&x a",
    "*x",
    "|",
    ">",
    "{}",
    "[]",
    "é",
  ),
  fc.stringMatching(/^[ -~]{0,12}$/),
);
const line = fc.tuple(
  fc.constantFrom("- ", "  ", "   ", "", "\t"),
  fc.constantFrom("name", "tier", "digest", "expires", "# name", '"name"'),
  fc.constantFrom(": ", ":", " : ", ":  "),
  value,
  fc.constantFrom("", " ", " # c", "#c", "\r"),
);
const lines = fc.array(
  line.map((parts) => parts.join("")),
  { minLength: 1, maxLength: 8 },
);
const entry = fc.record({
  name: fc.oneof(fc.constantFrom("a", "b"), value),
  tier: fc.constantFrom("wallet", "true", "gold"),
  digest: fc.constantFrom(`sha256:${hex("a")}`, `"sha256:${hex("b")}"`),
});
const entries = fc.array(
  entry.map(({ name, tier, digest }) => `- name: ${name}\n  tier: ${tier}\n  digest: ${digest}`),
  { minLength: 1, maxLength: 3 },
);

test("what is read without the YAML library is what the library reads", () => {
  fc.assert(
    fc.property(fc.oneof(lines, entries), (all) => {
      const text = all.join("\n");
      const indented = all.map((each) => each.replaceAll(/^/gm, " ")).join("\n");
      fc.pre(!/^\t/m.test(text));
      // A list that does not begin in the first column is read by the library as a whole.
      const [plain, whole] = [parseKeys(text), parseKeys(indented)];
      const strip = ({ name, tier, digest, expires }: (typeof plain.keys)[number]) => ({ name, tier, digest, expires });
      if (plain.problems.length === 0) expect(plain.keys.map(strip)).toEqual(whole.keys.map(strip));
      else expect(whole.problems.length).toBeGreaterThan(0);
    }),
    { numRuns: runs(200, 50_000) },
  );
});

test("keys in another form than clients new prints are few, and so are the problems that are named", () => {
  const list = Array.from({ length: 5_001 }, (_, i) => {
    return `- { name: a, tier: wallet, digest: "sha256:${String(i).padStart(64, "0")}" }\n`;
  });
  // The first 5,000 are read, or they would be the problem.
  expect(problemsOf(list.join(""))).toEqual([
    "5001 [5000]: is beyond 5000 keys that are not written as clients new prints them",
  ]);
  expect(problemsOf("- name: a\n".repeat(2_000))).toHaveLength(1_000);
});

test.each([
  ["one long entry", `- name: a\n${" # x\n".repeat(10_000)}`],
  ["lists in lists", "[".repeat(100_000)],
  ["lists in lists, one a line", "- ".repeat(200_000)],
  ["a list in another form that is too large", ` ${GOOD.replaceAll("\n", "\n ").repeat(12_000)}`],
  [
    "aliases of aliases",
    `- &a [x]\n${Array.from({ length: 30 }, (_, i) => `- &${"abcdefghij"[i % 10]}${i} [*a, *a, *a]\n`).join("")}`,
  ],
])("a file of %s is refused in bounded time", (_about, yaml) => {
  const { problems } = parseKeys(yaml);
  expect(problems.length).toBeGreaterThan(0);
});

test("a file that is not there, is a folder or is too large is named", () => {
  const file = join(folder(), "clients.yaml");
  const fault = () => checkKeysFile(file).problems.map(({ message }) => message);
  expect(fault()).toEqual(["there is no such file"]);
  writeFileSync(file, "[]\n");
  truncateSync(file, 16 * 2 ** 20 + 1);
  expect(fault()).toEqual(["is larger than 16 MiB"]);
  expect(checkKeysFile(folder()).problems.map(({ message }) => message)).toEqual(["is not a file"]);
  expect(() => readKeysFile(folder(), [])).toThrow("is not a file");
});

test("a configuration is bad where its keys file is, and says where in that file", () => {
  const file = join(folder(), "clients.yaml");
  writeFileSync(file, `${GOOD}- name: b\n  tier: gold\n  digest: nothing\n`);
  const clients = { keysFile: "clients.yaml", tiers: { wallet: {} } };
  const upstreams = [{ name: "amulet", urls: ["https://a.example"] }];
  const parse = (keys: object) =>
    parseConfig({ text: stringify(keys), file: join(folder(), "gateway.yaml"), env: { FILE: file } });
  const { config, usable, problems } = parse({ clients, upstreams });
  expect(config).toBeUndefined();
  expect(usable).toBeDefined();
  expect(problems).toEqual([
    {
      line: 2,
      column: 13,
      path: "clients.keysFile",
      message: `${file} line 6: [1].digest: is not sha256: and 64 hex digits`,
      isOfFile: true,
    },
  ]);
  writeFileSync(file, `${GOOD}- name: b\n  tier: gold\n  ${E}\n`);
  const named = parse({ clients: { ...clients, keysFile: "${FILE}" }, upstreams }).problems.map(
    ({ message }) => message,
  );
  expect(named).toEqual([
    'the file that the environment names line 5: [1].tier: "gold" is no tier: clients.tiers has anonymous, wallet',
  ]);
});

test("a configuration names twenty mistakes of a keys file and counts the others", () => {
  const file = join(folder(), "clients.yaml");
  writeFileSync(file, "- name: a\n".repeat(50));
  const text = `clients: { keysFile: ${file} }\nupstreams: [{ name: a, urls: ["https://a.example"] }]\n`;
  const { problems } = parseConfig({ text, file: "gateway.yaml", env: {} });
  expect(problems).toHaveLength(21);
  expect(problems[20]!.message).toBe(
    `${file} has 80 more problems: registry-gateway clients check FILE names them all`,
  );
});

test("the example of a gateway with three tiers is good, and its digests are of no key", () => {
  const example = join(import.meta.dirname, "../../config/clients");
  const { clients } = loadConfig(join(example, "gateway.yaml"), {});
  expect(Object.keys(clients!.tiers)).toEqual(["wallet", "exchange", "browser"]);
  const keys = readKeysFile(clients!.keysFile!, Object.keys(clients!.tiers));
  expect(keys.map(({ name, tier }) => [name, tier])).toEqual([
    ["wallet-a", "wallet"],
    ["wallet-a", "wallet"],
    ["exchange-b", "exchange"],
  ]);
  for (const { digest } of keys) expect(digest).toMatch(/^0{62}/);
});
