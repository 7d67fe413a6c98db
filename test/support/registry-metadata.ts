import { ListedPages } from "../../src/bodies/page.ts";
import { HttpCache } from "../../src/cache/http-cache.ts";
import { MemoryStore } from "../../src/cache/stores/memory-store.ts";
import { type MetadataRequest, RegistryMetadata } from "../../src/registry/registry-metadata.ts";
import { mulberry32 } from "../../src/sandbox/random.ts";
import type { Store } from "../../src/sharing/entries.ts";
import type { SampleRegistry } from "./sample-registry.ts";
import { ADMIN, type EnvironmentOptions, inTime, openUpstream } from "./upstream-registries.ts";

/** The cached endpoints of a sample registry, over a cache of their own; they end with the test. */
export function openRegistryMetadata(registry: SampleRegistry, keys: Record<string, unknown> = {}): RegistryMetadata {
  return openRegistryOf([registry], keys).metadata;
}

/** The same of a registry of several nodes, with what is observed of them. */
export function openRegistryOf(
  nodes: readonly SampleRegistry[],
  keys: Record<string, unknown> = {},
  options: EnvironmentOptions & { readonly shared?: Store } = {},
) {
  const opened = openUpstream(nodes, { admin: ADMIN, ...keys }, options);
  const { upstream, environment } = opened;
  const { coordinator, clock, bodies } = environment;
  const nothing = () => undefined;
  const observer = {
    lookup: nothing,
    skipped: nothing,
    collapsed: nothing,
    servedStale: nothing,
    revalidated: nothing,
    refreshed: nothing,
    evicted: nothing,
  };
  const memory = new MemoryStore({ maxBytes: 64 * 2 ** 20, maxObject: 4 * 2 ** 20 });
  const metadata = new RegistryMetadata({
    upstream,
    cache: new HttpCache({ memory, shared: options.shared, coordinator, clock, random: mulberry32(1), observer }),
    coordinator,
    observer: { schemaViolated: nothing, supplySeen: nothing },
    pages: new ListedPages(bodies),
    admit: nothing,
  });
  return { ...opened, metadata };
}

/** A client's request that has 10 s. */
export function clientRequest(): MetadataRequest {
  return { requester: "client", headers: {}, deadline: inTime(10_000) };
}
