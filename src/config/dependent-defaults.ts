import { ANONYMOUS_TIER } from "./clients-schema.ts";
import type { Reading } from "./reading.ts";
import type { Config, UpstreamConfig } from "./schema.ts";
import { isObject } from "../json.ts";

type DeepPartial<T> = T extends readonly (infer Item)[]
  ? readonly (DeepPartial<Item> | undefined)[]
  : T extends object
    ? { readonly [Key in keyof T]?: DeepPartial<T[Key]> | undefined }
    : T;

/** A configuration of which some keys may be missing, because they could not be read. */
export type Draft = DeepPartial<Config>;

export type UpstreamDraft = DeepPartial<UpstreamConfig>;

type Keys = Readonly<Record<string, unknown>>;

/** `base` with each key of `over` in its place, group by group. */
function overlay(base: Keys, over: Keys): Keys {
  const result: Record<string, unknown> = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const below = base[key];
    result[key] = isObject(value) && isObject(below) ? overlay(below, value) : value;
  }
  return result;
}

function least(value: number | undefined, bound: number | undefined): number | undefined {
  return value === undefined || bound === undefined ? value : Math.min(value, bound);
}

const NAMES_OR_ALL = ["forwardRequestHeaders", "forwardResponseHeaders"] as const;

/** `["*"]` means `"*"`. */
function readStars<Cache extends NonNullable<UpstreamDraft["cache"]>>(cache: Cache): Cache {
  const all = NAMES_OR_ALL.filter((key) => {
    const names = cache[key];
    return Array.isArray(names) && names.length === 1 && names[0] === "*";
  });
  return all.length === 0 ? cache : { ...cache, ...Object.fromEntries(all.map((key) => [key, "*"])) };
}

type ClientsDraft = NonNullable<Draft["clients"]>;

/** The tier `anonymous` need not be written. */
function addAnonymous(clients: ClientsDraft): ClientsDraft {
  const { tiers = {} } = clients;
  const isWritten = clients.anonymous !== "anonymous" || Object.hasOwn(tiers, "anonymous");
  return { ...clients, tiers: isWritten ? tiers : { anonymous: ANONYMOUS_TIER, ...tiers } };
}

/**
 * Fills in the keys whose values depend on other keys: an upstream's cache is the global one with its own keys put
 * over it, a default gives way to a smaller bound that the file sets, and so on.
 */
export function fillDependentDefaults(draft: Draft, reading: Reading): Draft {
  const { memory, ...shared } = readStars(draft.cache ?? {});
  const maxObject = reading.isGiven("cache.memory.maxObject")
    ? memory?.maxObject
    : least(memory?.maxObject, memory?.maxBytes);
  const fillUpstream = <Keys extends Pick<UpstreamDraft, "timeout" | "attemptTimeout" | "cache">>(
    path: string,
    keys: Keys,
  ): Keys => {
    const attemptTimeout = reading.isGiven(`${path}.attemptTimeout`)
      ? keys.attemptTimeout
      : least(keys.attemptTimeout, keys.timeout);
    const cache: NonNullable<UpstreamDraft["cache"]> = overlay(shared, readStars(keys.cache ?? {}));
    return { ...keys, attemptTimeout, cache };
  };
  const upstreams = draft.upstreams?.map((upstream, index) =>
    upstream === undefined ? undefined : fillUpstream(`upstreams[${index}]`, upstream),
  );
  const { discovery } = draft;
  const found =
    discovery === undefined
      ? {}
      : { discovery: { ...discovery, defaults: fillUpstream("discovery.defaults", discovery.defaults ?? {}) } };
  const clients = draft.clients === undefined ? {} : { clients: addAnonymous(draft.clients) };
  return { ...draft, ...clients, ...found, cache: { ...shared, memory: { ...memory, maxObject } }, upstreams };
}
