import { findNodeUrlFault, normaliseNodeUrl } from "../config/urls.ts";
import { isPrintable } from "./terminal.ts";
import { isObject } from "../json.ts";

/** A registry that an asset list names. */
export interface ListedRegistry {
  readonly network: string;
  /** Undefined: the list does not say whose it is. */
  readonly admin: string | undefined;
  readonly urls: readonly string[];
}

/** What was read of an asset list. */
export interface AssetList {
  readonly registries: readonly ListedRegistry[];
  /** What was left out and why; one line each, safe to print. */
  readonly problems: readonly string[];
}

/** More than any list has; a file that is larger is something else. */
const MAX_ASSETS = 100_000;
const MAX_URLS = 64;

/** Where lists put an asset's admin. */
const ADMIN_KEYS = ["admin", "adminId", "instrumentAdmin", "adminPartyId"];
const URL_KEYS = ["registryURLs", "registryUrls", "registryURL", "registryUrl"];

/**
 * Reads a published asset list: networks, each with assets that name their admin and the URLs of its registry. Assets of
 * one admin on one network are of one registry, whose nodes are all URLs they give.
 *
 * @param only takes this network alone
 * @throws Error when the file is no such list
 */
export function readAssetList(json: unknown, only: string | undefined): AssetList {
  const networks = entriesOf(isObject(json) ? json.networks : undefined);
  if (networks.length === 0)
    throw new Error("the file has no networks: it must be a JSON object with networks → assets");
  const chosen = networks.filter(([name]) => only === undefined || name === only);
  if (chosen.length === 0) {
    const names = networks.map(([name]) => JSON.stringify(name)).join(", ");
    throw new Error(`there is no network ${JSON.stringify(only)} in the file; it has ${names}`);
  }
  const problems: string[] = [];
  const registries = new Map<string, { network: string; admin: string | undefined; urls: Set<string> }>();
  for (const [network, value] of chosen) {
    const assets = entriesOf(isObject(value) ? value.assets : value);
    if (assets.length > MAX_ASSETS) throw new Error(`the network ${JSON.stringify(network)} has too many assets`);
    for (const [name, asset] of assets) {
      const place = `${network}: ${name}`;
      const admin = adminOf(asset);
      if (admin !== undefined && !isPrintable(admin)) {
        problems.push(`${JSON.stringify(place)}: names an admin that is no party id; left out`);
        continue;
      }
      const urls = urlsOf(asset, (fault) => problems.push(`${JSON.stringify(place)}: ${fault}`));
      if (urls.length === 0)
        problems.push(`${JSON.stringify(place)}: names no registry URL that can be used; left out`);
      else collect(registries, { network, admin, urls });
    }
  }
  return { registries: [...registries.values()].map((each) => limited(each, problems)), problems };
}

function collect(
  registries: Map<string, { network: string; admin: string | undefined; urls: Set<string> }>,
  { network, admin, urls }: ListedRegistry,
): void {
  const key = JSON.stringify([network, admin ?? urls]);
  const known = registries.get(key);
  if (known === undefined) registries.set(key, { network, admin, urls: new Set(urls) });
  else for (const url of urls) known.urls.add(url);
}

function limited(
  { network, admin, urls }: { network: string; admin: string | undefined; urls: Set<string> },
  problems: string[],
): ListedRegistry {
  if (urls.size > MAX_URLS)
    problems.push(`${JSON.stringify(admin)}: has ${urls.size} URLs; the first ${MAX_URLS} are taken`);
  return { network, admin, urls: [...urls].slice(0, MAX_URLS) };
}

function adminOf(asset: unknown): string | undefined {
  if (!isObject(asset)) return undefined;
  const { instrumentId } = asset;
  const holders = [asset, ...(isObject(instrumentId) ? [instrumentId] : [])];
  for (const holder of holders) {
    const admin = ADMIN_KEYS.map((key) => holder[key]).find(
      (value) => typeof value === "string" && value.trim() !== "",
    );
    if (typeof admin === "string") return admin.trim();
  }
  return undefined;
}

function urlsOf(asset: unknown, report: (fault: string) => void): string[] {
  if (!isObject(asset)) return [];
  const given = URL_KEYS.flatMap((key) => asset[key] ?? []);
  const urls = given.map((each) => (isObject(each) ? each.url : each));
  return urls.flatMap((url) => {
    const fault = typeof url === "string" ? findNodeUrlFault(url) : "is no text";
    if (fault === undefined) return [normaliseNodeUrl(url as string)];
    report(`${JSON.stringify(url)} ${fault}`);
    return [];
  });
}

/** The entries of an object by key, of a list by the names in it or else by place. */
function entriesOf(value: unknown): [name: string, value: unknown][] {
  if (Array.isArray(value)) return value.map((each: unknown, at) => [nameOf(each) ?? String(at), each]);
  return isObject(value) ? Object.entries(value) : [];
}

function nameOf(value: unknown): string | undefined {
  const name = isObject(value) ? (value.name ?? value.id ?? value.symbol) : undefined;
  return typeof name === "string" ? name : undefined;
}
