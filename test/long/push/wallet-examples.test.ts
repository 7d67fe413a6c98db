import { execFile, execFileSync } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { build } from "vite";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { type Sandbox, startSandbox } from "../../../src/sandbox/sandbox.ts";
import { useConsoleScene } from "../../support/console-scene.ts";
import { type GatewayUnderTest, startGateway } from "../../support/gateway.ts";
import { InstalledPackage, npm, ROOT } from "../../support/installed-package.ts";
import { readWalletExamples } from "../../support/wallet-examples.ts";
import { until } from "../../support/until.ts";

interface Manifest {
  readonly devDependencies: Readonly<Record<string, string>>;
}

const execute = promisify(execFile);
const examples = readWalletExamples();
let installed: InstalledPackage;
let registries: readonly Sandbox[];
let gateway: GatewayUnderTest;

beforeAll(async () => {
  installed = new InstalledPackage();
  // The SDK is the wallet's own.
  const { devDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as Manifest;
  const sdk = "@canton-network/core-token-standard";
  npm(["install", "--no-audit", "--no-fund", "--ignore-scripts", `${sdk}@${devDependencies[sdk]}`], installed.folder);
  for (const [name, code] of examples) installed.write(name, code);
  registries = await Promise.all(
    ["amulet", "bonds"].map((name) => startSandbox({ admin: `${name}::1220aa`, instruments: 5 })),
  );
  gateway = await startGateway({
    upstreams: registries.map(({ url, admin }) => ({ name: admin.split("::", 1)[0], admin, urls: [url] })),
  });
  await until(async () => (await fetch(`${gateway.url}/catalog/v1/instruments`)).ok);
}, 600_000);

afterAll(async () => {
  await gateway.stop();
  await Promise.all(registries.map((each) => each.close()));
  await installed.dispose();
});

/** Runs a program in the folder where the package is installed; gives what it printed. */
async function run(program: string, args: readonly string[]): Promise<string> {
  const env = { ...process.env, GATEWAY: gateway.url };
  const { stdout } = await execute(program, args, { cwd: installed.folder, env, timeout: 60_000 });
  return stdout;
}

test.each([
  ["sdk.mjs", "amulet 5\nbonds 5\n"],
  ["client.mjs", "amulet 5\nbonds 5\n404 admin_unknown\n"],
  ["fetch.mjs", "5\n"],
  ["changes.mjs", "amulet 5\nbonds 5\n"],
])("%s runs in Node as it is written", async (name, prints) => {
  expect(await run(process.execPath, [name])).toBe(prints);
});

test("the test of the page passes as it is written, and is short", async () => {
  expect(examples.get("wallet.test.mjs")!.trim().split("\n").length).toBeLessThanOrEqual(20);
  expect(await run(process.execPath, ["--test", "wallet.test.mjs"])).toContain("pass 1");
});

const scene = useConsoleScene();

/** Runs a module in a page of another origin until it has printed `lines` lines; gives these. */
async function runInPage(script: string, lines: number): Promise<readonly string[]> {
  const page = await scene.foreign("about:blank");
  const server = createServer((_request, response) => {
    response.writeHead(200, { "content-type": "text/html" }).end(`<script type="module">${script}</script>`);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const printed: string[] = [];
  // The browser itself writes of an answer of 404.
  page.on("console", (message) => {
    if (message.type() === "log") printed.push(message.text());
  });
  await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  await until(() => printed.length >= lines);
  return printed;
}

test("fetch.mjs runs in a page of another origin", async () => {
  const script = `globalThis.GATEWAY = ${JSON.stringify(gateway.url)};\n${examples.get("fetch.mjs")!}`;
  expect(await runInPage(script, 1)).toEqual(["5"]);
});

test.each([
  ["client.mjs", ["amulet 5", "bonds 5", "404 admin_unknown"]],
  ["changes.mjs", ["amulet 5", "bonds 5"]],
])("%s runs in a page of another origin, as a bundler makes it of the installed package", async (name, prints) => {
  const result = await build({
    configFile: false,
    logLevel: "warn",
    root: installed.folder,
    define: { "process.env.GATEWAY": JSON.stringify(gateway.url) },
    build: { write: false, lib: { entry: join(installed.folder, name), formats: ["es"], fileName: "page" } },
  });
  const [chunk, ...others] = (Array.isArray(result) ? result : [result]).flatMap((each) =>
    "output" in each ? each.output : [],
  );
  expect(others).toEqual([]);
  const code = chunk?.type === "chunk" ? chunk.code : "";
  expect(await runInPage(code, prints.length)).toEqual(prints);
});

test("a program in TypeScript is held to the types of the package", () => {
  const check = (code: string) => {
    installed.write("typed.mts", code);
    const flags = [
      "--noEmit",
      "--strict",
      "--module",
      "nodenext",
      "--target",
      "esnext",
      "--lib",
      "esnext,dom,dom.iterable",
      "--types",
      "node",
    ];
    const tsc = join(ROOT, "node_modules/.bin/tsc");
    const roots = ["--typeRoots", join(ROOT, "node_modules/@types")];
    return execFileSync(tsc, [...flags, ...roots, "--skipLibCheck", "false", "typed.mts"], {
      cwd: installed.folder,
      encoding: "utf8",
    });
  };
  const head = `import { createClient } from "registry-gateway/client";
import { startSandbox } from "registry-gateway/sandbox";
await using registry = await startSandbox({ instruments: 3, version: "v1" });
const { data } = await createClient({ url: registry.url }).GET("/registry/metadata/v1/info");
`;
  expect(check(`${head}export const admin: string | undefined = data?.adminId;\n`)).toBe("");
  expect(() => check(`${head}export const admin: number | undefined = data?.adminId;\n`)).toThrow();
});
