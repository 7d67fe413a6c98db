import { capture, requestText } from "../bench/client.ts";
import { compare, type Contestant } from "../bench/comparison.ts";
import { cpuTime } from "../bench/cpu-time.ts";
import { until } from "../support/until.ts";
import { type ScaledGateway, scrape, startScaled } from "./gateways.ts";
import { startRegistries } from "./registries.ts";
import { round, type ScaleContext, type ScaleTable } from "./table.ts";

const REGISTRIES = 20;

/** Pages are not to be counted with what is made of them. */
const MEMORY = "1MiB";

/** How long a gateway may take to read all listings. */
const READING = 420_000;

const SEARCHES = { found: "gold", nothing: "neither" } as const;

/** A catalogue of one size, read. */
interface Read {
  readonly gateway: ScaledGateway;
  readonly kept: number;
  /** Bytes that each instrument added: to what is in use, to what is resident, and as the catalogue counts them. */
  readonly used: number;
  readonly resident: number;
  readonly counted: number;
  /** Microseconds of CPU for each instrument that was listed. */
  readonly cpu: number;
  /** What answers and the metric say is missing. */
  readonly partial: string;
  readonly bounds: string;
}

/** What more instruments cost: in {@link REGISTRIES} registries, listed in pages of 1,000. */
export async function measureInstruments(context: ScaleContext): Promise<ScaleTable> {
  const sizes = context.isSmall ? [200, 2_000] : [1_000, 100_000, 1_000_000];
  const read: Read[] = [];
  for (const size of sizes) {
    try {
      read.push(await readCatalogue(context, size));
    } catch (error) {
      // A busy machine needs longer than can be waited for: then the table ends with the size before.
      console.error(`${size} instruments are left out: ${String(error)}`);
      break;
    }
  }
  const found = await compareSearches(context, read, SEARCHES.found);
  const nothing = await compareSearches(context, read, SEARCHES.nothing);
  return {
    what: `instruments, of ${REGISTRIES} registries`,
    sizes: sizes.slice(0, read.length).map((size) => round(size)),
    rows: [
      ["kept in the catalogue", ...read.map(({ kept }) => round(kept))],
      ["memory in use for each", ...read.map(({ used }) => `${round(used)} B`)],
      ["resident memory for each", ...read.map(({ resident }) => `${round(resident)} B`)],
      ["`registry_gateway_catalogue_bytes` for each", ...read.map(({ counted }) => `${round(counted)} B`)],
      ["CPU to read and take in each", ...read.map(({ cpu }) => `${round(cpu)} µs`)],
      ["CPU of a search that finds 25 at once", ...found],
      ["CPU of a search that finds nothing", ...nothing],
      ["registries in `X-Registry-Partial`", ...read.map(({ partial }) => partial)],
      ["`registry_gateway_catalogue_cut_short`, by reason", ...read.map(({ bounds }) => bounds)],
    ],
  };
}

async function readCatalogue(context: ScaleContext, size: number): Promise<Read> {
  const registries = await context.started(startRegistries({ count: REGISTRIES, instruments: size / REGISTRIES }));
  const gateway = await startScaled(context, registries.configOf(REGISTRIES, MEMORY));
  const [before, cpuBefore] = [await gateway.memory(), cpuTime(gateway.pid)];
  let kept = 0;
  await until(async () => {
    const response = await fetch(`http://127.0.0.1:${gateway.port}/catalog/v1/registries`);
    const listed = ((await response.json()) as { registries: readonly { instrumentCount: number | null }[] })
      .registries;
    kept = listed.reduce((sum, { instrumentCount }) => sum + (instrumentCount ?? 0), 0);
    return listed.every(({ instrumentCount }) => instrumentCount !== null);
  }, READING);
  const cpu = (cpuTime(gateway.pid) - cpuBefore) / 1e3 / size;
  const search = await fetch(`http://127.0.0.1:${gateway.port}${searchPath(SEARCHES.found)}`);
  const partial = search.headers.get("x-registry-partial");
  await search.arrayBuffer();
  const after = await gateway.memory();
  const metrics = await scrape(gateway);
  return {
    gateway,
    kept,
    used: (after.used - before.used) / kept,
    resident: (after.resident - before.resident) / kept,
    counted: metrics.series("catalogue_bytes")[0]!.value / kept,
    cpu,
    partial: partial === null ? "none" : `${partial.split(", ").length} of ${REGISTRIES}`,
    bounds: countReasons(
      metrics
        .series("catalogue_cut_short")
        .filter(({ value }) => value === 1)
        .map(({ labels }) => labels["reason"]!),
    ),
  };
}

function countReasons(reasons: readonly string[]): string {
  const counts = [...new Set(reasons)].map((reason) => `${reason} ${reasons.filter((each) => each === reason).length}`);
  return counts.length === 0 ? "none" : counts.join(", ");
}

function searchPath(query: string): string {
  return `/catalog/v1/instruments?query=${query}&pageSize=25`;
}

/** Milliseconds for each size, and beside those of the smallest in the same rounds. */
async function compareSearches(context: ScaleContext, read: readonly Read[], query: string): Promise<string[]> {
  const contestants: Contestant[] = [];
  for (const [at, { gateway }] of read.entries()) {
    const { status, body } = await capture(gateway.port, { method: "GET", path: searchPath(query) });
    const expected = { status, bodyLength: Buffer.from(body, "base64").length };
    const request = requestText({ method: "GET", path: searchPath(query) });
    contestants.push({
      server: { ...gateway, name: String(at) },
      plan: { connections: 4, count: 20, request, expected },
    });
  }
  const measured = await compare(context.load, contestants, { rounds: context.isSmall ? 3 : 9, warmUp: 60 });
  return read.map((_, at) => {
    const cpu = `${round(measured.cpu(String(at)).median / 1000, 2)} ms`;
    return at === 0 ? cpu : `${cpu} (× ${round(measured.ratio(String(at), "0").median, 1)})`;
  });
}
