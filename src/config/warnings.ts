import { isIPv4 } from "node:net";
import { settingsOf, upstreamSettingsOf } from "./diff.ts";
import { configFromFlags } from "./flags.ts";
import type { Config, UpstreamConfig } from "./schema.ts";

/**
 * Keys that have no effect in this version, such as `cache.prefetch` or `upstreams.hedge` (with all keys below):
 * setting one to something else than its default is worth a warning.
 */
export const NOT_YET_EFFECTIVE: readonly string[] = [];

/** Whether only this machine can reach a listener on `host`. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIPv4(host) && host.startsWith("127."));
}

function listSettings(config: Config): Map<string, unknown> {
  const settings = new Map([...settingsOf(config)].map(([path, { value }]) => [path, JSON.stringify(value)]));
  for (const upstream of config.upstreams) {
    for (const [path, { value }] of upstreamSettingsOf(upstream)) {
      settings.set(`upstreams[${upstream.name}].${path}`, JSON.stringify(value));
    }
  }
  return settings;
}

/** `upstreams[amulet].hedge.budget` is the key `upstreams.hedge.budget`. */
function keyOf(path: string): string {
  return path.replace(/^upstreams\[[^\]]*\]/, "upstreams");
}

function warnOfIneffective(config: Config, keys: readonly string[]): string[] {
  if (keys.length === 0) return [];
  const defaults = listSettings(configFromFlags({ upstreams: ["http://localhost"] }));
  const byDefault = new Map([...defaults].map(([path, value]) => [keyOf(path), value]));
  return [...listSettings(config)]
    .filter(([path, value]) => {
      const key = keyOf(path);
      return keys.some((name) => key === name || key.startsWith(`${name}.`)) && value !== byDefault.get(key);
    })
    .map(([path]) => `${path} has no effect in this version`);
}

function warnOfOperations({ host, token, tokenFile }: Config["operations"]): string[] {
  if (isLoopback(host) || token !== undefined || tokenFile !== undefined) return [];
  return [
    `operations.host ${host} can be reached from other machines and no operations.token or tokenFile is set: only probes and metrics are answered there`,
  ];
}

function warnOfUpstream({ name, auth, cache }: UpstreamConfig): string[] {
  const warnings: string[] = [];
  if (auth !== undefined) {
    warnings.push(`upstreams[${name}].auth: every client that reaches this gateway may use these credentials`);
  }
  if (cache.forwardRequestHeaders === "*") {
    warnings.push(
      `upstreams[${name}].cache.forwardRequestHeaders "*": answers are told apart by the upstream's Vary alone; use it only where clients are trusted`,
    );
  }
  return warnings;
}

/**
 * What an operator should know about a good configuration: what has no effect yet, and what is safe only where clients
 * are trusted.
 */
export function warnings(config: Config, ineffective: readonly string[] = NOT_YET_EFFECTIVE): string[] {
  return [
    ...warnOfIneffective(config, ineffective),
    ...warnOfOperations(config.operations),
    ...config.upstreams.filter(({ enabled }) => enabled).flatMap(warnOfUpstream),
  ];
}
