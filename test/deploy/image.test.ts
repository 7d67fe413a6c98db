import { readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { describe, expect, test } from "vitest";
import viteConfig from "../../vite.config.ts";
import { parseDockerfile } from "../support/dockerfile.ts";

const ROOT = join(import.meta.dirname, "../..");
const instructions = parseDockerfile(readFileSync(join(ROOT, "Dockerfile"), "utf8"));
const lock = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as {
  packages: Record<string, { version: string }>;
};

function argsOf(name: string): string[] {
  return instructions.filter((instruction) => instruction.name === name).map(({ args }) => args);
}

describe("the Dockerfile", () => {
  test("lets commands in a running container find its configuration and the program", () => {
    const environment = argsOf("ENV").join(" ");
    expect(environment).toContain("GATEWAY_CONFIG=/etc/registry-gateway/gateway.yaml");
    expect(argsOf("CMD")).toEqual(['["start"]']);
    expect(argsOf("RUN").at(-1)).toContain("/usr/local/bin/registry-gateway");
  });

  test("builds on exactly the Node that the tests run on", () => {
    const { version } = lock.packages["node_modules/node"]!;
    expect(argsOf("FROM").length).toBeGreaterThan(1);
    for (const base of argsOf("FROM"))
      expect(base).toMatch(new RegExp(`^(--platform=\\S+ )?node:${version.replaceAll(".", "\\.")}-[a-z-]+`));
    expect(readFileSync(join(ROOT, ".node-version"), "utf8").trim()).toBe(version);
  });

  // The client's folder was missing: everything passed, and no image could be built.
  test("copies every folder that the build reads", () => {
    const copies = argsOf("COPY").filter((args) => !args.startsWith("--from"));
    const copied = new Set(copies.flatMap((args) => args.split(/\s+/).slice(0, -1)));
    const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
      readonly scripts: { readonly build: string };
    };
    const modes = [...scripts.build.matchAll(/vite build(?: --mode (\w+))?/g)].map(([, mode = "production"]) => mode);
    const roots = modes.flatMap((mode) => {
      const { root = ROOT, build } = viteConfig({ mode, command: "build" });
      const input = build?.rolldownOptions?.input ?? {};
      const files = typeof input === "string" ? [input] : Object.values(input);
      return root === ROOT ? files : [relative(ROOT, root)];
    });
    const projects = [...scripts.build.matchAll(/tsc -p (\S+)/g)].map(([, project]) => project!);
    const folders = new Set([...roots, ...projects].map((path) => path.split("/", 1)[0]!));
    expect(folders.size).toBeGreaterThan(2);
    expect([...folders].filter((folder) => !copied.has(folder))).toEqual([]);
  });

  test("runs as a user without rights, by number, so that Kubernetes can tell", () => {
    expect(argsOf("USER")).toEqual(["1000:1000"]);
    expect(instructions.findLastIndex(({ name }) => name === "COPY")).toBeLessThan(
      instructions.findIndex(({ name }) => name === "USER"),
    );
  });

  test("installs what the lock file says", () => {
    for (const run of argsOf("RUN").filter((args) => args.includes("npm") && !args.includes("run"))) {
      expect(run).toMatch(/^npm ci /);
    }
    expect(argsOf("RUN").some((args) => args.includes("--omit=dev"))).toBe(true);
  });

  test("starts without a shell, so that signals reach the gateway", () => {
    for (const name of ["ENTRYPOINT", "CMD"]) expect(JSON.parse(argsOf(name)[0]!)).toBeInstanceOf(Array);
    expect(argsOf("STOPSIGNAL")).toEqual(["SIGTERM"]);
    expect(argsOf("HEALTHCHECK")[0]).toContain("/livez");
  });
});
