import { execFileSync } from "node:child_process";
import { accessSync, constants, existsSync } from "node:fs";
import { delimiter, join } from "node:path";

/** A program that tests run, and what brings it. */
export interface Program {
  readonly name: string;
  readonly debianPackage: string;
  /** The environment variable that names the program to run in place of the one on PATH. */
  readonly variable: string;
}

export const REDIS_SERVER: Program = {
  name: "redis-server",
  debianPackage: "redis-server",
  variable: "REDIS_SERVER",
};
export const CHROMIUM: Program = { name: "chromium", debianPackage: "chromium", variable: "CHROMIUM" };
export const NGINX: Program = { name: "nginx", debianPackage: "nginx-light", variable: "NGINX" };
export const VARNISH: Program = { name: "varnishd", debianPackage: "varnish", variable: "VARNISHD" };
export const HAPROXY: Program = { name: "haproxy", debianPackage: "haproxy", variable: "HAPROXY" };
export const OPENSSL: Program = { name: "openssl", debianPackage: "openssl", variable: "OPENSSL" };
export const PROMETHEUS: Program = { name: "prometheus", debianPackage: "prometheus", variable: "PROMETHEUS" };
export const PROMTOOL: Program = { name: "promtool", debianPackage: "prometheus", variable: "PROMTOOL" };
export const SYSTEMD_ANALYZE: Program = {
  name: "systemd-analyze",
  debianPackage: "systemd",
  variable: "SYSTEMD_ANALYZE",
};
export const GO: Program = { name: "go", debianPackage: "golang-go", variable: "GO" };

const APT_GET = "/usr/bin/apt-get";

/** The path of the program; undefined where it is not installed. */
export function findProgram({ name, variable }: Program): string | undefined {
  const named = process.env[variable];
  if (named !== undefined && named !== "") return named;
  // Servers live in folders that are not on every PATH.
  const usual = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin"];
  return [...(process.env["PATH"] ?? "").split(delimiter), ...usual]
    .filter((folder) => folder !== "")
    .map((folder) => join(folder, name))
    .find(isExecutable);
}

/**
 * The path of the program. Root, as in a container or in CI, has it installed, which a line on stdout tells; any other user
 * gets an error that says what to install: tests ask for no rights.
 */
export function provideProgram(program: Program): string {
  const found = findProgram(program);
  if (found !== undefined) return found;
  const { name, debianPackage } = program;
  if (process.getuid?.() !== 0 || !isExecutable(APT_GET)) throw new Error(explain(program, ""));
  console.log(`${name} is not on PATH, and the tests run as root: installing Debian's package ${debianPackage}`);
  try {
    apt(["update", "-qq"]);
    apt(["install", "-y", "-qq", "--no-install-recommends", debianPackage]);
  } catch (error) {
    throw new Error(explain(program, ", and apt-get could not install it"), { cause: error });
  }
  const installed = findProgram(program);
  if (installed === undefined) throw new Error(explain(program, `, and the package ${debianPackage} did not bring it`));
  return installed;
}

/** Has what a package of Debian brings at `path`, as {@link provideProgram} has a program. */
export function provideFolder(path: string, debianPackage: string): void {
  if (existsSync(path)) return;
  if (process.getuid?.() !== 0 || !isExecutable(APT_GET)) {
    throw new Error(`The tests need ${path}. Install it (Debian, Ubuntu: apt-get install ${debianPackage})`);
  }
  console.log(`${path} is not there, and the tests run as root: installing Debian's package ${debianPackage}`);
  apt(["update", "-qq"]);
  apt(["install", "-y", "-qq", "--no-install-recommends", debianPackage]);
}

function apt(args: string[]): void {
  execFileSync(APT_GET, args, {
    stdio: ["ignore", "ignore", "inherit"],
    // A browser brings two hundred packages along.
    timeout: 600_000,
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  });
}

function explain({ name, debianPackage, variable }: Program, reason: string): string {
  return (
    `The tests run ${name}, which is not on PATH${reason}. Install it (Debian, Ubuntu: apt-get install ` +
    `${debianPackage}; elsewhere the package of that name), or name the program: ${variable}=/path/to/${name}`
  );
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
