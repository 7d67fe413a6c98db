import { readdirSync, readFileSync } from "node:fs";

/**
 * Nanoseconds of CPU that the process `pid` and all its descendants have used so far, user and system together: what
 * the scheduler counted, not ticks. Linux only. Descendants that have ended are not counted.
 */
export function cpuTime(pid: number): number {
  return processTree([pid]).reduce((sum, each) => sum + ownCpuTime(each), 0);
}

/** The same of the process alone. */
export function ownCpuTime(pid: number): number {
  return list(`/proc/${pid}/task`).reduce((sum, thread) => sum + threadTime(pid, thread), 0);
}

/** The processes and all their descendants. */
export function processTree(roots: readonly number[]): readonly number[] {
  const tree = [...roots];
  const parents = list("/proc")
    .filter((name) => /^[0-9]+$/.test(name))
    .map((name) => ({ pid: Number(name), parent: parentOf(name) }));
  // Grows while it is walked: children of children are found too.
  for (const pid of tree) {
    for (const each of parents) if (each.parent === pid) tree.push(each.pid);
  }
  return tree;
}

function parentOf(pid: string): number {
  const stat = read(`/proc/${pid}/stat`);
  // The program's name, in parentheses, may hold anything; the parent is the second field behind it.
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1] ?? Number.NaN);
}

function threadTime(pid: number, thread: string): number {
  return Number(read(`/proc/${pid}/task/${thread}/schedstat`).split(" ")[0]);
}

// A process may end between being listed and being read.
function list(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
