import { fileURLToPath } from "node:url";
import { FACTORY_PLAN } from "./agreement-rows.ts";
import { PAGE } from "./bodies.ts";
import { requestText } from "./client.ts";
import { compare, type Comparison } from "./comparison.ts";
import { startGateway } from "./gateway.ts";
import { PAGE_PATH } from "./hit-rows.ts";
import { compareHits } from "./hits.ts";
import { gatewayBefore, startRegistry } from "./registry.ts";
import { type BenchContext, cpuResults, newFolder, type Result, type Row } from "./row.ts";
import type { BenchServer } from "./server.ts";

/** Equal processes differ by some per cent for as long as they live: so three of each. */
const PROCESSES = 3;

/** The gateway as it is, beside one that lacks a part. */
interface Lack {
  readonly what: string;
  readonly without: string;
  /** The program that starts the other one. */
  readonly program: string;
  readonly bound: number;
  readonly compare: (context: BenchContext, servers: readonly BenchServer[]) => Promise<Comparison>;
}

/** What parts of the gateway cost of a memory hit, of a POST and of a miss. */
export const overheadRows: readonly Row[] = [
  {
    name: "metrics",
    run: (context) =>
      runOverheadRow(context, {
        what: "memory hit with metrics",
        without: "the same without metrics",
        program: "unmetered-gateway.ts",
        bound: 1.05,
        compare: compareHits,
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
        compare: compareHits,
      }),
  },
  {
    name: "in-step-post",
    run: (context) =>
      runOverheadRow(context, { ...IN_STEP, what: `POST factory ${IN_STEP.what}`, compare: comparePosts }),
  },
  {
    name: "in-step-miss",
    run: (context) => runOverheadRow(context, { ...IN_STEP, what: `miss ${IN_STEP.what}`, compare: compareMisses }),
  },
];

/** Of answers over HTTP/1.1. */
const IN_STEP = {
  what: "whose answer is held against what was asked",
  without: "the same with no look at what is asked",
  program: "unstepped-gateway.ts",
  bound: 1.05,
} as const;

async function runOverheadRow(
  context: BenchContext,
  { what, without, program, bound, compare: compareServers }: Lack,
): Promise<Result[]> {
  const registry = await context.started(startRegistry());
  const config = gatewayBefore([registry]);
  const kinds = [{}, { name: without, program: fileURLToPath(new URL(program, import.meta.url)) }];
  const servers = await Promise.all(
    Array.from({ length: PROCESSES }, () => kinds)
      .flat()
      .map((kind) => context.started(startGateway({ config, folder: newFolder(context), ...kind }))),
  );
  const measured = await compareServers(context, servers);
  return cpuResults(measured, what, servers.slice(0, 2), { [without]: { bound } });
}

function comparePosts(context: BenchContext, servers: readonly BenchServer[]): Promise<Comparison> {
  return compare(
    context.load,
    servers.map((server) => ({ server, plan: FACTORY_PLAN })),
    context,
  );
}

const MISSES = 500;

/** Each miss is of a page of its own. */
function compareMisses(context: BenchContext, servers: readonly BenchServer[]): Promise<Comparison> {
  const plan = {
    connections: FACTORY_PLAN.connections,
    count: MISSES,
    request: requestText({ method: "GET", path: `${PAGE_PATH}?pageSize={n}` }),
    numbering: "each" as const,
    expected: { status: 200, bodyLength: Buffer.byteLength(PAGE) },
  };
  return compare(
    context.load,
    servers.map((server) => ({ server, plan })),
    { ...context, vary: (each, run) => ({ ...each, from: 1 + run * MISSES }) },
  );
}
