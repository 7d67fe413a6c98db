import { execFileSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** The path of an installed program, or undefined. Servers live in folders that are not on everybody's PATH. */
export function findProgram(name: string): string | undefined {
  const folders = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/local/sbin", "/usr/sbin", "/sbin"];
  return folders
    .filter((folder) => folder !== "")
    .map((folder) => join(folder, name))
    .find(isExecutable);
}

/** What `{program} {flag}` says about its version: the first x.y.z, or `?`. */
export function versionOf(program: string, flag: string): string {
  // Both nginx and varnishd write it to stderr.
  const output = execFileSync("/bin/sh", ["-c", '"$0" "$1" 2>&1', program, flag], { encoding: "utf8", timeout: 5_000 });
  return /[0-9]+\.[0-9]+\.[0-9]+/.exec(output)?.[0] ?? "?";
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
