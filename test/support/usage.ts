import { readdirSync, readFileSync } from "node:fs";

/** What processes use, as Linux counts it. Those that have ended count nothing. */

/** Nanoseconds of CPU of a process, all its threads, user and system together: the scheduler's count, not ticks. */
export function cpuOf(pid: number): number {
  return list(`/proc/${pid}/task`).reduce((sum, thread) => sum + threadTime(pid, thread), 0);
}

/** Bytes in memory of a process; what processes share is divided among them. */
export function memoryOf(pid: number): number {
  return Number(/^Pss:\s+([0-9]+) kB$/m.exec(read(`/proc/${pid}/smaps_rollup`))?.[1] ?? 0) * 1024;
}

/** These processes and all their descendants. */
export function treeOf(roots: readonly number[]): readonly number[] {
  const tree = [...roots];
  const parents = list("/proc")
    .filter((name) => /^[0-9]+$/.test(name))
    .map((name) => ({ pid: Number(name), parent: parentOf(name) }));
  // Grows while it is walked: children of children are found, too.
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
