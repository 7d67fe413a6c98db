import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * What no code here may use, for nothing documents it: Node's private fields, its parser's, sockets' and servers' own
 * functions put in the place of others, code made of text, V8's flags set while it runs.
 */
const PRIVATE_MEANS: readonly (readonly [name: string, means: RegExp])[] = [
  ["a private field of Node's", /\b_(?:header|httpMessage|handle|parent|events|readableState|writableState)\b/],
  ["Node's parser", /\bonIncoming\b|\bHTTPParser\b/],
  ["a counter of libuv's", /\buvMetricsInfo\b|\bloopCount\b/],
  ["an option that Node does not document", /\bhttpAllowHalfOpen\b/],
  ["a function of Node's replaced", /\.(?:push|write|end|emit|destroy|closeIdleConnections) = /],
  ["Node's own listeners taken over", /\.(?:rawListeners|listeners|removeAllListeners)\(/],
  ["code made of text", /\bnew Function\b|\beval\(/],
  ["a flag of V8's set from code", /\bsetFlagsFromString\b/],
  ["a binding of Node's", /\bprocess\.binding\b|\binternalBinding\b/],
];

const root = join(import.meta.dirname, "..");
const faults: string[] = [];
for (const file of globSync("{src,console,tools,viewer}/**/*.{ts,tsx}", { cwd: root })) {
  if (file === "tools/private-means.ts") continue;
  for (const [i, line] of readFileSync(join(root, file), "utf8").split("\n").entries()) {
    const found = PRIVATE_MEANS.find(([, means]) => means.test(line));
    if (found !== undefined) faults.push(`${file}:${i + 1}: ${found[0]}: ${line.trim()}`);
  }
}
for (const fault of faults) process.stderr.write(`${fault}\n`);
if (faults.length > 0) process.exitCode = 1;
