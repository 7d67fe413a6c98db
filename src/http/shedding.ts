import type { FastifyInstance } from "fastify";
import type { FetchRequest, Fetched, Resource } from "../cache/resource.ts";
import type { MetadataAddress } from "../registry/metadata-key.ts";
import { RegistryMetadata, type RegistryMetadataOptions, type Requester } from "../registry/registry-metadata.ts";
import { PASS_THROUGH } from "./pass-through.ts";
import type { Overload } from "./overload.ts";

/**
 * Refuses what is passed on to registries while the process has too much to do: before the body is read, since reading
 * and checking it is most of what it costs.
 */
export function shedCalls(listener: FastifyInstance, overload: Overload): void {
  listener.addHook("onRequest", (request, _reply, done) => {
    if (request.method === "POST" || request.url.startsWith(PASS_THROUGH)) overload.refuseWork("call");
    done();
  });
}

/**
 * A registry's metadata, whose fetches are refused while the process has too much to do. What is cached is answered
 * all the same, stale where its windows allow.
 */
export class ShedMetadata extends RegistryMetadata {
  private readonly overload: Overload;

  constructor(options: RegistryMetadataOptions, overload: Overload) {
    super(options);
    this.overload = overload;
  }

  override resource(admin: string, address: MetadataAddress, requester?: Requester): Resource {
    const resource = super.resource(admin, address, requester);
    const { key, policy, timeout } = resource;
    return {
      key,
      policy,
      timeout,
      fetch: (request: FetchRequest): Promise<Fetched> => {
        this.overload.refuseWork("metadata");
        return resource.fetch(request);
      },
      stored: (entry, fetched) => resource.stored?.(entry, fetched),
    };
  }
}
