import { endsOf } from "./certificates.ts";
import type { Config, UpstreamConfig } from "./schema.ts";
import { isLoopback, isReadable } from "./urls.ts";

/**
 * Sentences for operators about a good configuration: what is allowed, and safe only where it is meant.
 *
 * @param texts PEM texts by the paths of their files; `now`: Unix ms
 */
export function warningsOf(config: Config, texts: ReadonlyMap<string, string>, now: number): string[] {
  const { listen, operations, clients, routing, upstreams } = config;
  const enabled = upstreams.filter((upstream) => upstream.enabled);
  const warnings = enabled.flatMap(warningsOfUpstream);
  const [end] = endsOf(texts.get(listen.tls?.certFile ?? "") ?? "") ?? [Infinity];
  const since = end > now ? undefined : new Date(end).toISOString();
  if (since !== undefined) warnings.push(`listen.tls.certFile: it ended on ${since}, and takes the place of no other`);
  if (!isLoopback(operations.host) && operations.tokens === undefined) {
    warnings.push("operations.host: beyond loopback, without operations.tokens, only probes and metrics are answered");
  }
  for (const range of listen.trustedProxies.filter((each) => each.endsWith("/0"))) {
    warnings.push(`listen.trustedProxies ${range}: every client may say that it has any address`);
  }
  const rests = upstreams.find(({ name, enabled: isEnabled }) => name === routing.plain && !isEnabled);
  if (rests !== undefined) warnings.push(`routing.plain: ${rests.name} is not enabled: such requests are refused`);
  const lent = enabled.filter(({ auth }) => auth !== undefined).map(({ name }) => name);
  if (lent.length > 0 && (clients?.anonymous ?? "all") !== false) {
    warnings.push(`auth of ${lent.join(", ")}: whoever reaches this gateway uses these credentials`);
  }
  const unpinned = enabled.filter(({ admin }) => admin === undefined).map(({ name }) => name);
  if (unpinned.length > 0) {
    warnings.push(`admin of ${unpinned.join(", ")} is not set: what answers at the urls says whose registry it is`);
  }
  return warnings;
}

/** Credentials that others can read on their way. */
function warningsOfUpstream({ name, auth, forwardAuthorization, urls }: UpstreamConfig): string[] {
  const isSecret = auth !== undefined || forwardAuthorization !== "off";
  const places = [
    ...(isSecret && urls.some(isReadable) ? ["urls"] : []),
    ...(auth?.oauth2 !== undefined && isReadable(auth.oauth2.tokenUrl) ? ["auth.oauth2.tokenUrl"] : []),
  ];
  return places.map((key) => `${key} of ${name}: credentials can be read on the way: use https:// beyond this machine`);
}
