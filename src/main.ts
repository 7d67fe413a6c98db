#!/usr/bin/env node
// Nothing of ours is imported before the version is known: this program does not load on an older Node.
const NEEDED = 24;

if (Number.parseInt(process.versions.node, 10) < NEEDED) {
  process.stderr.write(`registry-gateway: needs Node.js ${NEEDED} or later, and this is ${process.versions.node}\n`);
  process.exitCode = 1;
} else {
  const { run } = await import("./commands/run.ts");
  // A command may wait for nothing but a timer, and those of the clock keep no process.
  const keeping = setInterval(() => undefined, 2 ** 31 - 1);
  process.exitCode = await run(process.argv.slice(2));
  clearInterval(keeping);
}
