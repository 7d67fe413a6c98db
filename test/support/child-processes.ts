import { execFileSync } from "node:child_process";

/** The processes that `parent` started and that still run, by id. */
export function childrenOf(parent: number): readonly number[] {
  return runningProcesses()
    .filter((each) => each.parent === parent)
    .map(({ pid }) => pid);
}

/** Ended ones that nobody asked about yet do not run. */
export function isRunning(pid: number): boolean {
  return runningProcesses().some((each) => each.pid === pid);
}

function runningProcesses(): { readonly pid: number; readonly parent: number }[] {
  const lines = execFileSync("ps", ["-A", "-o", "pid=,ppid=,stat="], { encoding: "utf8" }).trim().split("\n");
  return lines
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , state]) => !state!.startsWith("Z"))
    .map(([pid, parent]) => ({ pid: Number(pid), parent: Number(parent) }));
}
