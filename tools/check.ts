// `npm run check`: every step runs, whatever became of those before it, and what failed is printed once more at the end.
import { spawnSync } from "node:child_process";

const STEPS: readonly (readonly [program: string, ...args: string[]])[] = [
  ["tsc"],
  ["tsc", "-p", "console"],
  ["oxlint", "--type-aware", "--deny-warnings"],
  ["oxfmt", "--check"],
  ["node", "tools/generate.ts", "--check"],
  ["node", "tools/unused.ts"],
];

const failures: string[] = [];
for (const [program, ...args] of STEPS) {
  const step = [program, ...args].join(" ");
  // npm puts the programs of the dependencies on PATH.
  const { status, stdout, stderr, error } = spawnSync(program, args, { encoding: "utf8" });
  console.log(`${status === 0 ? "✓" : "✗"} ${step}`);
  if (status !== 0) failures.push(`✗ ${step}\n${error?.message ?? `${stdout}${stderr}`.trim()}`);
}
for (const failure of failures) console.error(`\n${failure}`);
if (failures.length > 0) {
  console.error(`\n${failures.length} of ${STEPS.length} steps failed`);
  process.exitCode = 1;
}
