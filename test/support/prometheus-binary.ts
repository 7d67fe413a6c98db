import { execFileSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** Programs of Debian's package `prometheus`. */
export type PrometheusProgram = "prometheus" | "promtool";

/**
 * The path of the program: from PATH, else installed where rights to install packages exist, else the error says what
 * to do.
 */
export function providePrometheus(program: PrometheusProgram): string {
  const found = find(program);
  if (found !== undefined) return found;
  if (process.getuid?.() !== 0 || !isExecutable("/usr/bin/apt-get")) throw new Error(explain(program, "here"));
  console.log(`${program} is not on PATH: installing Debian's package prometheus for the tests`);
  try {
    apt(["update", "-qq"]);
    apt(["install", "-y", "-qq", "--no-install-recommends", "prometheus"]);
  } catch (error) {
    throw new Error(explain(program, "and apt-get could not install it"), { cause: error });
  }
  const installed = find(program);
  if (installed === undefined) throw new Error(explain(program, "and installing it did not bring it"));
  return installed;
}

function find(program: string): string | undefined {
  const folders = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/bin", "/usr/local/bin"];
  return folders
    .filter((folder) => folder !== "")
    .map((folder) => join(folder, program))
    .find(isExecutable);
}

function apt(args: string[]): void {
  execFileSync("/usr/bin/apt-get", args, {
    stdio: ["ignore", "ignore", "inherit"],
    timeout: 180_000,
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  });
}

function explain(program: string, reason: string): string {
  return `This test runs ${program}, which is not on PATH ${reason}. Install Prometheus (Debian, Ubuntu: apt-get install prometheus).`;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
