import { readFileSync } from "node:fs";
import { EXIT } from "./command-line.ts";
import { type AssetList, type ListedRegistry, readAssetList } from "./import-asset-list.ts";
import { type ImportedRegistry, writeFragment } from "./import-fragment.ts";
import { printLine, printLines } from "./terminal.ts";
import { verifyRegistry, type VerifyOptions } from "./import-verify.ts";

export interface ImportOptions {
  readonly verify?: unknown;
  readonly "allow-private"?: unknown;
  readonly network?: unknown;
}

/** Registries that are asked at once. */
const CONCURRENCY = 8;

/**
 * `import FILE`: turns a published asset list into the `upstreams` of a config file, on stdout; what is wrong goes to
 * stderr. With `--verify` every registry is asked who it is.
 */
export async function importAssetList(file: string, options: ImportOptions): Promise<number> {
  let list: AssetList;
  try {
    const network = typeof options.network === "string" ? options.network : undefined;
    list = readAssetList(JSON.parse(readFileSync(file, "utf8")), network);
  } catch (error) {
    tell(`${file}: ${(error as Error).message}`);
    return EXIT.failure;
  }
  for (const problem of list.problems) tell(problem);
  const listed = keepOnePerAdmin(list.registries);
  const verified =
    options.verify === true
      ? await verifyAll(listed.kept, { allowPrivate: options["allow-private"] === true })
      : listed.kept.map(unverified);
  // Once more: of two registries without an admin in the list, both may have told the same.
  const { kept, left } = keepOnePerAdmin(verified);
  for (const problem of [...listed.left, ...left]) tell(problem);
  printLines(writeFragment(kept));
  const isWhole = listed.left.length + left.length === 0 && kept.length > 0;
  return isWhole && kept.every(({ doubt }) => doubt === undefined) ? EXIT.ok : EXIT.failure;
}

/** One gateway serves one registry of an admin; which network is meant is not for a program to guess. */
function keepOnePerAdmin<T extends ListedRegistry>(registries: readonly T[]): { kept: T[]; left: string[] } {
  const left: string[] = [];
  const networks = new Map<string, string>();
  const kept = registries.filter(({ admin, network }) => {
    const taken = admin === undefined ? undefined : networks.get(admin);
    if (admin !== undefined && taken === undefined) networks.set(admin, network);
    if (taken === undefined) return true;
    left.push(
      `${JSON.stringify(admin)} is listed on ${JSON.stringify(taken)} and on ${JSON.stringify(network)}: ` +
        "only the first is taken; choose with --network",
    );
    return false;
  });
  return { kept, left };
}

async function verifyAll(registries: readonly ListedRegistry[], options: VerifyOptions): Promise<ImportedRegistry[]> {
  const verified: ImportedRegistry[] = [];
  const queue = registries.entries();
  async function work(): Promise<void> {
    for (const [at, registry] of queue) verified[at] = await verifyOne(registry, options);
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
  return verified;
}

async function verifyOne(registry: ListedRegistry, options: VerifyOptions): Promise<ImportedRegistry> {
  const admins = new Set<string>(registry.admin === undefined ? [] : [registry.admin]);
  let doubt: string | undefined;
  for (const url of registry.urls) {
    const verification = await verifyRegistry(url, options);
    if ("admin" in verification) admins.add(verification.admin);
    const problem = "problem" in verification ? verification.problem : undefined;
    tell(
      `${JSON.stringify(url)}: ${"admin" in verification ? `admin ${JSON.stringify(verification.admin)}` : problem}`,
    );
    doubt ??= problem === undefined ? undefined : `${url}: ${problem}`;
  }
  if (admins.size > 1) doubt = `its nodes and the list name different admins: ${JSON.stringify([...admins])}`;
  const [admin] = admins;
  return { ...registry, admin, doubt };
}

function unverified(registry: ListedRegistry): ImportedRegistry {
  return { ...registry, doubt: undefined };
}

function tell(line: string): void {
  printLine(line, process.stderr);
}
