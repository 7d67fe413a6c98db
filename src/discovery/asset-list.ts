import { setImmediate } from "node:timers/promises";
import { type NodeUrl, normaliseNodeUrl } from "../config/urls.ts";
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
/** Different ones that are looked at, in the whole list. */
const MAX_LISTED_URLS = 10_000;
/** Of one registry. */
const MAX_URLS = 64;
/** Assets that are read without letting anything else run: a few milliseconds' worth, if each has all its URLs. */
const BATCH = 20;
const MAX_PROBLEMS = 100;
/** Characters of an entry that are said where it is no good. */
const MOST_SAID = 200;

/**
 * Reads a published asset list: an object of networks, each an array of assets that name their admin
 * (`instrumentId.admin`) and the URLs of its registry (`registryURLs`). Assets of one admin on one network are of one
 * registry, whose nodes are all URLs they give.
 *
 * @param only takes this network alone
 * @throws Error (in the promise) when the text is no such list; its message says what it is instead
 */
export async function readAssetList(text: string, only: string | undefined): Promise<AssetList> {
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
    for (const [at, asset] of assets.entries()) {
      if (at % BATCH === BATCH - 1) await setImmediate();
      if (isObject(asset)) collected.take(network, at, asset);
    }
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

/** A registry while its assets are read. */
interface Collecting {
  readonly network: string;
  readonly admin: string | undefined;
  /** What they give as its URLs. */
  readonly given: Set<unknown>;
  /** Those of them that can be used, in their normal form. */
  readonly urls: Set<NodeUrl>;
  /** They give more. */
  isCut: boolean;
}

/** Registries while they are put together from assets. */
class Collected {
  readonly problems: string[] = [];
  private readonly found = new Map<string, Collecting>();
  /** The normal form of each URL that was looked at; undefined where it cannot be used. */
  private readonly looked = new Map<unknown, NodeUrl | undefined>();

  take(network: string, at: number, asset: Readonly<Record<string, unknown>>): void {
    const place = JSON.stringify(`${network}: ${typeof asset.symbol === "string" ? asset.symbol : at}`);
    const admin = adminOf(asset);
    if (admin !== undefined && !isPartyId(admin)) {
      return this.report(`${place}: names an admin that is no party id; left out`);
    }
    const known = admin === undefined ? undefined : this.found.get(keyOf(network, admin));
    const registry = known ?? { network, admin, given: new Set(), urls: new Set(), isCut: false };
    let hasUsable = false;
    for (const given of urlsOf(asset)) {
      if (registry.given.size === MAX_URLS && !registry.given.has(given)) {
        registry.isCut = true;
        break;
      }
      registry.given.add(given);
      const url = this.lookAt(given, place);
      if (url === undefined) continue;
      hasUsable = true;
      registry.urls.add(url);
    }
    if (!hasUsable && known?.isCut !== true) {
      return this.report(`${place}: names no registry URL that can be used; left out`);
    }
    this.found.set(keyOf(network, admin ?? [...registry.urls]), registry);
  }

  registries(): ListedRegistry[] {
    return [...this.found.values()].map(({ network, admin, urls, isCut }) => {
      if (isCut)
        this.report(`${JSON.stringify(admin)}: has more than ${MAX_URLS} URLs; the first ${MAX_URLS} are taken`);
      return { network, admin, urls: [...urls] };
    });
  }

  /** What is wrong with a URL is reported where the list has it first. */
  private lookAt(given: unknown, place: string): NodeUrl | undefined {
    if (this.looked.has(given)) return this.looked.get(given);
    if (this.looked.size === MAX_LISTED_URLS) {
      throw new Error(`it has more than ${MAX_LISTED_URLS} different URLs, which no list of registries has`);
    }
    const fault = typeof given === "string" ? findListedUrlFault(given) : "is no text";
    if (fault !== undefined) this.report(`${place}: ${JSON.stringify(given).slice(0, MOST_SAID)} ${fault}`);
    const url = fault === undefined ? normaliseNodeUrl(given as string) : undefined;
    this.looked.set(given, url);
    return url;
  }

  private report(problem: string): void {
    if (this.problems.length < MAX_PROBLEMS) this.problems.push(problem);
  }
}

function adminOf({ instrumentId }: Readonly<Record<string, unknown>>): string | undefined {
  const admin = isObject(instrumentId) ? instrumentId.admin : undefined;
  return typeof admin === "string" && admin.trim() !== "" ? admin.trim() : undefined;
}

function urlsOf({ registryURLs }: Readonly<Record<string, unknown>>): readonly unknown[] {
  return Array.isArray(registryURLs) ? registryURLs : [];
}

function keyOf(network: string, by: string | readonly NodeUrl[]): string {
  return JSON.stringify([network, by]);
}
