import { describe, expect, it } from "vitest";
import { readText, readYaml } from "../support/project.ts";

const text = readText("Dockerfile");
const lock = readYaml("package-lock.json") as { packages: Record<string, { version: string }> };

/** What stands behind each instruction of a name. */
function argsOf(name: string): string[] {
  return text.split("\n").flatMap((line) => (line.startsWith(`${name} `) ? [line.slice(name.length + 1)] : []));
}

describe("the Dockerfile", () => {
  it("builds on exactly the Node that the tests run on", () => {
    const { version } = lock.packages["node_modules/node"]!;
    expect(readText(".node-version").trim()).toBe(version);
    expect(new Set(argsOf("FROM").map((base) => base.split(" ")[0]))).toEqual(
      new Set([`node:${version}-bookworm-slim`]),
    );
  });

  it("copies nothing that .dockerignore keeps out", () => {
    const admitted = readText(".dockerignore")
      .split("\n")
      .filter((line) => line.startsWith("!"));
    const copied = argsOf("COPY").filter((args) => !args.startsWith("--from"));
    for (const file of copied.flatMap((args) => args.split(" ").slice(0, -1))) {
      expect(admitted).toContain(`!${file.replace("./", "")}`);
    }
  });

  it("runs as a user without rights, by number, so that Kubernetes can tell", () => {
    expect(argsOf("USER")).toEqual(["1000:1000"]);
    expect(text.lastIndexOf("\nCOPY ")).toBeLessThan(text.indexOf("\nUSER "));
  });

  it("starts without a shell, so that signals reach the gateway, of which none opens a debugger", () => {
    expect(JSON.parse(argsOf("ENTRYPOINT")[0]!)).toEqual(["node", "--disable-sigusr1", "dist/main.js"]);
    expect(JSON.parse(argsOf("CMD")[0]!)).toEqual(["start"]);
  });

  // Two names that hung held up the connections to all other registries.
  it("has threads for name lookups, as the systemd unit does", () => {
    expect(argsOf("ENV").join(" ")).toContain("UV_THREADPOOL_SIZE=32");
    expect(readText("config/systemd/registry-gateway@.service")).toContain('\nEnvironment="UV_THREADPOOL_SIZE=32"\n');
  });

  it("lets commands in a container find the configuration", () => {
    expect(argsOf("ENV").join(" ")).toContain("GATEWAY_CONFIG=/etc/registry-gateway/gateway.yaml");
  });
});
