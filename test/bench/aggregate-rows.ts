import { setTimeout as sleep } from "node:timers/promises";
import { startProcess, stop } from "./child.ts";
import { capture, type HttpRequest, requestText } from "./client.ts";
import { compare, type Contestant } from "./comparison.ts";
import { startGateway } from "./gateway.ts";
import type { ManyRegistriesOptions } from "./many-registries-process.ts";
import { LASTING } from "./registry.ts";
import { type BenchContext, cpuResults, newFolder, type Result, type Row } from "./row.ts";
import type { BenchServer } from "./server.ts";

const REGISTRIES = 50;
const INSTRUMENTS = 2_000;
const LISTING = "/registry/metadata/v1/instruments?pageSize=25";
const SEARCH = "/catalog/v1/instruments?query=gold&pageSize=25";
const PAGE_HIT = "a page of one registry, memory hit";

/** How long the walker may take to read all listings. */
const WALK_PATIENCE = 60_000;

/** Many registries as one. */
export const aggregateRows: readonly Row[] = [{ name: "aggregate", run: runAggregateRows }];

async function runAggregateRows(context: BenchContext): Promise<Result[]> {
  const admins = Array.from({ length: REGISTRIES }, (_, i) => `registry-${i}::1220${String(i).padStart(64, "0")}`);
  const options: ManyRegistriesOptions = { admins, instruments: INSTRUMENTS };
  const { child, port } = await startProcess("many-registries-process.ts", options);
  await context.started(Promise.resolve({ stop: () => stop(child) }));
  const upstreams = admins.map((admin, i) => ({ name: `r${i}`, admin, urls: [`http://127.0.0.1:${port}/${i}`] }));
  const config = { cache: LASTING, upstreams };
  const gateway = await context.started(startGateway({ config, folder: newFolder(context) }));
  await untilWalked(gateway);

  const rows = [
    { what: "merged page of 25, fresh in the cache", path: LISTING, count: 500 },
    { what: "catalogue search over 100,000 instruments of 50 registries", path: SEARCH, count: 100 },
  ];
  const hit = { path: `/api/token-standard/v0/registrars/r0${LISTING}`, count: 1_000 };
  const results: Result[] = [];
  for (const { what, ...measured } of rows) {
    const server = { ...gateway, name: "gateway" };
    const baseline = { ...gateway, name: PAGE_HIT };
    const contestants = [await contestant(server, measured), await contestant(baseline, hit)];
    const comparison = await compare(context.load, contestants, { ...context, warmUp: context.warmUp / 10 });
    results.push(...cpuResults(comparison, what, [server, baseline]));
  }
  return results;
}

async function contestant(
  server: BenchServer,
  { path, count }: { readonly path: string; readonly count: number },
): Promise<Contestant> {
  const request: HttpRequest = { method: "GET", path };
  const { status, body } = await capture(server.port, request);
  const expected = { status, bodyLength: Buffer.from(body, "base64").length };
  if (status !== 200) throw new Error(`${path}: ${Buffer.from(body, "base64").toString()}`);
  return { server, plan: { connections: 8, count, request: requestText(request), expected } };
}

async function untilWalked({ port }: BenchServer): Promise<void> {
  const end = performance.now() + WALK_PATIENCE;
  for (;;) {
    const { body } = await capture(port, { method: "GET", path: "/catalog/v1/registries" });
    const { registries = [] } = JSON.parse(Buffer.from(body, "base64").toString()) as {
      registries?: readonly { readonly instrumentCount?: number | null }[];
    };
    if (registries.length === REGISTRIES && registries.every((each) => each.instrumentCount === INSTRUMENTS)) return;
    if (performance.now() > end) throw new Error("the listings were not read in time");
    await sleep(200);
  }
}
