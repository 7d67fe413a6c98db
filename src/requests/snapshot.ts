import { ClientAddresses } from "../clients/client-address.ts";
import type { Tier } from "../clients/client.ts";
import type { Clients } from "../clients/clients.ts";
import type { Config } from "../config/schema.ts";
import { RegistryMetadata, type RegistryMetadataOptions } from "../registry/registry-metadata.ts";
import type { UpstreamEnvironment } from "../upstream/parts.ts";
import { type FoundRegistries, NOTHING_FOUND, upstreamsOf } from "../upstream/found.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { Upstreams } from "../upstream/upstreams.ts";
import { HitMemo } from "./hit.ts";
import { adminNotNamed, type RoutingRules } from "./resolve-upstream.ts";
import { type Cors, createCors } from "./send.ts";
import { TargetReader } from "./target.ts";

/**
 * What a request works with: immutable, and taken once, when the request begins. A reload swaps it for the requests to
 * come.
 */
export interface Snapshot {
  readonly config: Config;
  readonly upstreams: Upstreams;
  /** The cached endpoints of each upstream. */
  readonly registries: ReadonlyMap<Upstream, RegistryMetadata>;
  readonly cors: Cors;
  /** Where requests come from. */
  readonly addresses: ClientAddresses;
  readonly hits: HitMemo;
  readonly targets: TargetReader;
  /** Undefined where everybody may call, without limits. */
  readonly clients: Clients | undefined;
}

function createSnapshot(parts: Omit<Snapshot, "cors" | "hits" | "targets" | "addresses">): Snapshot {
  const { cache, cors, routing, listen } = parts.config;
  return {
    ...parts,
    cors: createCors(cors, routing.adminHeader),
    addresses: new ClientAddresses(listen.trustedProxies),
    hits: new HitMemo(cache.memory.maxBytes),
    targets: new TargetReader(routing.prefix),
  };
}

/** By what the registry of a request is found; `tier` of its client. */
export function routingRules({ config, upstreams }: Snapshot, tier: Tier | undefined): RoutingRules {
  const { prefix, adminHeader } = config.routing;
  return { upstreams, prefix, adminHeader, ownAdmin: config.aggregate.adminId, tier };
}

/** True where the plain base URL stands for all registries together. */
export function isAggregate({ upstreams, config }: Snapshot): boolean {
  return upstreams.all.length > 1 && config.routing.plain === "aggregate";
}

/** True where a request that names no registry goes to one all the same. */
export function hasPlainUpstream(snapshot: Snapshot): boolean {
  return findPlainUpstream(snapshot) !== undefined;
}

/**
 * The registry of a request that names none: the sole one, or the one that `routing.plain` names.
 *
 * @param bodyMayName the request is a factory call, whose body could have named its admin
 * @throws GatewayError 400 that says how to name the registry
 */
export function plainUpstream(snapshot: Snapshot, bodyMayName: boolean): Upstream {
  const upstream = findPlainUpstream(snapshot);
  if (upstream === undefined) throw adminNotNamed(snapshot.config.routing, bodyMayName);
  return upstream;
}

function findPlainUpstream({ upstreams, config }: Snapshot): Upstream | undefined {
  return upstreams.all.length === 1 ? upstreams.all[0] : upstreams.byName(config.routing.plain);
}

/** What every snapshot of a process is made with. */
export interface SnapshotParts {
  readonly upstream: Omit<UpstreamEnvironment, "limits">;
  readonly registry: Omit<RegistryMetadataOptions, "upstream">;
  /** Who calls, by `config.clients`; what did not change is taken from those before. */
  clients(config: Config, previous: Clients | undefined): Clients;
}

/** The snapshot that requests take, and how a reload replaces it. */
export class Snapshots {
  private readonly parts: SnapshotParts;
  private latest: Snapshot;

  /** @throws when a file that the configuration names cannot be read */
  constructor(config: Config, parts: SnapshotParts) {
    this.parts = parts;
    this.latest = this.build(config, NOTHING_FOUND);
  }

  /** For a request that begins now. */
  readonly read = (): Snapshot => this.latest;

  /**
   * Replaces the current snapshot by one of what is written and what was found. What did not change is in the new one as it was: upstreams with their nodes, breakers
   * and limits, and what is known of their listings.
   *
   * @returns the snapshot before, for requests that began with it
   * @throws when a file that `config` names cannot be read; the current snapshot stays
   */
  replace(config: Config, found: FoundRegistries): Snapshot {
    const before = this.latest;
    this.latest = this.build(config, found, before);
    return before;
  }

  private build(config: Config, found: FoundRegistries, previous?: Snapshot): Snapshot {
    const { upstream: environment, registry } = this.parts;
    const upstreams = new Upstreams(config.upstreams, { ...environment, limits: config.limits }, previous?.upstreams, {
      configs: upstreamsOf(config, found),
      isComplete: found.isComplete,
    });
    const registries = upstreams.all.map(
      (upstream) =>
        [upstream, previous?.registries.get(upstream) ?? new RegistryMetadata({ ...registry, upstream })] as const,
    );
    const clients = config.clients && this.parts.clients(config, previous?.clients);
    return createSnapshot({ config, upstreams, registries: new Map(registries), clients });
  }
}
