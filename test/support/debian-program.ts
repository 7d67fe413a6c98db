import { execFileSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** A program that tests run, and the package of Debian that brings it. */
export interface DebianProgram {
  readonly program: string;
  readonly package: string;
}

/**
 * The path of the program: from PATH, else installed where rights to install packages exist, else the error says what
 * to do.
 */
export function provideProgram(wanted: DebianProgram): string {
  const found = find(wanted.program);
  if (found !== undefined) return found;
  if (process.getuid?.() !== 0 || !isExecutable("/usr/bin/apt-get")) throw new Error(explain(wanted, "here"));
  console.log(`${wanted.program} is not on PATH: installing Debian's package ${wanted.package} for the tests`);
  try {
    apt(["update", "-qq"]);
    apt(["install", "-y", "-qq", "--no-install-recommends", wanted.package]);
  } catch (error) {
    throw new Error(explain(wanted, "and apt-get could not install it"), { cause: error });
  }
  const installed = find(wanted.program);
  if (installed === undefined) throw new Error(explain(wanted, "and installing it did not bring it"));
  return installed;
}

function find(program: string): string | undefined {
  // Servers live in folders that are not on every PATH.
  const folders = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/bin", "/usr/sbin", "/usr/local/bin"];
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

function explain({ program, package: name }: DebianProgram, reason: string): string {
  return `This test runs ${program}, which is not on PATH ${reason}. Install it (Debian, Ubuntu: apt-get install ${name}).`;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
