import type { CachePolicy, Fetched, FetchRequest, Resource } from "../cache/resource.ts";
import { forwardedFields } from "../cache/rfc/request-fields.ts";
import type { Duration } from "../clock.ts";
import type { GatewayError } from "../errors.ts";
import { filterFields } from "../fields.ts";
import type { CacheKey } from "../sharing/entries.ts";
import { TRACE_FIELDS, traceFieldsOf } from "../trace-context.ts";
import { extraPathKey } from "./metadata-key.ts";
import type { RegistryMetadata } from "./registry-metadata.ts";

/**
 * One of `extraPaths` without a query: kept where the registry says for how long, else each request is a call whose answer
 * is passed on as it came, whatever its type and status.
 */
export class ExtraPathResource implements Resource {
  readonly key: CacheKey;
  readonly policy: CachePolicy;
  readonly timeout: Duration;
  private readonly registry: RegistryMetadata;
  private readonly path: string;

  /** @param admin the registry's party id, under which entries are kept */
  constructor(registry: RegistryMetadata, admin: string, path: string) {
    this.registry = registry;
    this.path = path;
    this.key = extraPathKey(admin, path);
    this.policy = registry.extraPathPolicy;
    this.timeout = registry.upstream.config.timeout;
  }

  refusal(): GatewayError | undefined {
    return this.registry.upstream.refusal();
  }

  async fetch({ headers, conditional, purpose, maxWait, deadline, signal }: FetchRequest): Promise<Fetched> {
    const { upstream, coordinator, admit, trace } = this.registry;
    admit();
    // A trace goes through, and takes no part in what the upstream answers.
    const forwarded = filterFields(forwardedFields(this.policy, headers), (name) => !TRACE_FIELDS.has(name));
    const answer = await upstream.collect({
      operation: "pass_through",
      method: "GET",
      path: this.path,
      fields: [...traceFieldsOf(headers), ...forwarded, ...conditional],
      priority: purpose,
      maxWait,
      deadline,
      signal,
      trace: trace?.(),
    });
    const { status, fields, body, requestedAt, receivedAt, origin, setsCookie, isDoubtful } = answer;
    const { partition, scopes } = this.key;
    origin?.whenStray(() => void coordinator.epochs.purge(partition, scopes.slice(-1)));
    const fetched = { status, fields, body, requestedAt, receivedAt };
    return setsCookie || isDoubtful ? { ...fetched, unstorable: setsCookie ? "cookie" : "doubtful" } : fetched;
  }
}
