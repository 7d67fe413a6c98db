import { findNodeUrlFault, normaliseNodeUrl } from "../config/urls.ts";
import { isObject, parseJson, printable, quote } from "../json.ts";

/** A registry that a published list names. */
export interface ListedRegistry {
  readonly network: string;
  readonly admin: string;
  /** Base URLs without `/registry`, each once. */
  readonly urls: readonly string[];
}

export interface AssetList {
  readonly registries: readonly ListedRegistry[];
  /** Entries and URLs that were left out and why, a line each. */
  readonly problems: readonly string[];
}

/** A list that cannot be used at all; the message ends a sentence that begins with its name. */
export class AssetListError extends Error {
  override readonly name = "AssetListError";
}

const MOST_PROBLEMS = 100;
/** Nodes of one registry. */
const MOST_URLS = 64;

/**
 * Reads a published list: an object of networks, each an array with one entry per instrument, `{instrumentId: {admin, id},
 * symbol, registryURLs: […]}`. Entries of one admin on one network are of one registry, whose nodes are all URLs they give.
 *
 * @param only takes this network alone
 * @throws AssetListError
 */
export function readAssetList(text: string, only?: string): AssetList {
  const found = new Map<string, { network: string; admin: string; urls: Set<string> }>();
  const problems: string[] = [];
  for (const [network, assets] of chooseNetworks(parseNetworks(text), only)) {
    for (const [i, asset] of assets.entries()) {
      const { admin, urls, faults } = readAsset(asset);
      const place = `${quote(network)}, entry ${i}`;
      problems.push(...faults.map((fault) => `${place}: ${fault}`));
      if (admin === undefined || urls.length === 0) continue;
      const key = JSON.stringify([network, admin]);
      const registry = found.get(key) ?? { network, admin, urls: new Set() };
      for (const url of urls.slice(0, MOST_URLS - registry.urls.size)) registry.urls.add(url);
      found.set(key, registry);
    }
  }
  const registries = [...found.values()].map(({ network, admin, urls }) => ({ network, admin, urls: [...urls] }));
  return { registries, problems: [...new Set(problems)].slice(0, MOST_PROBLEMS) };
}

type Networks = readonly (readonly [name: string, assets: readonly unknown[]])[];

function parseNetworks(text: string): Networks {
  const json = parseJson(text);
  if (json === undefined) {
    const isPage = text.slice(0, 100).trimStart().startsWith("<");
    throw new AssetListError(isPage ? "is a web page, not a list in JSON" : "is no JSON, or was cut off");
  }
  const networks = Object.entries(isObject(json) ? json : {}).flatMap(([name, assets]) =>
    Array.isArray(assets) ? [[name, assets as unknown[]] as const] : [],
  );
  if (networks.length > 0) return networks;
  throw new AssetListError("is no list of registries: that is an object of networks, each an array of assets");
}

function chooseNetworks(networks: Networks, only: string | undefined): Networks {
  const chosen = networks.filter(([name]) => only === undefined || name === only);
  if (chosen.length > 0) return chosen;
  const names = networks.slice(0, 20).map(([name]) => quote(name));
  throw new AssetListError(`has no network ${quote(only ?? "")}: it has ${names.join(", ")}`);
}

interface Asset {
  readonly admin?: string;
  readonly urls: readonly string[];
  readonly faults: readonly string[];
}

function readAsset(asset: unknown): Asset {
  if (!isObject(asset)) return { urls: [], faults: ["is no object: left out"] };
  const { instrumentId, registryURLs } = asset;
  const admin = isObject(instrumentId) ? instrumentId["admin"] : undefined;
  if (typeof admin !== "string" || !/^[^\s]{1,240}::[^\s]{1,240}$/.test(admin.slice(0, 500))) {
    return { urls: [], faults: ["names no party as its admin: left out"] };
  }
  const given = Array.isArray(registryURLs) ? registryURLs : [];
  const faults: string[] = [];
  const urls = given.flatMap((url) => {
    const fault = typeof url === "string" && url.length <= 2_000 ? findNodeUrlFault(url) : "is no URL";
    if (fault !== undefined) faults.push(`${quote(String(url))} ${printable(fault)}: left out`);
    return fault === undefined ? [normaliseNodeUrl(url as string)] : [];
  });
  return { admin, urls, faults: given.length === 0 ? ["names no URL of its registry: left out"] : faults };
}
