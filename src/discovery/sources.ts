import { basename } from "node:path";
import { download, type DownloadOptions } from "../bodies/download.ts";
import type { AbortSignalLike, Clock, Duration } from "../clock.ts";
import type { DiscoveryConfig } from "../config/schema.ts";
import { faultOfFile, readTextFile } from "../config/text-file.ts";
import { isReadable } from "../config/urls.ts";
import { lookUp } from "../host-names.ts";
import { isPrivateHost, PrivateAddress, publicOnly } from "../upstream/wire/public-address.ts";
import { type AssetList, MAX_LIST, readAssetList, nameSome } from "./asset-list.ts";
import { credentialsUrl, readCredentials } from "./credentials.ts";
import { agreeOn, type Answer, entryUrl, readEntry } from "./name-service.ts";

/** What a source says: the URLs of each admin's registry, in their normal form and sorted. */
export interface Listing {
  readonly registries: ReadonlyMap<string, readonly string[]>;
  /** Admins of whom it could not be found out what it says now: what it said before counts. */
  readonly undecided: ReadonlySet<string>;
  /** What was left out or not found out, and why. */
  readonly problems: readonly string[];
}

/** Where registries are listed. */
export interface Source {
  /** For people and as a label: unique, without paths and secrets. */
  readonly name: string;
  /** @throws Error whose message says why nothing could be read */
  read(signal: AbortSignalLike): Promise<Listing>;
}

export interface SourceOptions {
  readonly clock: Clock;
  readonly allowPrivate: boolean;
}

type SourceConfig = DiscoveryConfig["sources"][number];

const LIST_TIMEOUT: Duration = 15_000;
const ENTRY_TIMEOUT: Duration = 5_000;
/** In bytes; an entry is a few hundred. */
const MAX_ENTRY = 64 * 1024;
const NOT_PUBLIC = "is at an address that is not public";
/** Codes of errors of a connection that ended before its answer did. */
const CUT_OFF = new Set(["UND_ERR_SOCKET", "ECONNRESET", "UND_ERR_RES_CONTENT_LENGTH_MISMATCH"]);
/** Entries that are asked for at once. */
const CONCURRENCY = 8;

/** The sources of a configuration, in its order. */
export function createSources(configs: readonly SourceConfig[], options: SourceOptions): Source[] {
  const taken = new Set<string>();
  return configs.map((config) => {
    const base = nameOf(config);
    let name = base;
    for (let number = 2; taken.has(name); number++) name = `${base}-${number}`;
    taken.add(name);
    return { name, read: (signal) => read(config, { ...options, signal }) };
  });
}

function nameOf({ url, file, cns }: SourceConfig): string {
  const scans = cns === undefined ? "credentials" : "cns";
  const name = url === undefined ? (file === undefined ? scans : basename(file)) : new URL(url).hostname;
  return name.replaceAll(/[^A-Za-z0-9_.-]+/g, "-").slice(0, 60) || "source";
}

type ReadOptions = SourceOptions & { readonly signal: AbortSignalLike };

async function read(config: SourceConfig, options: ReadOptions): Promise<Listing> {
  const { url, file, network, cns, credentials, admins = [], agree } = config;
  const scans = cns ?? credentials;
  if (scans !== undefined) {
    const records = cns === undefined ? CREDENTIALS : NAME_SERVICE;
    return readScans({ scans, records, admins, agree: agree ?? Math.floor(scans.length / 2) + 1 }, options);
  }
  const text = url === undefined ? readListFile(file!) : await readListAt(url, options);
  return listingOf(await readAssetList(text, network), network, options);
}

function readListFile(file: string): string {
  try {
    return readTextFile(file, MAX_LIST);
  } catch (error) {
    const fault = faultOfFile(error);
    throw new Error(fault === "is not there" ? "there is no such file" : `it ${fault}`, { cause: error });
  }
}

async function readListAt(url: string, options: ReadOptions): Promise<string> {
  try {
    const { status, text } = await ask(url, { timeout: LIST_TIMEOUT, maxBody: MAX_LIST }, options);
    if (status === 200) return text;
    throw new Error(
      status >= 300 && status < 400 ? `redirects (${status}), which is not followed` : `answered ${status}`,
    );
  } catch (error) {
    throw new Error(`it ${(error as Error).message}`, { cause: error });
  }
}

/**
 * What is answered at a URL. Unless private addresses are allowed, no connection is made to an address that is not public.
 *
 * @throws Error whose message says why there is no answer, as the rest of a sentence that begins with "it"
 */
async function ask(
  url: string,
  limits: Pick<DownloadOptions, "timeout" | "maxBody">,
  { clock, allowPrivate, signal }: ReadOptions,
): Promise<Answer> {
  if (!allowPrivate && isPrivateHost(new URL(url).hostname)) throw new Error(NOT_PUBLIC);
  const lookup = allowPrivate ? lookUp : publicOnly(lookUp);
  try {
    const { status, body } = await download(url, { ...limits, clock, signal, lookup, accept: "application/json" });
    return { status, text: body.toString("utf8") };
  } catch (error) {
    const { message, cause } = error as Error;
    if (cause instanceof PrivateAddress) throw new Error(NOT_PUBLIC, { cause: error });
    const isCutOff = CUT_OFF.has((cause as NodeJS.ErrnoException).code ?? "");
    throw new Error(isCutOff ? "was cut off" : message, { cause: error });
  }
}

/** @throws Error when it has several networks and none is chosen: which one is meant is not for a program to guess */
function listingOf(list: AssetList, network: string | undefined, options: SourceOptions): Listing {
  const networks = [...new Set(list.registries.map((each) => each.network))];
  if (network === undefined && networks.length > 1) {
    throw new Error(`it has several networks, ${nameSome(networks)}: choose one by network`);
  }
  const registries = new Map<string, readonly string[]>();
  const problems = [...list.problems];
  for (const { admin, urls } of list.registries) {
    if (admin === undefined) problems.push("names a registry without the party id of its admin");
    else registries.set(admin, usable(urls, options));
  }
  return { registries, undecided: new Set(), problems };
}

/** Without TLS others could answer in a registry's place. */
function usable(urls: readonly string[], { allowPrivate }: SourceOptions): readonly string[] {
  return urls.filter((url) => allowPrivate || !isReadable(url)).toSorted();
}

/** What scans hold about a party, and how it says where its registry is. */
interface Records {
  url(scan: string, admin: string): string;
  /** @throws Error where the answer does not say */
  read(answer: Answer, admin: string, now: number): readonly string[];
}

const NAME_SERVICE: Records = { url: entryUrl, read: readEntry };
const CREDENTIALS: Records = { url: credentialsUrl, read: readCredentials };

interface ScanQuestion {
  readonly scans: readonly string[];
  readonly records: Records;
  readonly admins: readonly string[];
  readonly agree: number;
}

async function readScans({ scans, records, admins, agree }: ScanQuestion, options: ReadOptions): Promise<Listing> {
  const registries = new Map<string, readonly string[]>();
  const undecided = new Set<string>();
  const problems: string[] = [];
  const queue = new Set(admins).values();
  const work = async (): Promise<void> => {
    for (const admin of queue) {
      const answers = await Promise.all(scans.map((scan) => readScan(records, scan, admin, options)));
      const agreed = agreeOn(answers, agree);
      if ("problem" in agreed) {
        undecided.add(admin);
        problems.push(`about ${JSON.stringify(admin)}: ${agreed.problem}`);
      } else if (agreed.urls.length > 0) {
        registries.set(admin, usable(agreed.urls, options));
      }
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
  return { registries, undecided, problems };
}

/** Undefined: the scan did not say. */
async function readScan(
  records: Records,
  scan: string,
  admin: string,
  options: ReadOptions,
): Promise<readonly string[] | undefined> {
  try {
    const answer = await ask(records.url(scan, admin), { timeout: ENTRY_TIMEOUT, maxBody: MAX_ENTRY }, options);
    return records.read(answer, admin, options.clock.wallNow());
  } catch {
    return undefined;
  }
}
