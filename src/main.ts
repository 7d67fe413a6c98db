#!/usr/bin/env node
import { setFlagsFromString } from "node:v8";

// Nothing of ours is imported before the version is known: this program does not load on an older Node.
const NEEDED = 24;

// Bodies of evicted entries lie outside V8's heap, which by itself collects them late: 80 % beyond what is in use. With
// less, bodies that come and go between two collections of young objects make it collect everything instead.
setFlagsFromString("--heap-growing-percent=80");
// V8 may find that what some line makes lives long, and makes it old from then on. Where the first requests happened to
// fall into a full collection, that was a part of a request: its body outlived it, and with it each later one's, until
// full collections came all the time. Such a process paid half as much again for each POST, for life.
setFlagsFromString("--no-allocation-site-pretenuring");

if (Number.parseInt(process.versions.node, 10) < NEEDED) {
  process.stderr.write(`registry-gateway: needs Node.js ${NEEDED} or later, and this is ${process.versions.node}\n`);
  process.exitCode = 1;
} else {
  const { run } = await import("./commands/run.ts");
  process.exitCode = await run(process.argv.slice(2));
}
