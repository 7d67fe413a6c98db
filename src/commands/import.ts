import { Document, YAMLMap } from "yaml";
import { systemClock } from "../clock.ts";
import { escapeReferences } from "../config/environment.ts";
import { configFromFlags } from "../config/flags.ts";
import { parseConfig } from "../config/parse.ts";
import { aliasFrom, normaliseParty } from "../config/upstream-names.ts";
import { FileWatcher } from "../config/watched-files.ts";
import { normaliseNodeUrl } from "../config/urls.ts";
import { type AssetList, type ListedRegistry, MAX_LIST, readAssetList } from "../discovery/asset-list.ts";
import { FileFault, readTextFile } from "../config/text-file.ts";
import { Prober } from "../discovery/prober.ts";
import { EXIT } from "./command-line.ts";
import { printLine, printLines } from "./terminal.ts";

export interface ImportOptions {
  readonly verify?: unknown;
  readonly "allow-private"?: unknown;
  readonly network?: unknown;
}

/**
 * `import FILE`: turns a published asset list into the `upstreams` of a config file, on stdout; what is wrong goes to
 * stderr. With `--verify` every registry is asked who it is.
 */
export async function importAssetList(file: string, options: ImportOptions): Promise<number> {
  let list: AssetList;
  try {
    const network = typeof options.network === "string" ? options.network : undefined;
    list = await readAssetList(readTextFile(file, MAX_LIST), network);
  } catch (error) {
    // What is wrong with the file itself names it already.
    report(error instanceof FileFault ? error.message : `${file}: ${(error as Error).message}`);
    return EXIT.failure;
  }
  for (const problem of list.problems) report(problem);
  const listed = keepOnePerAdmin(list.registries);
  const verified =
    options.verify === true
      ? await verifyAll(listed.kept, options["allow-private"] === true)
      : listed.kept.map((registry) => ({ ...registry, doubt: undefined }));
  // Once more: of two registries without an admin in the list, both may have named the same.
  const { kept, left } = keepOnePerAdmin(verified);
  for (const problem of [...listed.left, ...left]) report(problem);
  const fragment = writeFragment(kept);
  printLines(fragment);
  const isWhole = listed.left.length + left.length === 0 && kept.length > 0;
  return isWhole && kept.every(({ doubt }) => doubt === undefined) && isGood(fragment) ? EXIT.ok : EXIT.failure;
}

/** Whether `check` takes it. */
function isGood(fragment: string): boolean {
  const { problems } = parseConfig({ text: fragment, file: "imported", env: {} });
  for (const { path, message } of problems) report(`${path}: ${message}`);
  return problems.length === 0;
}

/** One gateway serves one registry of an admin; which network or spelling is meant is not for a program to guess. */
function keepOnePerAdmin<T extends ListedRegistry>(registries: readonly T[]): { kept: T[]; left: string[] } {
  const left: string[] = [];
  const first = new Map<string, T>();
  const kept = registries.filter((registry) => {
    const { admin } = registry;
    if (admin === undefined) return true;
    const taken = first.get(normaliseParty(admin));
    if (taken === undefined) first.set(normaliseParty(admin), registry);
    else {
      const [one, other] = [taken, registry].map(
        (each) => `${JSON.stringify(each.admin)} on ${JSON.stringify(each.network)}`,
      );
      left.push(`${one} and ${other} are one admin: only the first is taken; choose with --network, or in the list`);
    }
    return taken === undefined;
  });
  return { kept, left };
}

/** A list is a stranger's word: no registry is asked at an address that is not public, unless that is allowed. */
async function verifyAll(registries: readonly ListedRegistry[], allowPrivate: boolean): Promise<ImportedRegistry[]> {
  const { limits, upstreams } = configFromFlags({ upstreams: ["https://registry.example"] });
  const clock = systemClock();
  const prober = new Prober({
    clock,
    files: new FileWatcher(clock),
    limits,
    defaults: upstreams[0]!,
    allowPrivate,
    mostQuestions: Infinity,
  });
  try {
    return await Promise.all(registries.map((registry) => verifyOne(registry, prober)));
  } finally {
    prober.close();
  }
}

async function verifyOne(registry: ListedRegistry, prober: Prober): Promise<ImportedRegistry> {
  const { admin: listed } = registry;
  if (listed === undefined) return verifyUnnamed(registry, prober);
  const { proved, mended, silent, strangers } = await prober.prove(listed, registry.urls);
  for (const url of proved) report(`${JSON.stringify(url)}: admin ${JSON.stringify(listed)}`);
  for (const { from, to } of mended) report(`${JSON.stringify(from)}: is meant to be ${JSON.stringify(to)}`);
  for (const [url, admin] of strangers) report(`${JSON.stringify(url)}: admin ${JSON.stringify(admin)}`);
  for (const [url, problem] of silent) report(`${JSON.stringify(url)}: ${problem}`);
  const admins = [listed, ...strangers.values()];
  const [unasked] = silent;
  const doubt =
    strangers.size > 0
      ? `its nodes and the list name different admins: ${JSON.stringify([...new Set(admins)])}`
      : unasked && `${unasked[0]}: ${unasked[1]}`;
  // What is mended may be listed as it should be, too.
  const urls = new Set(registry.urls.map((url) => mended.find(({ from }) => from === url)?.to ?? url));
  return { ...registry, urls: [...urls], doubt };
}

/** Of a registry whose admin the list leaves open, its nodes say it, all the same one. */
async function verifyUnnamed(registry: ListedRegistry, prober: Prober): Promise<ImportedRegistry> {
  const admins = new Set<string>();
  let doubt: string | undefined;
  for (const url of registry.urls) {
    const verdict = await prober.ask(url);
    if ("admin" in verdict) admins.add(verdict.admin);
    else doubt ??= `${url}: ${verdict.problem}`;
    report(
      `${JSON.stringify(url)}: ${"admin" in verdict ? `admin ${JSON.stringify(verdict.admin)}` : verdict.problem}`,
    );
  }
  if (admins.size > 1) doubt = `its nodes name different admins: ${JSON.stringify([...admins])}`;
  const [admin] = admins;
  return { ...registry, admin, doubt };
}

function report(line: string): void {
  printLine(line, process.stderr);
}

/** A registry with what checking it has brought. */
export interface ImportedRegistry extends ListedRegistry {
  /** Why it must not be used as it is; undefined where it may be, or was not checked. */
  readonly doubt: string | undefined;
}

/**
 * The `upstreams` of a config file. Registries in doubt are there, switched off, with the reason beside them.
 *
 * @param registries admins occur once
 */
export function writeFragment(registries: readonly ImportedRegistry[]): string {
  const names = nameRegistries(registries);
  const document = new Document({ upstreams: [] });
  const list = registries.map(({ network, admin, urls, doubt }, at) => {
    const keys = {
      name: names[at],
      ...(doubt === undefined ? {} : { enabled: false }),
      // A value of a list stays text, also where it looks like a reference to this machine's environment.
      ...(admin === undefined ? {} : { admin: escapeReferences(admin) }),
      urls: urls.map((url) => escapeReferences(asWritten(url))),
    };
    const node = document.createNode(keys);
    if (node instanceof YAMLMap) node.commentBefore = commentOf(network, doubt);
    return node;
  });
  document.set("upstreams", document.createNode(list));
  return document.toString({ lineWidth: 0 });
}

/** A base as a configuration has it: of one that ends in `/registry` its reader would take that away. */
function asWritten(url: string): string {
  return normaliseNodeUrl(url) === url ? url : `${url}/registry`;
}

function commentOf(network: string, doubt: string | undefined): string {
  const lines = [`network ${JSON.stringify(network)}`, ...(doubt === undefined ? [] : [`not used: ${doubt}`])];
  // Whatever is in the list, a comment ends with its line.
  return lines.map((line) => ` ${line.replaceAll(/[^\x20-\x7e]/g, "?")}`).join("\n");
}

/** Aliases made of the admins, or of the hosts. */
function nameRegistries(registries: readonly ListedRegistry[]): string[] {
  const taken = new Set<string>();
  return registries.map(({ admin, urls }) => {
    const name = aliasFrom(admin ?? new URL(urls[0]!).hostname, (each) => taken.has(each));
    taken.add(name);
    return name;
  });
}
