import { parseArgs } from "node:util";
import { Load } from "./load.ts";
import { formatReport, writeReport } from "./report.ts";
import type { BenchContext, Result, Row } from "./row.ts";
import { QUICK, ROWS } from "./rows.ts";
import { useFolder } from "./work-folder.ts";

const USAGE = `npm run bench -- [--quick] [--only ROW] … [--write]

CPU per request of the gateway beside other servers, measured in one run and given as ratios.

  --quick      the most important rows, less exactly
  --only ROW   ${ROWS.map(({ name }) => name).join(", ")}
  --rounds N   how often each server is measured (21; 7 with --quick)
  --write      put the table into docs/performance.md`;

const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    only: { type: "string", multiple: true },
    rounds: { type: "string" },
    write: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

async function main(): Promise<void> {
  if (values.help) return console.log(USAGE);
  const unknown = values.only?.find((name) => !ROWS.some((row) => row.name === name));
  if (unknown !== undefined) throw new Error(`there is no row "${unknown}"\n${USAGE}`);
  const wanted = values.only ?? (values.quick ? QUICK : undefined);
  const rows = ROWS.filter(({ name }) => wanted === undefined || wanted.includes(name));
  const work = useFolder("bench");
  const load = await Load.start();
  const notes = new Set<string>();
  const results: Result[] = [];
  try {
    for (const row of rows) {
      const begun = performance.now();
      results.push(...(await runRow(row, { load, folder: work.folder, note: (text) => notes.add(text) })));
      console.error(`${row.name}: ${((performance.now() - begun) / 1000).toFixed(1)} s`);
    }
  } finally {
    await load.stop();
    work.remove();
  }
  const report = formatReport(results, notes);
  console.log(report);
  if (values.write) writeReport(report);
}

async function runRow(row: Row, base: Pick<BenchContext, "load" | "folder" | "note">): Promise<Result[]> {
  const servers: { stop(): Promise<void> }[] = [];
  try {
    return await row.run({
      ...base,
      rounds: Number(values.rounds ?? (values.quick ? 7 : 21)),
      warmUp: values.quick ? 9_000 : 20_000,
      async started(starting) {
        const server = await starting;
        servers.push(server);
        return server;
      },
    });
  } finally {
    await Promise.all(servers.toReversed().map((server) => server.stop()));
  }
}

// Signals end the bench as errors do: what it started is stopped when the process exits.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));
await main();
