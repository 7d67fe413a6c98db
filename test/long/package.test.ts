import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findFreePort, until } from "../support/redis.ts";

const ROOT = join(import.meta.dirname, "../..");
const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env["PATH"]}` };

function npm(args: readonly string[], cwd: string): string {
  return execFileSync("npm", args, {
    cwd,
    env,
    encoding: "utf8",
    timeout: 300_000,
    stdio: ["ignore", "pipe", "ignore"],
  });
}

describe("the package, installed from its tarball", () => {
  let folder: string;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "package-"));
    // --ignore-scripts: it is built here, as prepack would.
    npm(["run", "build"], ROOT);
    npm(["pack", "--ignore-scripts", "--pack-destination", folder], ROOT);
    const tarball = readdirSync(folder).find((file) => file.endsWith(".tgz"))!;
    writeFileSync(join(folder, "package.json"), '{"private":true}');
    npm(["install", "--no-audit", "--no-fund", "--ignore-scripts", join(folder, tarball)], folder);
  }, 600_000);

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("has a program that says its version", () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
    expect(npm(["exec", "--", "registry-gateway", "--version"], folder).trim()).toBe(version);
  });

  test("runs the demo on emitted JavaScript", async () => {
    const ports = [await findFreePort(), await findFreePort()] as const;
    const args = ["demo", "--port", String(ports[0]), "--operations-port", String(ports[1])];
    const program = join(folder, "node_modules/.bin/registry-gateway");
    const child = spawn(program, args, { env, stdio: ["ignore", "pipe", "inherit"] });
    child.stdout.resume();
    const ended = once(child, "exit");
    await until(async () => {
      try {
        const url = `http://127.0.0.1:${ports[0]}/api/token-standard/v0/registrars/amulet/registry/metadata/v1/info`;
        return (await fetch(url)).ok;
      } catch {
        return false;
      }
    }, 20_000);
    child.kill("SIGTERM");
    await ended;
    expect(child.exitCode).toBe(0);
  });

  test("brings the files to run it, and no sources or tests", () => {
    const root = join(folder, "node_modules/registry-gateway");
    const files = readdirSync(root, { recursive: true, encoding: "utf8" });
    expect(files).toContain("dist/console/index.html");
    expect(files.filter((file) => file.endsWith(".map"))).toEqual([]);
    expect(files).toContain("config/prometheus/rules.yaml");
    expect(files).toContain("config/grafana/dashboards/overview.json");
    expect(files).toContain("config/kubernetes/deployment.yaml");
    expect(files.filter((file) => /^(src|test)\//.test(file) || file.endsWith(".ts"))).toEqual([]);
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
