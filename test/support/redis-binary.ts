import { execFileSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** The redis-server to run: `$REDIS_SERVER`, else the one on PATH. */
export function findRedisServer(): string | undefined {
  const named = process.env["REDIS_SERVER"];
  if (named !== undefined && named !== "") return named;
  const folders = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"];
  return folders
    .filter((folder) => folder !== "")
    .map((folder) => join(folder, "redis-server"))
    .find(isExecutable);
}

/**
 * Makes sure that there is a redis-server: where rights to install packages exist it is installed, else the error says
 * what to do.
 */
export function provideRedisServer(): string {
  const found = findRedisServer();
  if (found !== undefined) return found;
  const prefix = findRights();
  if (prefix === undefined) throw new Error(explain("and this user may not install packages"));
  console.log("redis-server is not on PATH: installing Debian's package redis-server for the tests");
  try {
    run([...prefix, "apt-get", "update", "-qq"]);
    run([...prefix, "apt-get", "install", "-y", "-qq", "--no-install-recommends", "redis-server"]);
  } catch (error) {
    throw new Error(explain("and apt-get could not install it"), { cause: error });
  }
  const installed = findRedisServer();
  if (installed === undefined) throw new Error(explain("and installing it did not bring it"));
  return installed;
}

/** What to put before apt-get: nothing, sudo, or undefined where there are no rights. */
function findRights(): string[] | undefined {
  if (!["/usr/bin/apt-get", "/bin/apt-get"].some(isExecutable)) return undefined;
  if (process.getuid?.() === 0) return [];
  try {
    execFileSync("sudo", ["-n", "true"], { stdio: "ignore", timeout: 5_000 });
    return ["sudo", "-n"];
  } catch {
    return undefined;
  }
}

function run([command, ...args]: string[]): void {
  execFileSync(command!, args, {
    stdio: ["ignore", "ignore", "inherit"],
    timeout: 90_000,
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  });
}

function explain(reason: string): string {
  return [
    `The tests run against a real redis-server (7 or later), which is not on PATH, ${reason}.`,
    "Install it (Debian, Ubuntu: apt-get install redis-server; Fedora: dnf install valkey-compat-redis; macOS: brew install redis)",
    "or name the program: REDIS_SERVER=/path/to/redis-server npm test",
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
