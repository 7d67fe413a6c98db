import { Abort, type Clock, systemClock } from "../clock.ts";
import type { Config, DiscoveryConfig } from "../config/schema.ts";
import { FileWatcher } from "../config/watched-files.ts";
import { isUsed } from "../discovery/candidate.ts";
import { isRefused, isSameSet, type Pin } from "../discovery/pin.ts";
import { PinFile } from "../discovery/pin-file.ts";
import { type Proof, Prober } from "../discovery/prober.ts";
import { createSources, type Source } from "../discovery/sources.ts";

/** Registries that are asked at once. */
const CONCURRENCY = 16;

interface Listed {
  readonly admin: string;
  readonly urls: readonly string[];
  readonly source: string;
}

/**
 * What discovery would find, without pinning or using anything.
 *
 * @param print called with each line
 * @returns whether every source could be read, and every registry proved itself
 */
export async function checkDiscovery(config: Config, print: (line: string) => void): Promise<boolean> {
  const { discovery, limits, upstreams } = config;
  if (discovery === undefined) return true;
  const clock = systemClock();
  const listed = new Map<string, Listed>();
  let isGood = true;
  for (const source of createSources(discovery.sources, { clock, allowPrivate: discovery.allowPrivate })) {
    isGood = (await readSource(source, listed, print)) && isGood;
  }
  const pins = readPins(discovery, print);
  isGood = pins !== undefined && isGood;
  const written = new Set(upstreams.map(({ admin }) => admin?.toLowerCase()));
  const asked = [...listed.values()].filter(({ admin }) => !written.has(admin.toLowerCase()));
  const lines = await proveAll(asked, createProber(discovery, limits, clock), (each, proof) => {
    isGood = proof.proved.length > 0 && isGood;
    return describe(each, proof, pins?.get(each.admin), discovery.approve);
  });
  for (const line of lines) print(line);
  for (const [admin, pin] of pins ?? []) {
    if (isUsed(pin) && !listed.has(admin))
      print(`discovery: ${admin}: pinned, and no source lists it; it stays in use`);
  }
  return isGood;
}

async function readSource(
  source: Source,
  listed: Map<string, Listed>,
  print: (line: string) => void,
): Promise<boolean> {
  try {
    const { registries, problems } = await source.read(new Abort());
    for (const [admin, urls] of registries) {
      if (!listed.has(admin)) listed.set(admin, { admin, urls, source: source.name });
    }
    print(`discovery source ${source.name}: lists ${registries.size} registries`);
    for (const problem of problems) print(`discovery source ${source.name}: ${problem}`);
    return problems.length === 0;
  } catch (error) {
    print(`discovery source ${source.name}: ${(error as Error).message}`);
    return false;
  }
}

function readPins(discovery: DiscoveryConfig, print: (line: string) => void): Map<string, Pin> | undefined {
  try {
    return new Map((new PinFile(discovery.pinFile).read() ?? []).map((pin) => [pin.admin, pin]));
  } catch (error) {
    print(`discovery.pinFile: it ${(error as Error).message}`);
    return undefined;
  }
}

function createProber({ defaults, allowPrivate }: DiscoveryConfig, limits: Config["limits"], clock: Clock): Prober {
  return new Prober({ clock, files: new FileWatcher(clock), limits, defaults, allowPrivate });
}

async function proveAll(
  listed: readonly Listed[],
  prober: Prober,
  sayOf: (each: Listed, proof: Proof) => string[],
): Promise<string[]> {
  const lines: string[][] = [];
  const queue = listed.entries();
  const work = async (): Promise<void> => {
    for (const [at, each] of queue) lines[at] = sayOf(each, await prober.prove(each.admin, each.urls));
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
  prober.close();
  return lines.flat();
}

function describe(each: Listed, proof: Proof, pin: Pin | undefined, approve: DiscoveryConfig["approve"]): string[] {
  const { admin, urls, source } = each;
  const place = `discovery: ${admin}`;
  const proved = `${proof.proved.length} of ${urls.length} URLs of ${source} prove it`;
  return [
    `${place}: ${proved}; ${fateOf(each, proof, pin, approve)}`,
    ...proof.mended.map(({ from, to }) => `${place}: ${from} is meant to be ${to}`),
    ...[...proof.strangers].map(([url, other]) => `${place}: ${url} is the registry of ${other}`),
    ...[...proof.silent].map(([url, problem]) => `${place}: ${url}: ${problem}`),
  ];
}

/** What a running gateway would do with it. */
function fateOf({ urls }: Listed, proof: Proof, pin: Pin | undefined, approve: DiscoveryConfig["approve"]): string {
  if (isUsed(pin)) {
    if (isSameSet(pin.published, urls)) return "pinned like this";
    return isRefused(pin, urls)
      ? "pinned at other URLs; this change was refused"
      : "pinned at other URLs: this change waits";
  }
  if (proof.proved.length === 0) return "not used";
  if (isRefused(pin, urls)) return "was refused";
  return approve === "none" ? "new: waits for approval" : "new: would be used";
}
