import { chmodSync, copyFileSync, existsSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { FAILURES } from "../../src/upstream/failure.ts";
import { type Block, blocks, brokenLinksOf, codesOf, PAGES, proseOf, sentencesOf, wordsOf } from "../support/docs.ts";
import { startCached } from "../support/caching.ts";
import { command } from "../support/command.ts";
import { LIST } from "../support/endpoints.ts";
import { startGateway, temporaryFolder, type TestGateway, withDefaults } from "../support/gateway.ts";
import { findFreePort } from "../support/ports.ts";
import { Child, type Ended, PROGRAM, run } from "../support/process.ts";
import { blockOf, readText, ROOT } from "../support/project.ts";
import { startRedis } from "../support/redis.ts";
import { instrument, type Script, startRegistry } from "../support/registry.ts";
import { until } from "../support/until.ts";

/** What becomes of a block of commands: it runs here as it is written, or the test that runs it, or what it needs. */
type How =
  | { readonly says: RegExp; readonly isEndless?: true; readonly also?: string }
  | { readonly test: string }
  | { readonly needs: string };

/** By page and first line. */
const COMMANDS: Readonly<Record<string, How>> = {
  "README.md: npm ci && npm run demo": { test: "test/long/nightly/docs.test.ts" },
  "docs/caching.md: registry-gateway purge": { says: /^everything is purged\namulet is purged\n$/ },
  "docs/clients.md: registry-gateway clients new": { says: /rgk_[^]*"name":"Example Wallet","tier":"partners"/ },
  "docs/first-day.md: npm ci && npm pack": { test: "test/long/push/package.test.ts" },
  "docs/first-day.md: useradd": { needs: "root" },
  "docs/first-day.md: registry-gateway check --live": {
    says: /^amulet http:\S+: admin amulet::1220[^]*gateway\.yaml is good\n$/,
  },
  'docs/first-day.md: cp "$(npm root --global)/registry-gateway/config/systemd': { needs: "systemd" },
  'docs/first-day.md: cp "$(npm root --global)/registry-gateway/config/prometheus': { needs: "systemd" },
  "docs/first-day.md: registry-gateway check && systemctl": { needs: "systemd" },
  "docs/first-day.md: IMAGE=": { needs: "Kubernetes" },
  "docs/first-day.md: helm install": { needs: "Kubernetes" },
  "docs/operations.md: npm install --prefix /opt/otel": { test: "test/long/nightly/docs.test.ts" },
  "docs/something-is-wrong.md: registry-gateway status": { says: /^All is well: 1 registry\.\n/ },
  "docs/wallets.md: npx openapi-typescript": { test: "test/long/nightly/docs.test.ts" },
  // The usual port may be another's on the machine that runs the tests.
  "docs/wallets.md: registry-gateway sandbox": { says: /base URL {2}http:/, isEndless: true, also: " --port 0" },
};

const shells = blocks().filter(({ language }) => language === "sh");

function howOf({ page, text }: Block): How | undefined {
  return Object.entries(COMMANDS).find(([key]) => `${page}: ${text}`.startsWith(key))?.[1];
}

let folder: string;
let env: Record<string, string>;

beforeAll(async () => {
  folder = temporaryFolder();
  const program = join(folder, "registry-gateway");
  writeFileSync(program, `#!/bin/sh\nexec ${PROGRAM.map((word) => `'${word}'`).join(" ")} "$@"\n`);
  chmodSync(program, 0o755);
  const amulet = await startRegistry("amulet");
  const keys = { operations: { port: await findFreePort() }, upstreams: [amulet] };
  await startGateway(keys);
  const file = join(folder, "gateway.yaml");
  writeFileSync(file, stringify(withDefaults(keys)));
  env = { PATH: `${folder}${delimiter}${process.env["PATH"]}`, GATEWAY_CONFIG: file };
});

/** Runs a block as a person who pastes it into a shell. */
function inShell(script: string): Promise<Ended> {
  return run(["-ec", script], { program: ["bash"], env, cwd: folder });
}

describe("blocks of commands", () => {
  test("are each in the table, and the table has no others", () => {
    const unknown = shells.filter((block) => howOf(block) === undefined);
    expect(unknown).toEqual([]);
    const gone = Object.keys(COMMANDS).filter(
      (key) => !shells.some(({ page, text }) => `${page}: ${text}`.startsWith(key)),
    );
    expect(gone).toEqual([]);
  });

  test("that another test runs are in it", () => {
    for (const block of shells) {
      const how = howOf(block);
      if (how !== undefined && "test" in how) expect(readText(how.test), block.text).toContain(block.page);
    }
  });

  const runnable = shells.flatMap((block) => {
    const how = howOf(block);
    return how !== undefined && "says" in how ? [{ ...block, ...how, first: block.text.split("\n", 1)[0] }] : [];
  });

  test.each(runnable)("$page: $first", async ({ text, says, isEndless, also = "" }) => {
    const script = text.trimEnd() + also;
    if (isEndless === true) {
      const child = new Child(["-c", `exec ${script}`], { program: ["bash"], env, cwd: folder });
      await until(() => says.test(child.stdout));
      return;
    }
    const { code, stdout, stderr } = await inShell(script);
    expect([code, stderr]).toEqual([0, expect.not.stringContaining("error")]);
    expect(stdout).toMatch(says);
  });

  test("name commands and options that there are, in text, too", async () => {
    const commands = /(?:`|^|-- )registry-gateway ([a-z]+(?: (?:new|check)\b)?)([^`\n|&;"]*)/gm;
    const said = PAGES.flatMap((page) => [...readText(page).matchAll(commands)]);
    const options = new Map<string, Set<string>>();
    for (const [, name = "", rest = ""] of said) {
      const known = options.get(name) ?? new Set();
      for (const [option] of rest.matchAll(/--[a-z-]+/g)) known.add(option);
      options.set(name, known);
    }
    for (const [name, used] of options) {
      const { code, stdout } = await command([...name.split(" "), "--help"]);
      expect([name, code]).toEqual([name, 0]);
      for (const option of used) expect(stdout, name).toContain(`${option} `);
    }
  });
});

/** Files that a page's configuration names. */
function addFiles(into: string): void {
  const tls = join(ROOT, "test/fixtures/tls");
  copyFileSync(join(tls, "server.pem"), join(into, "tls.crt"));
  copyFileSync(join(tls, "server-key.pem"), join(into, "tls.key"));
  writeFileSync(join(into, "clients.jsonl"), "\n");
  writeFileSync(join(into, "operations-token"), "a-token-of-a-test");
}

describe("blocks of YAML", () => {
  const others: Readonly<Record<string, string>> = {
    "rule_files:": "test/deploy/examples.test.ts",
    "image:": "test/deploy/chart.test.ts",
  };
  const yaml = blocks().filter(({ language }) => language === "yaml");
  const configurations = yaml.filter(({ text }) => !Object.keys(others).some((begin) => text.startsWith(begin)));

  test.each(configurations.map((block) => ({ ...block, first: block.text.split("\n", 1)[0] })))(
    "$page: $first passes check",
    async ({ text }) => {
      const place = temporaryFolder();
      addFiles(place);
      // A page may show one group of keys alone.
      const upstreams = "upstreams: [{ name: amulet, urls: [https://registry.example] }]\n";
      writeFileSync(join(place, "gateway.yaml"), /^upstreams:/m.test(text) ? text : text + upstreams);
      const { code, stdout, stderr } = await command(["check", "--config", join(place, "gateway.yaml")]);
      expect([code, stdout + stderr]).toEqual([0, expect.stringContaining("gateway.yaml is good")]);
    },
  );

  test.each(Object.entries(others))("that begin with %s are tried by %s", (begin, file) => {
    expect(yaml.filter(({ text }) => text.startsWith(begin))).toHaveLength(1);
    expect(readText(file)).toContain("docs/first-day.md");
  });
});

describe("the wallet of the docs", () => {
  const file = (): string => join(folder, "wallet.ts");
  beforeAll(() => {
    writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
    writeFileSync(file(), blockOf("docs/wallets.md", "wallet.ts"));
  });

  test("compiles strictly", async () => {
    const flags = ["--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes", "--noUnusedLocals"];
    const target = ["--noEmit", "--target", "es2024", "--module", "nodenext", "--types", "node"];
    const types = ["--typeRoots", join(ROOT, "node_modules/@types")];
    const { code, stdout } = await run([...flags, ...target, ...types, file()], {
      program: [join(ROOT, "node_modules/.bin/tsc")],
      cwd: folder,
    });
    expect([code, stdout]).toEqual([0, ""]);
  });

  describe("and the demo", () => {
    let demo: Child;
    let text: string;
    beforeAll(async () => {
      demo = new Child(["demo", "--port", "0", "--operations-port", "0"]);
      text = await until(() => demo.stdout.includes("Stop with Ctrl-C") && demo.stdout);
    });

    test("which prints commands that work", async () => {
      const [, listing = ""] = /-w '[^']*' '([^']+)'/.exec(text) ?? [];
      const [, info = "", key = ""] = /curl -si '(\S+)' -H 'x-api-key: (rgk_\w[^']+)'/.exec(text) ?? [];
      const [, factory = "", body = ""] = /3\. .*\n {2}curl -s (\S+) .* -d '(.*)' \|/.exec(text) ?? [];
      expect((await fetch(listing)).headers.get("cache-status")).toContain("fwd=uri-miss");
      expect((await fetch(listing)).headers.get("cache-status")).toContain("hit");
      const limited = await fetch(info, { headers: { "x-api-key": key } });
      expect(limited.headers.get("ratelimit-policy")).toContain("6000");
      const headers = { "content-type": "application/json" };
      expect((await fetch(factory, { method: "POST", headers, body })).status).toBe(200);
      const [, operations = ""] = /console {2}(\S+)\/console/.exec(text) ?? [];
      expect((await command(["status", "--url", operations])).stdout).toMatch(/^funds +up/m);
    });

    test("of which it lists every registry, and gets a factory of version 2, or of 1 where there is no other", async () => {
      const [, url = ""] = /gateway {2}(\S+)/.exec(text) ?? [];
      const [, key = ""] = /x-api-key: (\S+)'/.exec(text) ?? [];
      const { code, stdout, stderr } = await run([file()], {
        program: [process.execPath],
        env: { GATEWAY: url, GATEWAY_KEY: key },
      });
      expect([code, stderr]).toEqual([0, ""]);
      expect(stdout).toMatch(/^amulet 3\n\[[^]*\nbonds 500\n\[[^]*\nfunds 60\n\[[^]*$/);
      expect(stdout.match(/'factoryId'/g)).toHaveLength(3);
    });

    test("which ends with Ctrl-C", async () => {
      demo.signal("SIGINT");
      expect(await demo.ended).toBe(0);
      expect(demo.stderr).toBe("");
    });
  });
});

test("docs/caching.md has the values of Cache-Status that are sent, and no others", async () => {
  const redis = { url: (await startRedis()).url };
  const { amulet, gateway, clock, refreshed } = await startCached({ redis });
  const body = { instruments: [instrument("AMULET-00001")] };
  const conditional: Script = ({ headers }) =>
    headers["if-none-match"] === undefined ? { fields: ["ETag", '"1"'], body } : { status: 304 };
  amulet.on("instruments", conditional);
  const seen: string[] = [];
  const ask = async (of: TestGateway = gateway): Promise<void> => {
    const status = String((await of.get(LIST)).headers["cache-status"]).replace(/^registry-gateway;/, "");
    seen.push(status.replace(/ttl=(-?)\d+/, "ttl=$1N"));
  };
  await ask();
  await ask();
  const other = await startGateway({ redis, upstreams: [amulet] }, { clock });
  await until(async () => (await other.operations.status()).redis.redis === "up");
  await ask(other);
  clock.advance("31s");
  await ask();
  // Time that is moved before the refresh has ended would be its deadline.
  await refreshed(LIST);
  clock.advance("65s");
  await ask();
  amulet.on("instruments", { status: 500, body: { error: "broken" } });
  clock.advance("65s");
  await ask();
  await ask();
  gateway.reload({ redis, upstreams: [amulet.upstream({ mode: "cache-only" })] });
  clock.advance("700s");
  await ask();
  const table = [...readText("docs/caching.md").matchAll(/^\| `((?:hit|fwd)[^`]*)` \|/gm)];
  const documented = table.map(([, value = ""]) => value.replace(/ttl=(-?)\d+/, "ttl=$1N"));
  expect(new Set(seen)).toEqual(new Set(documented));
});

describe("what people read", () => {
  const readmes = readdirSync(join(ROOT, "src"))
    .map((name) => `src/${name}/README.md`)
    .filter((path) => existsSync(join(ROOT, path)));

  test("has no sentence of more than 30 words", () => {
    const sentences = PAGES.flatMap((page) =>
      proseOf(page)
        .flatMap(sentencesOf)
        .map((text) => ({ page, text })),
    );
    expect(sentences.length).toBeGreaterThan(500);
    expect(sentences.filter(({ text }) => wordsOf(text) > 30)).toEqual([]);
  });

  test("has no link that leads nowhere", () => {
    const broken = [...PAGES, ...readmes].flatMap((page) => brokenLinksOf(page).map((link) => `${page}: ${link}`));
    expect(broken).toEqual([]);
  });

  test("names keys, metrics and codes that there are", () => {
    const firstColumn = (page: string): string[] =>
      [...readText(page).matchAll(/^\| `([^`]+)` \|/gm)].map(([, name = ""]) => name);
    const keys = firstColumn("docs/configuration.md");
    const isKey = (name: string): boolean => keys.some((key) => key === name || key.endsWith(`.${name}`));
    const metrics = firstColumn("docs/metrics.md").map((name) => `registry_gateway_${name}`);
    const known = new Set([...firstColumn("docs/errors.md"), ...metrics, ...Object.keys(FAILURES)]);
    const groups = new Set(keys.flatMap((key) => key.split(".").slice(0, -1)));
    const wrong = PAGES.flatMap((page) =>
      codesOf(page)
        .filter((code) => {
          const [word = ""] = code.split(/[:=\s]/, 1);
          if (
            /^[a-z][A-Za-z]*(\.[a-zA-Z]+)+$/.test(word) &&
            !/\.(crt|key)$/.test(word) &&
            groups.has(word.split(".", 1)[0]!)
          )
            return !isKey(word);
          return /^[a-z]+(_[a-z0-9]+)+$/.test(word) && !known.has(word) && !known.has(`registry_gateway_${word}`);
        })
        .map((code) => `${page}: ${code}`),
    );
    expect(wrong).toEqual([]);
  });

  test("is short", () => {
    const sizeOf = (path: string): number => statSync(join(ROOT, path)).size;
    const docs = PAGES.filter((page) => page.startsWith("docs/")).reduce((sum, page) => sum + sizeOf(page), 0);
    expect(docs).toBeLessThanOrEqual(130 * 1_024);
    expect(sizeOf("docs/console.png")).toBeLessThanOrEqual(150_000);
    expect(sizeOf("README.md")).toBeLessThanOrEqual(8 * 1_024);
    expect(sizeOf("CONTRIBUTING.md")).toBeLessThanOrEqual(6 * 1_024);
    expect(readmes.length).toBeGreaterThan(14);
    for (const each of readmes) expect(sizeOf(each), each).toBeLessThanOrEqual(1_024);
  });
});
