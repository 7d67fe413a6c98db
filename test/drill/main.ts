import { once } from "node:events";
import { CONDITIONS } from "../../src/operations/conditions/conditions.ts";
import { ALERTS } from "../../tools/alerts.ts";
import { version } from "../../src/version.ts";
import { DRILLS } from "./drills.ts";
import { runDrill } from "./run.ts";

const USAGE = `npm run drill -- NAME [--once]

Breaks something, so that you see what it looks like: what alerts, what status and the console say, what the runbook tells
you to do. Everything is on loopback and ends with Ctrl-C. --once mends it as soon as it was seen, and ends.

${Object.entries(DRILLS)
  .map(([name, { breaks }]) => `  ${name.padEnd(16)} ${breaks}`)
  .join("\n")}
`;

const [name = "", ...options] = process.argv.slice(2);
const drill = Object.hasOwn(DRILLS, name) ? DRILLS[name] : undefined;
if (drill === undefined || options.some((option) => option !== "--once")) {
  console.log(USAGE);
  process.exit(name === "" || name === "--help" ? 0 : 1);
}
const condition = CONDITIONS.find(({ alert }) => alert === drill.alert)!;
console.log(`Registry Gateway ${version}. Drill: ${drill.breaks}.\n`);
const outcome = await runDrill(drill, {
  say: (line) => console.log(line),
  isSeen: async () => {
    const { means, look, act } = ALERTS[drill.alert].runbook;
    const pages = condition.severity === "page" ? "pages" : "warns";
    console.log(`\nAlert ${condition.alert}: ${pages} when it has held for ${condition.for}. Its runbook:`);
    console.log(`  means  ${means}\n  look   ${look}\n  do     ${act}\n`);
    if (options.includes("--once")) return;
    console.log("Ctrl-C mends it and ends.");
    await Promise.race([once(process, "SIGINT"), once(process, "SIGTERM")]);
  },
});
process.exit(outcome.seenAfter !== undefined && outcome.isFound && outcome.isOver ? 0 : 1);
