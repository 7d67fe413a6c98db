import { fileURLToPath } from "node:url";
import { startGateway } from "./gateway.ts";
import { compareHits } from "./hits.ts";
import { gatewayBefore, startRegistry } from "./registry.ts";
import { type BenchContext, cpuResults, newFolder, type Result, type Row } from "./row.ts";

/** Equal processes differ by some per cent for as long as they live: so three of each. */
const PROCESSES = 3;

/** The gateway as it is, beside one that lacks a part. */
interface Lack {
  readonly what: string;
  readonly without: string;
  /** The program that starts the other one. */
  readonly program: string;
  readonly bound: number;
}

/** What parts of the gateway cost of a memory hit. */
export const overheadRows: readonly Row[] = [
  {
    name: "metrics",
    run: (context) =>
      runOverheadRow(context, {
        what: "memory hit with metrics",
        without: "the same without metrics",
        program: "unmetered-gateway.ts",
        bound: 1.05,
      }),
  },
  {
    name: "traces",
    run: (context) =>
      runOverheadRow(context, {
        what: "memory hit with traces off",
        without: "the same with no code for traces",
        program: "untraced-gateway.ts",
        // Nothing, but for what equal processes differ by.
        bound: 1.02,
      }),
  },
];

async function runOverheadRow(context: BenchContext, { what, without, program, bound }: Lack): Promise<Result[]> {
  const registry = await context.started(startRegistry());
  const config = gatewayBefore([registry]);
  const kinds = [{}, { name: without, program: fileURLToPath(new URL(program, import.meta.url)) }];
  const servers = await Promise.all(
    Array.from({ length: PROCESSES }, () => kinds)
      .flat()
      .map((kind) => context.started(startGateway({ config, folder: newFolder(context), ...kind }))),
  );
  const measured = await compareHits(context, servers);
  return cpuResults(measured, what, servers.slice(0, 2), { [without]: { bound } });
}
