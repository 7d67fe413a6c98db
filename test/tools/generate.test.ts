import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Schema from "typebox/schema";
import { afterAll, expect, test } from "vitest";
import { parse } from "yaml";
import { configFromFlags } from "../../src/config/flags.ts";
import { asData } from "../../src/config/keys.ts";
import type { Schema as KeySchema } from "../../src/config/keys.ts";
import { loadConfig, parseConfig } from "../../src/config/parse.ts";
import { printConfig } from "../../src/config/print.ts";
import { configSchema } from "../../src/config/schema.ts";
import { generate } from "../../tools/artefact.ts";
import type { Artefact } from "../../tools/artefact.ts";
import { artefacts } from "../../tools/artefacts.ts";
import { renderConfigExample } from "../../tools/config-example.ts";
import { renderConfigJsonSchema } from "../../tools/config-json-schema.ts";

const root = join(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "gateway-generate-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("what is generated is up to date", async () => {
  expect(await generate({ root, artefacts, isCheck: true })).toEqual([]);
});

test("the example is a good configuration that has every default", () => {
  const config = loadConfig(join(root, "config/gateway.yaml"), {});
  expect(config.upstreams.map(({ name }) => name)).toEqual(["amulet", "usdx"]);
  const plain = configFromFlags({ upstreams: ["https://registry.example/usdx"] });
  const [upstream] = plain.upstreams;
  expect(config).toStrictEqual({
    ...plain,
    upstreams: config.upstreams.map(({ name, urls }) => Object.assign({}, upstream, { name, urls })),
  });
});

/** Every key with its path, and its first example in the form of the file. */
function listExamples(schema: KeySchema, path: string): [path: string, example: unknown][] {
  const below = Object.entries(schema.properties ?? schema.items?.properties ?? {});
  const own: [string, unknown][] = schema.examples === undefined ? [] : [[path, schema.examples[0]]];
  return [...own, ...below.flatMap(([key, keySchema]) => listExamples(keySchema, `${path}/${key}`))];
}

test("every example of a key that is off is a value that the key takes", () => {
  const env = new Proxy({}, { getOwnPropertyDescriptor: () => ({ value: "x", configurable: true }), get: () => "x" });
  const examples = listExamples(asData(configSchema), "");
  expect(examples.length).toBeGreaterThan(25);
  for (const [path, example] of examples) {
    const keys = path.split("/").slice(1);
    const isUpstream = keys[0] === "upstreams";
    const nest = (names: string[]): unknown => (names.length === 0 ? example : { [names[0]!]: nest(names.slice(1)) });
    const upstream = { name: "a", urls: ["https://a.example"], ...(isUpstream ? (nest(keys.slice(1)) as object) : {}) };
    const shared = isUpstream ? {} : (nest(keys) as object);
    const text = JSON.stringify({ ...shared, upstreams: [upstream] });
    const { problems } = parseConfig({ text, file: "gateway.yaml", env });
    const own = problems.filter((problem) => problem.path.split(/[.[\]0-9]+/).join("/") === keys.join("/"));
    // The files of the examples are not on this machine, and a certificate alone lacks its key.
    const expected = /File$|redis.username$|defaults.httpProxy$/.test(path)
      ? /^(there is no file|needs|decides)/
      : /^$/;
    expect(own.filter(({ message }) => !expected.test(message))).toEqual([]);
  }
});

const jsonSchema = Schema.Compile(JSON.parse(renderConfigJsonSchema()) as object);

test("the JSON schema takes the example, a printed configuration and variables in place of any value", () => {
  expect(jsonSchema.Check(parse(renderConfigExample()))).toBe(true);
  const config = configFromFlags({ upstreams: ["http://127.0.0.1:7001"], redis: "redis://r.example" });
  expect(jsonSchema.Check(parse(printConfig(config)))).toBe(true);
  expect(
    jsonSchema.Check({
      listen: { port: "${PORT}", keepAliveTimeout: "${KEEP:-5s}" },
      docs: "${DOCS}",
      redis: "off",
      log: { level: "${LEVEL:-info}" },
      cache: { memory: { maxBytes: "${SIZE}" }, forwardRequestHeaders: "*" },
      upstreams: [{ name: "a", urls: ["https://${HOST}"], cache: { ttl: { info: "1m" } } }],
    }),
  ).toBe(true);
});

test.each<[about: string, change: object]>([
  ["an unknown key", { lisen: {} }],
  ["a number as a duration", { shutdown: { grace: 5 } }],
  ["a quoted number", { listen: { port: "80" } }],
  ["no upstreams", { upstreams: [] }],
  ["an upstream without urls", { upstreams: [{ name: "a" }] }],
  ["memory for one upstream", { upstreams: [{ name: "a", urls: ["http://a"], cache: { memory: {} } }] }],
  [
    "auth of two kinds",
    { upstreams: [{ name: "a", urls: ["http://a"], auth: { bearerToken: "a", bearerTokenFile: "b" } }] },
  ],
  ["redis of no kind", { redis: {} }],
])("the JSON schema refuses %s", (_about, change) => {
  expect(jsonSchema.Check({ upstreams: [{ name: "a", urls: ["http://a"] }], ...change })).toBe(false);
});

test("a part of a file is generated between its markers, and nothing else is touched", async () => {
  const part: Artefact = { file: "part.md", marker: "part", render: () => "new" };
  writeFileSync(join(folder, "part.md"), "# T\n<!-- part:begin -->\nold\n<!-- part:end -->\nrest\n");
  const generation = { root: folder, artefacts: [part] };
  expect(await generate({ ...generation, isCheck: true })).toEqual(["part.md"]);
  expect(readFileSync(join(folder, "part.md"), "utf8")).toContain("old");
  expect(await generate({ ...generation, isCheck: false })).toEqual(["part.md"]);
  expect(readFileSync(join(folder, "part.md"), "utf8")).toBe(
    "# T\n<!-- part:begin -->\n\nnew\n\n<!-- part:end -->\nrest\n",
  );
  expect(await generate({ ...generation, isCheck: false })).toEqual([]);
});

test.each([
  ["no file", undefined, "absent.md does not exist"],
  ["no markers", "# T\n", "needs the line <!-- part:begin --> once"],
  ["no end", "<!-- part:begin -->\n", "needs the line <!-- part:begin --> once"],
  ["markers in the wrong order", "<!-- part:end -->\n<!-- part:begin -->\n", "needs the line"],
  ["a marker twice", "<!-- part:begin -->\n<!-- part:begin -->\n<!-- part:end -->\n", "needs the line"],
])("a generated part of a file with %s is an error that says what to do", async (_about, text, message) => {
  const file = text === undefined ? "absent.md" : "bad.md";
  if (text !== undefined) writeFileSync(join(folder, file), text);
  const part: Artefact = { file, marker: "part", render: () => "new" };
  await expect(generate({ root: folder, artefacts: [part], isCheck: false })).rejects.toThrow(message);
});

test("every key of the configuration is described on one page, in one table", () => {
  const pages = ["docs/configuration.md", "docs/advanced.md"].map((page) => readFileSync(join(root, page), "utf8"));
  const [first, rest] = pages[0]!.split("## All keys by topic");
  const keysIn = (text: string) => [...text.matchAll(/^\| `([^`]+)` \|/gm)].map(([, key]) => key!);
  const described = [...keysIn(rest!), ...keysIn(pages[1]!)];
  expect(new Set(described).size).toBe(described.length);
  for (const key of Object.keys(asData(configSchema).properties!)) expect(described).toContain(key);
  expect(described.length).toBeGreaterThan(150);
  expect(keysIn(first!)).toHaveLength(15);
  expect(described).toEqual(expect.arrayContaining(keysIn(first!)));
});
