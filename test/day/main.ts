import { parseArgs } from "node:util";
import { CONTESTANTS } from "./contestants/all.ts";
import { planDay } from "./plan.ts";
import { type DayResult, playDay } from "./play.ts";
import { formatReport, readResults, writeReport } from "./report.ts";

const USAGE = `npm run day -- [--quick | --minutes N] [--only NAME] … [--write]

A day of wallets, with faults, through this gateway and through other servers, one after the other.

  --minutes N  of real time into which each contestant's day is squeezed (10)
  --quick      the same as --minutes 2
  --only NAME  ${CONTESTANTS.map(({ name }) => name).join("; ")}
  --write      put table, pictures and raw results into docs; results of others that are there stay`;

const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    minutes: { type: "string" },
    only: { type: "string", multiple: true },
    write: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

async function main(): Promise<void> {
  if (values.help) return console.log(USAGE);
  const unknown = values.only?.find((each) => !CONTESTANTS.some(({ name }) => name === each));
  if (unknown !== undefined) throw new Error(`there is no contestant "${unknown}"\n${USAGE}`);
  const minutes = values.minutes === undefined ? (values.quick ? 2 : 10) : Number(values.minutes);
  if (!(minutes >= 0.1 && minutes <= 60)) throw new Error(`--minutes: 0.1 to 60\n${USAGE}`);
  let results = values.write ? readResults(minutes) : [];
  for (const contestant of CONTESTANTS) {
    if (values.only !== undefined && !values.only.includes(contestant.name)) continue;
    const begun = performance.now();
    try {
      const result = await playDay(contestant, planDay(minutes));
      results = [...results.filter(({ name }) => name !== contestant.name), result];
    } catch (error) {
      // The others are worth their time all the same.
      console.error(contestant.name, error);
      process.exitCode = 1;
      continue;
    }
    console.error(`${contestant.name}: ${((performance.now() - begun) / 1000).toFixed(0)} s`);
    console.error(describeDetails(results.at(-1)!));
    // After each: who interrupts a run of an hour keeps what there is.
    if (values.write) writeReport(results);
  }
  console.log(formatReport(results));
}

/** What the tables leave out: what registries were asked, and each request that was not answered right. */
function describeDetails({ registries, wallets }: DayResult): string {
  const asked: Record<string, number> = { connections: 0 };
  for (const each of registries) {
    asked["connections"]! += each.connections;
    for (const [kind, count] of Object.entries(each.asked)) asked[kind] = (asked[kind] ?? 0) + count;
  }
  const lines = wallets.troubles.map(
    ({ at, took, fault = "quiet", registry, asked: question, verdict, status, said }) =>
      `${at.toFixed(2)} s, ${fault}: r${registry} ${question}: ${verdict} after ${took} ms, ${status} ${said}`,
  );
  return [JSON.stringify(asked), ...lines].join("\n");
}

// Signals end the day as errors do: what it started is stopped when the process exits.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));
await main();
