import { parseArgs } from "node:util";
import { Load } from "../bench/load.ts";
import { useFolder } from "../bench/work-folder.ts";
import { measureInstruments } from "./instruments.ts";
import { measureReplicas } from "./replicas.ts";
import { formatTable, type Part, writeTable } from "./table.ts";
import { measureUpstreams } from "./upstreams.ts";

const PARTS: readonly Part[] = [
  { name: "upstreams", measure: measureUpstreams },
  { name: "instruments", measure: measureInstruments },
  { name: "replicas", measure: measureReplicas },
];

const USAGE = `npm run scale -- [--only PART] … [--small] [--write]

What the gateway costs as what it serves grows: a table for each part.

  --only PART  ${PARTS.map(({ name }) => name).join(", ")}
  --small      small sizes, to see that it works
  --write      put the tables into docs/scaling.md`;

/** Whatever hangs: it ends by itself. */
const LIMIT = 20 * 60_000;

const { values } = parseArgs({
  options: {
    only: { type: "string", multiple: true },
    small: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

async function main(): Promise<void> {
  if (values.help) return console.log(USAGE);
  const unknown = values.only?.find((name) => !PARTS.some((part) => part.name === name));
  if (unknown !== undefined) throw new Error(`there is no part "${unknown}"\n${USAGE}`);
  const limit = setTimeout(() => {
    console.error("npm run scale: not done in 20 minutes");
    process.exit(1);
  }, LIMIT);
  for (const part of PARTS) {
    if (values.only !== undefined && !values.only.includes(part.name)) continue;
    const begun = performance.now();
    const table = formatTable(await run(part));
    console.log(`\n${table}`);
    console.error(`${part.name}: ${((performance.now() - begun) / 1000).toFixed(0)} s`);
    if (values.write) writeTable(part.name, table);
  }
  clearTimeout(limit);
}

async function run({ measure }: Part): ReturnType<Part["measure"]> {
  const work = useFolder("scale");
  const load = await Load.start();
  const servers: { stop(): Promise<void> }[] = [load];
  let folders = 0;
  try {
    return await measure({
      load,
      isSmall: values.small,
      newFolder: () => `${work.folder}/${(folders += 1)}`,
      async started(starting) {
        const server = await starting;
        servers.push(server);
        return server;
      },
    });
  } finally {
    await Promise.all(servers.toReversed().map((server) => server.stop()));
    work.remove();
  }
}

// Signals end it as errors do: what it started is stopped when the process exits.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));
await main();
