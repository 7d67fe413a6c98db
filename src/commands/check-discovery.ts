import { Abort, systemClock } from "../clock.ts";
import type { Config } from "../config/schema.ts";
import { FileWatcher } from "../config/watched-files.ts";
import { type Proof, Prober } from "../discovery/prober.ts";
import { createSources, type Source } from "../discovery/sources.ts";

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
  const { sources, defaults, allowPrivate } = discovery;
  const clock = systemClock();
  const listed = new Map<string, Listed>();
  let isGood = true;
  for (const source of createSources(sources, { clock, allowPrivate })) {
    isGood = (await readSource(source, listed, print)) && isGood;
  }
  const written = new Set(upstreams.map(({ admin }) => admin?.toLowerCase()));
  const prober = new Prober({
    clock,
    files: new FileWatcher(clock),
    limits,
    defaults,
    allowPrivate,
    // There is no later reading at which the rest would be asked.
    mostQuestions: Infinity,
  });
  const asked = [...listed.values()].filter(({ admin }) => !written.has(admin.toLowerCase()));
  // The prober bounds how many are asked at once.
  const proofs = await Promise.all(asked.map(({ admin, urls }) => prober.prove(admin, urls)));
  prober.close();
  for (const [at, proof] of proofs.entries()) for (const line of describe(asked[at]!, proof)) print(line);
  return isGood && proofs.every(({ proved }) => proved.length > 0);
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

function describe({ admin, urls, source }: Listed, { proved, mended, strangers, silent }: Proof): string[] {
  const place = `discovery: ${admin}`;
  return [
    `${place}: ${proved.length} of ${urls.length} URLs of ${source} prove it`,
    ...mended.map(({ from, to }) => `${place}: ${from} is meant to be ${to}`),
    ...[...strangers].map(([url, other]) => `${place}: ${url} is the registry of ${other}`),
    ...[...silent].map(([url, problem]) => `${place}: ${url}: ${problem}`),
  ];
}
