import { isDeepStrictEqual } from "node:util";
import { digestOf, effectiveConfig } from "../config/effective.ts";
import type { LoadedConfig } from "../config/loaded.ts";
import type { Config, TlsFiles } from "../config/schema.ts";

/** A configuration that a reload may take, and the keys of it that wait for the next start. */
export interface Reloadable {
  readonly loaded: LoadedConfig;
  readonly waiting: readonly string[];
}

/** `next`, with the values of `running` where a key takes effect at the next start alone. */
export function keepUntilRestart(next: LoadedConfig, running: LoadedConfig): Reloadable {
  const now = running.config;
  const { redis: _nextRedis, ...then } = next.config;
  const redis = redisOf(now, next.config);
  const config: Config = {
    ...then,
    listen: listenOf(now, then),
    operations: { ...then.operations, host: now.operations.host, port: now.operations.port },
    limits: { ...then.limits, requestBody: now.limits.requestBody },
    routing: { ...then.routing, prefix: now.routing.prefix },
    ...(redis !== undefined && { redis }),
  };
  const hasNewFile = filesOf(redis?.tls).some((file) => (next.texts.get(file) ?? "") !== running.texts.get(file));
  const waiting = [
    ...(isDeepStrictEqual(config.listen, then.listen) ? [] : ["listen"]),
    ...(config.operations.host === then.operations.host ? [] : ["operations.host"]),
    ...(config.operations.port === then.operations.port ? [] : ["operations.port"]),
    ...(isDeepStrictEqual(config.redis, next.config.redis) && !hasNewFile ? [] : ["redis"]),
    ...(config.limits.requestBody === then.limits.requestBody ? [] : ["limits.requestBody"]),
    ...(config.routing.prefix === then.routing.prefix ? [] : ["routing.prefix"]),
  ];
  return { loaded: { ...next, config, texts: textsOf(config, next, running), digest: digestOf(config) }, waiting };
}

/** Certificates are taken at once; whether there are any is not. */
function listenOf({ listen: now }: Pick<Config, "listen">, { listen: then }: Pick<Config, "listen">): Config["listen"] {
  return now.tls === undefined || then.tls === undefined ? now : { ...now, tls: then.tls };
}

/** Passwords are taken at the next connect, wherever they stand. */
function redisOf(now: Config, then: Config): Config["redis"] {
  if (now.redis === undefined || then.redis === undefined) return now.redis;
  if (isDeepStrictEqual(withoutSecrets(now), withoutSecrets(then))) return then.redis;
  return then.redis.password === undefined ? now.redis : { ...now.redis, password: then.redis.password };
}

function withoutSecrets(config: Config): unknown {
  return (effectiveConfig(config) as { readonly redis?: unknown }).redis;
}

/** Those of `next`, and of the files that only what stays names. */
function textsOf({ listen, redis }: Config, next: LoadedConfig, running: LoadedConfig): LoadedConfig["texts"] {
  const texts = new Map(next.texts);
  for (const file of [...filesOf(listen.tls), ...filesOf(redis?.tls)]) {
    if (!texts.has(file)) texts.set(file, running.texts.get(file)!);
  }
  return texts;
}

function filesOf(tls: TlsFiles | undefined): string[] {
  return Object.values(tls ?? {}).filter((file) => file !== undefined);
}
