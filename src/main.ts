#!/usr/bin/env node
// Nothing of ours is imported before the version is known: this program does not load on an older Node.
const NEEDED = 24;

if (Number.parseInt(process.versions.node, 10) < NEEDED) {
  process.stderr.write(`registry-gateway: needs Node.js ${NEEDED} or later, and this is ${process.versions.node}\n`);
  process.exitCode = 1;
} else {
  const { run } = await import("./commands/run.ts");
  process.exitCode = await run(process.argv.slice(2));
}
