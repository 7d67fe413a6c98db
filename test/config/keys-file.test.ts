import { execFileSync } from "node:child_process";
import { truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import { loadConfig, parseConfig } from "../../src/config/parse.ts";
import { checkKeysFile, parseKeys, readKeysFile } from "../../src/config/keys-file.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";

const folder = useTemporaryFolder();
const hex = (digit: string) => digit.repeat(64);
const digest = (digit: string) => `sha256:${hex(digit)}`;
const KEY = "rgk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA_00000000";

const line = (over: object = {}) => JSON.stringify({ name: "a", tier: "wallet", digest: digest("a"), ...over });
const GOOD = `${line()}\n`;

function problemsOf(text: string, tiers?: readonly string[]): string[] {
  const { keys, problems } = parseKeys(text, tiers);
  expect(keys.length === 0 || problems.length === 0).toBe(true);
  return problems.map(({ line: at, path, message }) => `${at} ${path}: ${message}`);
}

test("each line is a key, whatever ends it, and blank lines are none", () => {
  const text = `\n${line()}\r\n  \n ${line({ name: "b", digest: digest("B"), expires: "2027-01-31T01:00:00+01:00" })}`;
  expect(parseKeys(text)).toEqual({
    keys: [
      { name: "a", tier: "wallet", digest: hex("a"), line: 2 },
      { name: "b", tier: "wallet", digest: hex("b"), expires: Date.UTC(2027, 0, 31), line: 4 },
    ],
    problems: [],
  });
  expect(parseKeys("\n")).toEqual({ keys: [], problems: [] });
});

// A configuration with such a file was refused, "is empty", though `clients check` called the file good.
test("a configuration may name a file without keys, which has one blank line", () => {
  const file = join(folder(), "none.jsonl");
  const text = stringify({ clients: { keysFile: file }, upstreams: [{ name: "a", urls: ["https://a.example"] }] });
  const problems = (keys: string) => {
    writeFileSync(file, keys);
    return parseConfig({ text, file: "gateway.yaml", env: {} }).problems.map(({ message }) => message);
  };
  expect(problems("\n")).toEqual([]);
  expect(problems("")).toEqual([expect.stringContaining("is empty")]);
});

test.each<[what: string, text: string, problem: string]>([
  ["nothing", "", "0 : is empty: a file without keys has one blank line"],
  ["half a line", `${GOOD}{"name":"b","ti`, "2 : must be one JSON object, as clients new prints it"],
  ["two on a line", line() + line(), "1 : must be one JSON object, as clients new prints it"],
  ["something else", '"a"', "1 : must be one JSON object, as clients new prints it"],
  ["null", "null", "1 : must be one JSON object, as clients new prints it"],
  ["an unknown member", line({ teir: "x" }), '1 : "teir" is unknown: a key has name, tier, digest, expires'],
  ["a member twice", `{"tier":"small",${line().slice(1)}`, "1 tier: is given twice"],
  ["no name", line({ name: undefined }), "1 name: must be 1 to 128 characters"],
  ["a name of blanks", line({ name: " a" }), "1 name: must be 1 to 128 characters"],
  ["a name that turns round", line({ name: "a\u202e" }), "1 name: must be 1 to 128 characters"],
  ["a name that is taken", line({ name: "anonymous" }), '1 name: "anonymous" stands for others'],
  ["a key as a name", line({ name: KEY }), "1 name: looks like an API key"],
  ["a tier that is a number", line({ tier: 1 }), "1 tier: must be the name of a tier"],
  ["a key as a digest", line({ digest: KEY }), "1 digest: is a key: the file holds digests alone"],
  ["a short digest", line({ digest: "sha256:ab" }), "1 digest: is not sha256: and 64 hex digits"],
  ["a day as its end", line({ expires: "2027-01-31" }), "1 expires: "],
  ["a number as its end", line({ expires: 1 }), "1 expires: must be a time in quotes"],
  ["a line of 4 KiB", line({ name: "a".repeat(5_000) }), "1 : is longer than 4 KiB"],
  ["the same key twice", GOOD + line({ name: "b" }), "2 digest: the same key is given on line 1"],
  ["two tiers of one client", GOOD + line({ digest: digest("b"), tier: "small" }), "2 tier: the keys of one client"],
])("a file with %s is refused, and says where", (_what, text, problem) => {
  const [first] = problemsOf(text);
  expect(first).toContain(problem);
  expect(first).not.toContain(KEY);
});

test("a tier that the configuration has not is named, with the one that was meant", () => {
  expect(problemsOf(line({ tier: "walet" }), ["wallet"])).toEqual([
    '1 tier: "walet" is no tier: clients.tiers has wallet; did you mean "wallet"?',
  ]);
});

test.each(["- name: a\n", "# keys\n- name: a\n", "---\n- {}\n", "[]\n", `[${line()}]`])(
  "a file of the form before says how to convert it: %j",
  (text) => {
    expect(problemsOf(text)).toEqual([
      "1 : is YAML, as in releases before 0.2: registry-gateway clients convert FILE prints it as one JSON object a line",
    ]);
  },
);

test.each([
  ["nested lists", "[[".repeat(100_000)],
  ["nested objects", '{"a":'.repeat(700)],
  ["mistakes", "x\n".repeat(100_000)],
  ["one line", "x".repeat(4_000_000)],
])("a file of %s is refused in bounded time", (_about, text) => {
  const { problems } = parseKeys(text);
  expect(problems.length).toBeGreaterThan(0);
  expect(problems.length).toBeLessThanOrEqual(1_000);
});

test("a pipe in the place of the file is refused, and not waited for", () => {
  const pipe = join(folder(), "pipe");
  execFileSync("mkfifo", [pipe]);
  expect(checkKeysFile(pipe).problems.map(({ message }) => message)).toEqual(["is not a file"]);
});

test("a file that is not there, is a folder or is too large is named", () => {
  const file = join(folder(), "clients.jsonl");
  const fault = () => checkKeysFile(file).problems.map(({ message }) => message);
  expect(fault()).toEqual(["there is no such file"]);
  writeFileSync(file, "\n");
  truncateSync(file, 16 * 2 ** 20 + 1);
  expect(fault()).toEqual(["is larger than 16MiB"]);
  expect(checkKeysFile(folder()).problems.map(({ message }) => message)).toEqual(["is not a file"]);
  expect(() => readKeysFile(folder(), [])).toThrow("is not a file");
});

test("a configuration is bad where its keys file is, and says where in that file", () => {
  const file = join(folder(), "clients.jsonl");
  writeFileSync(file, `${GOOD}${line({ name: "b", digest: "nothing" })}\n`);
  const clients = { keysFile: "clients.jsonl", tiers: { wallet: {} } };
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
      message: `${file} line 2: digest: is not sha256: and 64 hex digits`,
      isOfFile: true,
    },
  ]);
  writeFileSync(file, `${GOOD}${line({ name: "b", tier: "gold", digest: digest("b") })}\n`);
  const named = parse({ clients: { ...clients, keysFile: "${FILE}" }, upstreams }).problems.map(
    ({ message }) => message,
  );
  expect(named).toEqual([
    'the file that the environment names line 2: tier: "gold" is no tier: clients.tiers has anonymous, wallet',
  ]);
});

test("a configuration names twenty mistakes of a keys file and counts the others", () => {
  const file = join(folder(), "clients.jsonl");
  writeFileSync(file, "x\n".repeat(50));
  const text = `clients: { keysFile: ${file} }\nupstreams: [{ name: a, urls: ["https://a.example"] }]\n`;
  const { problems } = parseConfig({ text, file: "gateway.yaml", env: {} });
  expect(problems).toHaveLength(21);
  expect(problems[20]!.message).toBe(
    `${file} has 30 more problems: registry-gateway clients check FILE names them all`,
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
