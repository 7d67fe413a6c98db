import { hostGroupOf, isReadable } from "../config/urls.ts";
import { normaliseParty } from "../config/upstream-names.ts";
import type { Config, UpstreamConfig } from "../config/schema.ts";

/** A registry that was found rather than written: to be used, at these URLs. */
export interface FoundRegistry {
  /** An alias that no other one that was found has. */
  readonly name: string;
  readonly admin: string;
  readonly urls: readonly string[];
}

/** What was found so far. */
export interface FoundRegistries {
  readonly registries: readonly FoundRegistry[];
  /** False: an admin that is not known may yet be found. */
  readonly isComplete: boolean;
}

export const NOTHING_FOUND: FoundRegistries = { registries: [], isComplete: true };

/**
 * The upstreams of what was found, to stand behind those that are written. A written one with the same admin wins,
 * though it be disabled; so does a written name, and the one that was found gets a number behind its own.
 */
export function upstreamsOf(config: Config, { registries }: FoundRegistries): UpstreamConfig[] {
  const { upstreams, discovery } = config;
  if (discovery === undefined) return [];
  const { defaults, allowPrivate, max } = discovery;
  const admins = new Set(upstreams.flatMap(({ admin }) => (admin === undefined ? [] : [normaliseParty(admin)])));
  const names = new Set(upstreams.flatMap(({ name, admin }) => [name, admin]));
  const own = new Set(registries.map(({ name }) => name));
  const nameFor = (wanted: string): string => {
    if (!names.has(wanted)) return wanted;
    let number = 2;
    while (names.has(`${wanted}-${number}`) || own.has(`${wanted}-${number}`)) number += 1;
    return `${wanted}-${number}`;
  };
  const common = { ...defaults, publicOnly: !allowPrivate, enabled: true };
  // What was pinned under another configuration, or by another replica, may not be allowed here.
  const allowed = ({ urls }: FoundRegistry) => (allowPrivate ? urls : urls.filter((url) => !isReadable(url)));
  return registries
    .filter((each) => !admins.has(normaliseParty(each.admin)) && allowed(each).length > 0)
    .slice(0, max)
    .map((each) => {
      const urls = allowed(each);
      const { name, admin } = each;
      return Object.assign({}, common, { name: nameFor(name), admin, urls, basePaths: [], ...limitOf(common, urls) });
    });
}

/** What is found behind one host shares the limit that is meant for it, unless a group is written. */
function limitOf({ rateLimit }: Pick<UpstreamConfig, "rateLimit">, urls: UpstreamConfig["urls"]) {
  const group = rateLimit?.group ?? hostGroupOf(urls);
  return rateLimit === undefined || group === undefined ? {} : { rateLimit: { ...rateLimit, group } };
}
