import { normaliseNodeUrl } from "../config/urls.ts";
import { isObject } from "../json.ts";
import { formatSize } from "../units.ts";
import { isPartyId } from "../upstream/nodes/registry-admin.ts";
import { findListedUrlFault } from "./pin.ts";

/** A registry that an asset list names. */
export interface ListedRegistry {
  readonly network: string;
  /** Undefined: the list does not say whose it is. */
  readonly admin: string | undefined;
  /** Base URLs in their normal form. */
  readonly urls: readonly string[];
}

/** What was read of an asset list. */
export interface AssetList {
  readonly registries: readonly ListedRegistry[];
  /** What was left out and why; one line each, safe to print. */
  readonly problems: readonly string[];
}

/** Bytes. A list of a thousand instruments has a tenth of it. */
export const MAX_LIST = 4 * 1024 * 1024;

/** More than any list has; a file that is larger is something else. */
const MAX_ASSETS = 100_000;
const MAX_URLS = 64;
const MAX_PROBLEMS = 100;
/** Characters of an entry that are said where it is no good. */
const MOST_SAID = 200;

/**
 * Reads a published asset list: an object of networks, each an array of assets that name their admin
 * (`instrumentId.admin`) and the URLs of its registry (`registryURLs`). Assets of one admin on one network are of one
 * registry, whose nodes are all URLs they give.
 *
 * @param only takes this network alone
 * @throws Error when the text is no such list; its message says what it is instead
 */
export function readAssetList(text: string, only: string | undefined): AssetList {
  const networks = networksOf(parse(text));
  if (networks.length === 0) {
    throw new Error("it has no networks: a list of registries is a JSON object of networks, each an array of assets");
  }
  const chosen = networks.filter(([name]) => only === undefined || name === only);
  if (chosen.length === 0) {
    const names = nameSome(networks.map(([name]) => name));
    throw new Error(`there is no network ${JSON.stringify(only)} in it; it has ${names}`);
  }
  const collected = new Collected();
  for (const [network, assets] of chosen) {
    if (assets.length > MAX_ASSETS) throw new Error(`the network ${JSON.stringify(network)} has too many assets`);
    for (const [at, asset] of assets.entries()) if (isObject(asset)) collected.take(network, at, asset);
  }
  return { registries: collected.registries(), problems: collected.problems };
}

function parse(text: string): unknown {
  if (text.length > MAX_LIST)
    throw new Error(`it is larger than the ${formatSize(MAX_LIST)} that are read, which no list of registries is`);
  try {
    return JSON.parse(text) as unknown;
  } catch {
    const start = text.trimStart();
    if (start === "") throw new Error("it is empty");
    if (start.startsWith("<")) throw new Error("it is a web page (HTML), not a list of registries in JSON");
    throw new Error(start.startsWith("{") ? "it is no JSON: it is broken, or was cut off" : "it is no JSON");
  }
}

/** As many names are said in a message. */
const MOST_NAMED = 10;

/** Names of a list, as a message has them: a few, and how many more there are. */
export function nameSome(names: readonly string[]): string {
  const named = names.slice(0, MOST_NAMED).map((name) => JSON.stringify(name.slice(0, 80)));
  const others = names.length - named.length;
  return named.join(", ") + (others === 0 ? "" : ` and ${others} more`);
}

function networksOf(json: unknown): [name: string, assets: readonly unknown[]][] {
  if (!isObject(json)) return [];
  return Object.entries(json).flatMap(([name, value]) => (Array.isArray(value) ? [[name, value as unknown[]]] : []));
}

/** Registries while they are put together from assets. */
class Collected {
  readonly problems: string[] = [];
  private readonly found = new Map<string, { network: string; admin: string | undefined; urls: Set<string> }>();

  take(network: string, at: number, asset: Readonly<Record<string, unknown>>): void {
    const place = JSON.stringify(`${network}: ${typeof asset.symbol === "string" ? asset.symbol : at}`);
    const admin = adminOf(asset);
    if (admin !== undefined && !isPartyId(admin)) {
      return this.report(`${place}: names an admin that is no party id; left out`);
    }
    const urls = urlsOf(asset, (fault) => this.report(`${place}: ${fault}`));
    if (urls.length === 0) return this.report(`${place}: names no registry URL that can be used; left out`);
    const key = JSON.stringify([network, admin ?? urls]);
    const known = this.found.get(key);
    if (known === undefined) this.found.set(key, { network, admin, urls: new Set(urls) });
    else for (const url of urls) known.urls.add(url);
  }

  registries(): ListedRegistry[] {
    return [...this.found.values()].map(({ network, admin, urls }) => {
      if (urls.size > MAX_URLS) {
        this.report(`${JSON.stringify(admin)}: has ${urls.size} URLs; the first ${MAX_URLS} are taken`);
      }
      return { network, admin, urls: [...urls].slice(0, MAX_URLS) };
    });
  }

  private report(problem: string): void {
    if (this.problems.length < MAX_PROBLEMS) this.problems.push(problem);
  }
}

function adminOf({ instrumentId }: Readonly<Record<string, unknown>>): string | undefined {
  const admin = isObject(instrumentId) ? instrumentId.admin : undefined;
  return typeof admin === "string" && admin.trim() !== "" ? admin.trim() : undefined;
}

function urlsOf({ registryURLs }: Readonly<Record<string, unknown>>, report: (fault: string) => void): string[] {
  const urls: readonly unknown[] = Array.isArray(registryURLs) ? registryURLs : [];
  return urls.flatMap((url) => {
    const fault = typeof url === "string" ? findListedUrlFault(url) : "is no text";
    if (fault === undefined) return [normaliseNodeUrl(url as string)];
    report(`${JSON.stringify(url).slice(0, MOST_SAID)} ${fault}`);
    return [];
  });
}
