import { stringify } from "yaml";
import { readTextFile } from "../config/files.ts";
import { normaliseParty } from "../config/rules.ts";
import { printable, quote } from "../json.ts";
import { type AssetList, AssetListError, type ListedRegistry, readAssetList } from "./asset-list.ts";
import { nameFor } from "./names.ts";
import { askInfo, MOST_CHARACTERS, readText, RegistryClient } from "./questions.ts";
import { CommandError, complain, EXIT, print, sayFailure } from "./terminal.ts";

interface ImportOptions {
  readonly network?: string;
  readonly verify?: true;
}

/** A registry as it is written; `left` are its URLs that do not fit, with the reason. */
interface Imported extends ListedRegistry {
  readonly left?: readonly string[];
}

const TIMEOUT = 15_000;

/**
 * `import`: prints a published list of registries as `upstreams:` of a configuration; what was left out goes to stderr.
 *
 * @param source a file or URL
 * @throws CommandError where it is no list
 */
export async function importList(source: string, { network, verify }: ImportOptions): Promise<number> {
  const { registries, problems } = await read(source, network);
  for (const problem of problems) complain(problem);
  const imported: readonly Imported[] = verify === true ? await verifyAll(registries) : registries;
  print(writeUpstreams(imported));
  if (verify !== true) complain("No URL was asked whose it is: --verify does that.");
  return imported.some(({ urls }) => urls.length > 0) ? EXIT.ok : EXIT.failure;
}

async function read(source: string, network: string | undefined): Promise<AssetList> {
  try {
    return readAssetList(/^https?:\/\//.test(source) ? await download(source) : readFile(source), network);
  } catch (error) {
    if (error instanceof AssetListError) throw new CommandError(`${source} ${error.message}`);
    throw error;
  }
}

function readFile(file: string): string {
  try {
    return readTextFile(file, MOST_CHARACTERS);
  } catch (error) {
    throw new CommandError(`${file} ${(error as Error).message}`);
  }
}

async function download(url: string): Promise<string> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT) });
    if (answer.status !== 200) throw new CommandError(`${url} answers ${answer.status}`);
    return await readText(answer.body!.pipeThrough(new TextDecoderStream()));
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(`${url} cannot be read: ${sayFailure(error)}`);
  }
}

/** Asks every URL whose it is: hosts at once, the URLs of one host one after the other, since they share its limit. */
async function verifyAll(registries: readonly ListedRegistry[]): Promise<Imported[]> {
  const faults = new Map<string, string | undefined>();
  const asked = registries.flatMap(({ admin, urls }) => urls.map((url) => ({ admin, url })));
  const byHost = Map.groupBy(asked, ({ url }) => new URL(url).host);
  await Promise.all(
    [...byHost.values()].map(async (questions) => {
      for (const { admin, url } of questions) faults.set(`${admin} ${url}`, await findFault(admin, url));
    }),
  );
  return registries.map(({ network, admin, urls }) => {
    const faultOf = (url: string): string | undefined => faults.get(`${admin} ${url}`);
    const fitting = urls.filter((url) => faultOf(url) === undefined);
    const left = urls.filter((url) => faultOf(url) !== undefined).map((url) => `${url} ${faultOf(url)}`);
    return { network, admin, urls: fitting, left };
  });
}

/** Finds why a URL is not of the admin's registry, as the rest of a sentence; undefined when it is. */
async function findFault(admin: string, url: string): Promise<string | undefined> {
  try {
    const info = await askInfo(new RegistryClient(url));
    if (typeof info === "string") return `is no registry: ${info}`;
    return normaliseParty(info.adminId) === normaliseParty(admin)
      ? undefined
      : `is of another admin, ${quote(info.adminId)}`;
  } catch (error) {
    return `does not answer: ${sayFailure(error)}`;
  }
}

/**
 * The `upstreams:` of a configuration. What does not fit stands there as a comment: a URL, a registry without a URL left, and
 * a second one of the same admin.
 */
export function writeUpstreams(registries: readonly Imported[]): string {
  const lines = ["upstreams:"];
  const names = new Set<string>();
  const networks = new Map<string, string>();
  for (const { network, admin, urls, left = [] } of registries) {
    const other = networks.get(normaliseParty(admin));
    let doubt: string | undefined;
    if (urls.length === 0) doubt = "none of its URLs fits";
    else if (other !== undefined) doubt = `it is the same admin as on ${other}`;
    const notes = [...left, ...(doubt === undefined ? [] : [`${admin}: ${doubt}`])];
    // Whatever is in a list, a comment ends with its line.
    lines.push(`  # network ${quote(network)}`, ...notes.map((note) => `  # left out: ${printable(note, 1_000)}`));
    if (doubt !== undefined) continue;
    networks.set(normaliseParty(admin), quote(network));
    const name = nameFor(admin, names);
    names.add(name);
    const entry = stringify([{ name, admin: escape(admin), urls: urls.map(escape) }], { lineWidth: 0 });
    lines.push(
      ...entry
        .trimEnd()
        .split("\n")
        .map((line) => `  ${line}`),
    );
  }
  return names.size === 0 ? `${lines.join("\n")}\n  []` : lines.join("\n");
}

/** A value of a list stays text, also where it looks like a reference to the environment. */
function escape(text: string): string {
  return text.replaceAll("${", () => "$${");
}
