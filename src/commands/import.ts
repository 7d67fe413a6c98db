import { readFileSync } from "node:fs";
import { Document, YAMLMap } from "yaml";
import { escapeReferences } from "../config/environment.ts";
import { EXIT } from "./command-line.ts";
import { type AssetList, type ListedRegistry, readAssetList } from "./import-asset-list.ts";
import { type VerifyOptions, verifyRegistry } from "./import-verify.ts";
import { printLine, printLines } from "./terminal.ts";

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

/** A registry with what checking it has brought. */
export interface ImportedRegistry extends ListedRegistry {
  /** Why it must not be used as it is; undefined where it may be, or was not checked. */
  readonly doubt: string | undefined;
}

/** Names that mean something else in `routing.plain`. */
const RESERVED = ["aggregate", "off"];
const LONGEST_NAME = 64;

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
      // What a list holds is text: a reference to this machine's environment in it is none.
      ...(admin === undefined ? {} : { admin: escapeReferences(admin) }),
      urls: urls.map(escapeReferences),
    };
    const node = document.createNode(keys);
    if (node instanceof YAMLMap) node.commentBefore = commentOf(network, doubt);
    return node;
  });
  document.set("upstreams", document.createNode(list));
  return document.toString({ lineWidth: 0 });
}

function commentOf(network: string, doubt: string | undefined): string {
  const lines = [`network ${JSON.stringify(network)}`, ...(doubt === undefined ? [] : [`not used: ${doubt}`])];
  // Whatever is in the list, a comment ends with its line.
  return lines.map((line) => ` ${line.replaceAll(/[^\x20-\x7e]/g, "?")}`).join("\n");
}

/** Aliases made of what stands before `::` in the admin, or of the host; numbered where they meet. */
function nameRegistries(registries: readonly ListedRegistry[]): string[] {
  const taken = new Set<string>(RESERVED);
  return registries.map(({ admin, urls }) => {
    const hint = admin === undefined ? new URL(urls[0]!).hostname : admin.split("::", 1)[0]!;
    const plain = hint.replaceAll(/[^A-Za-z0-9_.-]+/g, "-").replaceAll(/^[^A-Za-z0-9]+|-+$/g, "");
    const base = (plain === "" ? "registry" : plain).slice(0, LONGEST_NAME - 6);
    let name = base;
    for (let number = 2; taken.has(name); number++) name = `${base}-${number}`;
    taken.add(name);
    return name;
  });
}
