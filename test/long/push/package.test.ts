import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { goTo, PAGES, useConsoleScene } from "../../support/console-scene.ts";
import { InstalledPackage, npm, ROOT } from "../../support/installed-package.ts";
import { findFreePort } from "../../support/ports.ts";
import { until } from "../../support/until.ts";

const ADMIN = `DSO::1220${"13f1b3a8".repeat(8)}`;
const OTHER = `other::1220${"ab".repeat(32)}`;
const TOKEN = "operations-token-of-the-test";
const PAGE = "/registry/metadata/v1/instruments";

let installed: InstalledPackage;

beforeAll(() => {
  installed = new InstalledPackage();
}, 600_000);

afterAll(() => installed.dispose());

async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(url)).ok;
  } catch {
    return false;
  }
}

describe("the package, installed from its tarball", () => {
  test("has a program that says its version", () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
    expect(npm(["exec", "--", "registry-gateway", "--version"], installed.folder).trim()).toContain(version);
  });

  test("runs the demo on emitted JavaScript", async () => {
    const ports = [await findFreePort(), await findFreePort()] as const;
    const child = installed.start(["demo", "--port", String(ports[0]), "--operations-port", String(ports[1])]);
    const ended = once(child, "exit");
    const info = `http://127.0.0.1:${ports[0]}/api/token-standard/v0/registrars/amulet/registry/metadata/v1/info`;
    await until(() => answers(info));
    for (const path of ["/docs", "/docs/viewer.js", "/docs/viewer.css"]) {
      expect((await fetch(`http://127.0.0.1:${ports[0]}${path}`)).status, path).toBe(200);
    }
    child.kill("SIGTERM");
    await ended;
    expect(child.exitCode).toBe(0);
  });

  test("brings the files to run it, and no sources or tests", () => {
    const files = readdirSync(installed.root, { recursive: true, encoding: "utf8" });
    expect(files).toContain("dist/console/index.html");
    expect(files).toContain("dist/viewer/viewer.js");
    expect(files).toContain("dist/viewer/license.md");
    expect(files.filter((file) => file.endsWith(".map"))).toEqual([]);
    expect(files).toContain("config/prometheus/rules.yaml");
    expect(files).toContain("config/grafana/dashboards/overview.json");
    expect(files).toContain("config/kubernetes/deployment.yaml");
    expect(files.filter((file) => /^(src|test)\//.test(file) || /(?<!\.d)\.ts$/.test(file))).toEqual([]);
  });

  test("has a bill of materials", () => {
    const bom = JSON.parse(
      npm(["sbom", "--package-lock-only", "--sbom-format", "cyclonedx", "--omit", "dev"], ROOT),
    ) as {
      bomFormat: string;
      components: readonly { name: string; version: string }[];
    };
    expect(bom.bomFormat).toBe("CycloneDX");
    expect(bom.components.map(({ name }) => name)).toContain("fastify");
    expect(bom.components.map(({ name }) => name)).not.toContain("vitest");
  });
});

async function startSandbox(admin: string): Promise<string> {
  const port = await findFreePort();
  installed.start(["sandbox", "--port", String(port), "--admin", admin]);
  return `http://127.0.0.1:${port}`;
}

/** A gateway of the package before sandboxes of the package: one written, one found in a list, clients with keys. */
async function startScene() {
  const ports = { public: await findFreePort(), operations: await findFreePort() };
  const [registry, other] = [await startSandbox(ADMIN), await startSandbox(OTHER)];
  const made = await installed.run(["clients", "new", "wallet", "--tier", "wallets"]);
  const [, entry = ""] = made.stdout.split(/its digest[^\n]*\n/);
  const list = {
    MainNet: [{ instrumentId: { admin: OTHER, id: "x" }, symbol: "x", registryURLs: [`${other}/registry/`] }],
  };
  const config = {
    listen: { host: "127.0.0.1", port: ports.public },
    operations: {
      host: "127.0.0.1",
      port: ports.operations,
      tokenFile: installed.write("operations-token", TOKEN),
    },
    clients: {
      keysFile: installed.write("clients.keys", entry.trim() + "\n"),
      tiers: { wallets: { requests: 100_000, per: "1m" }, anonymous: { requests: 100_000, per: "1m" } },
    },
    discovery: { sources: [{ file: installed.write("list.json", JSON.stringify(list)) }], allowPrivate: true },
    upstreams: [{ name: "amulet", admin: ADMIN, urls: [registry] }],
  };
  const file = installed.write("gateway.yaml", stringify(config));
  installed.start(["start", "--config", file]);
  const gateway = `http://127.0.0.1:${ports.public}`;
  await until(() => answers(`${gateway}${PAGE}`));
  return { file, gateway, registry, operations: `http://127.0.0.1:${ports.operations}` };
}

describe("a gateway of the package", () => {
  let running: Awaited<ReturnType<typeof startScene>>;
  const scene = useConsoleScene();

  beforeAll(async () => {
    running = await startScene();
  });

  /** What to ask of each path of the operations page, and the status that shows that it works. */
  const ENDPOINTS: Readonly<Record<string, { readonly query?: string; readonly body?: object; readonly is?: number }>> =
    {
      "GET /livez": {},
      "GET /readyz": {},
      "GET /metrics": {},
      "GET /status": {},
      "POST /purge": { body: { upstream: "amulet" } },
      "POST /nodes": { body: { upstream: "amulet", node: 0, state: "active", weight: 2 } },
      "POST /upstreams": { body: { upstream: "amulet", mode: "normal" } },
      "GET /discovery": {},
      // No source names it, which only a handler that works can say.
      "POST /discovery": { body: { admin: "nobody::1220", approve: true }, is: 404 },
      "GET /audit": {},
      "GET /explain": { query: `?path=/api/token-standard/v0/registrars/amulet${PAGE}` },
      "GET /config": {},
      "GET /cache": {},
      "GET /history": {},
      "GET /requests": { query: "?limit=5" },
      "GET /clients": {},
      "GET /replicas": {},
      "GET /console/": {},
      "POST /session": { body: { token: TOKEN } },
    };

  function documentedEndpoints(): string[] {
    const page = readFileSync(join(installed.root, "docs/operations/README.md"), "utf8");
    return [...new Set([...page.matchAll(/`((?:GET|POST) \/[a-z/]*)/g)].map(([, path]) => path!))];
  }

  test("answers at every path that its operations page names", async () => {
    const paths = documentedEndpoints();
    expect(paths.length).toBeGreaterThan(15);
    for (const path of paths) {
      const tried = ENDPOINTS[path];
      expect(tried, `a path that this test does not try: ${path}`).toBeDefined();
      const { query = "", body, is = 200 } = tried!;
      const [method, at] = path.split(" ");
      const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
      const answer = await fetch(`${running.operations}${at}${query}`, {
        method: method!,
        headers,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await answer.text();
      expect([path, answer.status, answer.status === is ? "" : text]).toEqual([path, is, ""]);
    }
  });

  /** For each command: arguments that work here, and what they print. Those that serve are running already. */
  const COMMANDS: Readonly<Record<string, readonly [args: readonly string[], prints: RegExp]>> = {
    start: [["--version"], /\d+\.\d+\.\d+/],
    demo: [["demo", "--help"], /three sample registries/i],
    sandbox: [["sandbox", "--help"], /--strict/],
    inspect: [["inspect", "REGISTRY"], /0 errors, 0 warnings/],
    check: [["check", "--live", "--config", "FILE"], /amulet/],
    status: [["status", "--config", "FILE"], /amulet/],
    replicas: [["replicas", "--config", "FILE"], /\(answers\)/],
    audit: [["audit", "--config", "FILE"], /AT +BY/],
    explain: [
      ["explain", `GATEWAY/api/token-standard/v0/registrars/amulet${PAGE}`, "--config", "FILE"],
      /fresh|stored|cached/,
    ],
    purge: [["purge", "amulet", "--config", "FILE"], /purged/i],
    nodes: [["nodes", "--config", "FILE"], /amulet/],
    upstreams: [["upstreams", "--config", "FILE"], /amulet/],
    discovery: [["discovery", "--config", "FILE"], /other::1220ab/],
    clients: [["clients", "check", "KEYS"], /key/i],
    import: [["import", "LIST"], /other::1220ab/],
  };

  test("runs every command that its help names", async () => {
    const { stdout: help } = await installed.run(["--help"]);
    const named = new Set([...help.matchAll(/^ {2}registry-gateway \[?([a-z]+)\b/gm)].map(([, command]) => command!));
    expect(named.size).toBeGreaterThan(10);
    const places: Readonly<Record<string, string>> = {
      FILE: running.file,
      REGISTRY: running.registry,
      KEYS: join(installed.folder, "clients.keys"),
      LIST: join(installed.folder, "list.json"),
    };
    for (const command of named) {
      const tried = COMMANDS[command];
      expect(tried, `a command that this test does not try: ${command}`).toBeDefined();
      const [args, prints] = tried!;
      const { code, stdout, stderr } = await installed.run(
        args.map((arg) => places[arg] ?? arg.replace("GATEWAY", running.gateway)),
      );
      expect([command, code, code === 0 ? "" : stdout + stderr]).toEqual([command, 0, ""]);
      expect(stdout).toMatch(prints);
    }
  });

  test("shows every page of the console", async () => {
    const page = await scene.open(running, { token: TOKEN });
    await page.getByRole("navigation").first().waitFor();
    for (const title of PAGES) {
      await goTo(page, title);
      await page.getByText("Asking the gateway…").waitFor({ state: "detached" });
      await page.getByRole("heading", { name: title }).first().waitFor();
    }
  });
});
