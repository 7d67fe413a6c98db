import { execFileSync } from "node:child_process";
import { cpSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { TokenStandardClient } from "@canton-network/core-token-standard";
import { beforeAll, describe, expect, test } from "vitest";
import { type Deployment, journeys } from "../../acceptance/journeys.ts";
import { temporaryFolder } from "../../support/gateway.ts";
import { Child, run, startProcess } from "../../support/process.ts";
import { blockOf, ROOT } from "../../support/project.ts";
import { instruments, startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

function npm(args: readonly string[], cwd: string): void {
  const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env["PATH"]}` };
  execFileSync("npm", args, { cwd, env, timeout: 300_000, stdio: ["ignore", "ignore", "inherit"] });
}

/** What is built there takes nothing from under other tests. */
function copyOfCheckout(): string {
  const copy = temporaryFolder();
  for (const name of readdirSync(ROOT)) {
    if (![".git", "dist", "node_modules"].includes(name))
      cpSync(join(ROOT, name), join(copy, name), { recursive: true });
  }
  symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"));
  return copy;
}

/** The package as users get it (docs/first-day.md): built, packed, and installed from its tarball in a folder of its own. */
let folder = "";
let tarball = "";
let program: readonly string[] = [];

beforeAll(() => {
  folder = temporaryFolder();
  const checkout = copyOfCheckout();
  npm(["run", "build"], checkout);
  npm(["pack", "--loglevel=error", "--ignore-scripts", "--pack-destination", folder], checkout);
  tarball = join(
    folder,
    readdirSync(folder).find((file) => file.endsWith(".tgz"))!,
  );
  writeFileSync(join(folder, "package.json"), '{"private":true,"type":"module"}');
  npm(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=dev", tarball], folder);
  program = [join(folder, "node_modules/.bin/registry-gateway")];
});

test("the tarball holds what runs, the files to run it with, and no more", () => {
  const files = execFileSync("tar", ["-tzf", tarball], { encoding: "utf8" }).trimEnd().split("\n");
  const tops = new Set(files.map((file) => file.split("/")[1]));
  expect(tops).toEqual(new Set(["dist", "config", "package.json", "README.md", "LICENSE", "CHANGELOG.md"]));
  const inDist = files.filter((file) => file.startsWith("package/dist/"));
  expect(inDist.filter((file) => !/\.(js|d\.ts|yaml|html|css|svg|woff2)$/.test(file))).toEqual([]);
  expect(files.filter((file) => /\.test\.|\/(src|test|tools)\/|[^d]\.tsx?$/.test(file))).toEqual([]);
  for (const needed of [
    "dist/main.js",
    "dist/console/index.html",
    "dist/spec/openapi.yaml",
    "config/prometheus/rules.yaml",
  ]) {
    expect(files).toContain(`package/${needed}`);
  }
  expect(files).toContain("package/config/systemd/registry-gateway@.service");
});

describe("the program of the package", () => {
  let deployment: Deployment | undefined;
  beforeAll(async () => {
    const amulet = await startRegistry("amulet", { instruments: instruments("AMULET", 120) });
    const bonds = await startRegistry("bonds");
    const { site, operations } = await startProcess({ upstreams: [amulet, bonds] }, { program });
    deployment = { site, operations };
  });
  journeys(() => deployment!);

  test("it serves the console", async () => {
    const { status, text } = await deployment!.operations!.get("/console/");
    expect([status, text]).toEqual([200, expect.stringContaining("<script")]);
  });
});

test("its sandbox and its gateway serve the official client, unchanged", async () => {
  const sandbox = new Child(["sandbox", "--port", "0", "--name", "amulet"], { program });
  const url = await until(() => /base URL {2}(\S+)/.exec(sandbox.stdout)?.[1]);
  const admin = /admin {5}(\S+)/.exec(sandbox.stdout)![1];
  const { site } = await startProcess({ upstreams: [{ name: "amulet", urls: [url] }] }, { program });
  const silent = { info() {}, debug() {}, warn() {}, error() {}, trace() {}, fatal() {}, child: () => silent };
  type Parameters = ConstructorParameters<typeof TokenStandardClient>;
  const token = { getAccessToken: async () => "client-token" } as unknown as Parameters[2];
  const client = new TokenStandardClient(site.url, silent, token);
  expect((await client.get("/registry/metadata/v1/info")).adminId).toBe(admin);
  expect((await client.get("/registry/metadata/v1/instruments")).instruments).toHaveLength(60);
  const path = { transferInstructionId: `00${"5a".repeat(68)}` };
  const endpoint = "/registry/transfer-instruction/v1/{transferInstructionId}/choice-contexts/accept";
  expect(await client.post(endpoint, { excludeDebugFields: true }, { path })).toHaveProperty("choiceContextData");
});

test("the sandbox of docs/wallets.md runs as it is written there", async () => {
  writeFileSync(join(folder, "sandbox.mjs"), blockOf("docs/wallets.md", "sandbox.mjs"));
  const { code, stdout, stderr } = await run(["sandbox.mjs"], { program: [process.execPath], cwd: folder });
  expect([code, stdout, stderr]).toEqual([0, "true\n", ""]);
});

test("the package exports a sandbox that a program may import, with its types", async () => {
  writeFileSync(
    join(folder, "try.ts"),
    `import { type Sandbox, startSandbox } from "registry-gateway/sandbox";
const sandbox: Sandbox = await startSandbox({ apis: "v1", latency: 1 });
const answer = await fetch(sandbox.url + "/registry/metadata/v1/info");
const { adminId } = (await answer.json()) as { adminId: string };
console.log(answer.status, adminId === sandbox.admin, sandbox.instruments.length);
await sandbox.close();
`,
  );
  const { code, stdout, stderr } = await run(["try.ts"], { program: [process.execPath], cwd: folder });
  expect([code, stdout, stderr]).toEqual([0, "200 true 60\n", ""]);
  symlinkSync(join(ROOT, "node_modules/@types"), join(folder, "node_modules/@types"));
  const strict = ["--noEmit", "--strict", "--exactOptionalPropertyTypes", "--target", "es2024", "--module", "nodenext"];
  const libraries = ["--lib", "es2024,esnext.disposable", "--types", "node", "--skipLibCheck", "false"];
  const compiled = await run([...strict, ...libraries, "try.ts"], {
    program: [join(ROOT, "node_modules/.bin/tsc")],
    cwd: folder,
  });
  expect([compiled.code, compiled.stdout]).toEqual([0, ""]);
});

test("the program says its version and its commands, and refuses a configuration that is none", async () => {
  const help = await run(["--help"], { program });
  expect([help.code, help.stdout]).toEqual([0, expect.stringMatching(/start[^]*check[^]*inspect[^]*demo[^]*sandbox/)]);
  writeFileSync(join(folder, "bad.yaml"), "upstream: []\n");
  expect((await run(["check", "--config", join(folder, "bad.yaml")], { program })).code).toBe(78);
  writeFileSync(join(folder, "good.yaml"), "upstreams: [{ name: a, urls: [https://a.example] }]\n");
  expect((await run(["check", "--config", join(folder, "good.yaml")], { program })).code).toBe(0);
});
