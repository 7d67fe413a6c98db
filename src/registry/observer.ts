import type { Operation } from "../spec/endpoints.ts";

/** Is told what registries say and how they change; for metrics. Upstreams are named by alias. Must not throw. */
export interface MetadataObserver {
  /** An answer breaks the published schema. */
  schemaViolated(upstream: string, operation: Operation): void;
  /** An answer says that supplies hold as of this moment (Unix time in milliseconds), the newest it names. */
  supplySeen(upstream: string, asOf: number): void;
  /** A page changed: what was kept of the pages behind it is of no use any more. */
  chainReset(upstream: string): void;
}
