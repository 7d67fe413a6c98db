import type { ListedPages } from "./bodies/listed-pages.ts";
import type { HttpCache } from "./cache/http-cache.ts";
import type { Config } from "./config/schema.ts";
import type { Coordinator } from "./coordination/coordinator.ts";
import { createCors } from "./http/cors.ts";
import { HitMemo } from "./http/hit.ts";
import type { Runtime } from "./http/context.ts";
import type { CallTrace } from "./upstream/observer.ts";
import type { Upstreams } from "./upstream/upstreams.ts";
import type { Overload } from "./http/overload.ts";
import { type MetadataObserver, RegistryMetadata } from "./registry/registry-metadata.ts";

export interface RuntimeParts {
  readonly upstreams: Upstreams;
  readonly cache: HttpCache;
  readonly coordinator: Coordinator;
  readonly observer: MetadataObserver;
  readonly pages: ListedPages;
  readonly trace?: (() => CallTrace | undefined) | undefined;
  readonly overload: Overload;
  /** What was in use before: paginations of unchanged upstreams go on. */
  readonly previous?: Runtime | undefined;
}

/** The snapshot that requests work with while `config` is in use. */
export function createRuntime(config: Config, parts: RuntimeParts): Runtime {
  const { upstreams, cache, coordinator, observer, pages, trace, overload, previous } = parts;
  const metadata = upstreams.all.map((upstream) => {
    const registry =
      previous?.metadata.get(upstream) ??
      new RegistryMetadata({
        upstream,
        cache,
        coordinator,
        observer,
        pages,
        trace,
        admit: () => overload.refuseWork("metadata"),
      });
    return [upstream, registry] as const;
  });
  return {
    config,
    upstreams,
    metadata: new Map(metadata),
    cors: createCors(config.cors, config.routing.adminHeader),
    hits: new HitMemo(),
  };
}
