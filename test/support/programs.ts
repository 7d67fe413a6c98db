import { execFileSync } from "node:child_process";
import { accessSync, constants, existsSync } from "node:fs";
import { delimiter, join } from "node:path";

/** A program that tests run, and what brings it. */
export interface Program {
  readonly name: string;
  readonly debianPackage: string;
  /** How to install it where there is no apt-get. */
  readonly elsewhere?: string;
  /** The environment variable that names the program to run in place of the one on PATH. */
  readonly variable?: string;
}

/** 7 or later. */
export const REDIS_SERVER: Program = {
  name: "redis-server",
  debianPackage: "redis-server",
  elsewhere: "Fedora: dnf install valkey-compat-redis; macOS: brew install redis",
  variable: "REDIS_SERVER",
};
export const NGINX: Program = { name: "nginx", debianPackage: "nginx-light" };
export const PROMETHEUS: Program = { name: "prometheus", debianPackage: "prometheus" };
export const PROMTOOL: Program = { name: "promtool", debianPackage: "prometheus" };
export const ALERTMANAGER: Program = { name: "prometheus-alertmanager", debianPackage: "prometheus-alertmanager" };
export const AMTOOL: Program = { name: "amtool", debianPackage: "prometheus-alertmanager" };
export const HAPROXY: Program = { name: "haproxy", debianPackage: "haproxy" };
export const SYSTEMD_ANALYZE: Program = { name: "systemd-analyze", debianPackage: "systemd" };
export const BUILDAH: Program = { name: "buildah", debianPackage: "buildah" };
export const VARNISH: Program = { name: "varnishd", debianPackage: "varnish" };
export const NPM: Program = { name: "npm", debianPackage: "npm" };
export const GO: Program = { name: "go", debianPackage: "golang-go" };
/** The template functions that Helm has, as a source package of Go's. */
export const SPRIG = {
  path: "/usr/share/gocode/src/github.com/Masterminds/sprig",
  debianPackage: "golang-github-masterminds-sprig-dev",
};
export const YAML_OF_GO = { path: "/usr/share/gocode/src/gopkg.in/yaml.v3", debianPackage: "golang-gopkg-yaml.v3-dev" };
export const KUBECTL: Program = { name: "kubectl", debianPackage: "kubernetes-client", variable: "KUBECTL" };
/** Headless, as the operators' console is shown in it. */
export const CHROMIUM: Program = {
  name: "chromium",
  debianPackage: "chromium",
  elsewhere: "Fedora: dnf install chromium",
  variable: "CHROMIUM",
};

const APT_GET = "/usr/bin/apt-get";
/** A browser brings two hundred packages along. */
const INSTALL_TIMEOUT = 600_000;

/** The path of the program; undefined where it is not installed. */
export function findProgram({ name, variable }: Program): string | undefined {
  const named = variable === undefined ? undefined : process.env[variable];
  if (named !== undefined && named !== "") return named;
  // Servers live in folders that are not on every PATH.
  const usual = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin"];
  return [...(process.env["PATH"] ?? "").split(delimiter), ...usual]
    .filter((folder) => folder !== "")
    .map((folder) => join(folder, name))
    .find(isExecutable);
}

/**
 * The path of the program. Root, as in a container or in CI, has it installed, which a line on stdout tells; any other
 * user gets an error that says what to install: tests ask for no rights.
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

/** The same of a package that brings no program: a path that is there once it is installed. */
export function providePath({ path, debianPackage }: { readonly path: string; readonly debianPackage: string }): void {
  if (existsSync(path)) return;
  if (process.getuid?.() !== 0 || !isExecutable(APT_GET)) throw new Error(`The tests need ${debianPackage} of Debian`);
  console.log(`${path} is missing, and the tests run as root: installing Debian's package ${debianPackage}`);
  apt(["update", "-qq"]);
  apt(["install", "-y", "-qq", "--no-install-recommends", debianPackage]);
}

/** What `{path} {flag}` says about its version: the first x.y.z, or `?`. */
export function versionOf(path: string, flag: string): string {
  // Both nginx and varnishd write it to stderr.
  const output = execFileSync("/bin/sh", ["-c", '"$0" "$1" 2>&1', path, flag], { encoding: "utf8", timeout: 5_000 });
  return /[0-9]+\.[0-9]+\.[0-9]+/.exec(output)?.[0] ?? "?";
}

function apt(args: string[]): void {
  execFileSync(APT_GET, args, {
    stdio: ["ignore", "ignore", "inherit"],
    timeout: INSTALL_TIMEOUT,
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  });
}

function explain({ name, debianPackage, elsewhere, variable }: Program, reason: string): string {
  const ways = [`Debian, Ubuntu: apt-get install ${debianPackage}`, ...(elsewhere === undefined ? [] : [elsewhere])];
  return [
    `The tests run ${name}, which is not on PATH${reason}.`,
    `Install it (${ways.join("; ")})${variable === undefined ? "." : `, or name the program: ${variable}=/path/to/${name}`}`,
  ].join("\n");
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
