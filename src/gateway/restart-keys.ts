import { isDeepStrictEqual } from "node:util";
import { digestOf, effectiveConfig } from "../config/effective.ts";
import type { LoadedConfig } from "../config/loaded.ts";
import type { Config, TlsFiles } from "../config/schema.ts";

/** A configuration that a reload may take, and the keys of it that wait for the next start. */
interface Reloadable {
  readonly loaded: LoadedConfig;
  readonly waiting: readonly string[];
}

/** `next`, with the values of `running` where a key takes effect at the next start alone. */
export function keepUntilRestart(next: LoadedConfig, running: LoadedConfig): Reloadable {
  const current = running.config;
  const { redis: _wantedRedis, ...wanted } = next.config;
  const redis = redisOf(current, next.config);
  const config: Config = {
    ...wanted,
    listen: listenOf(current, wanted),
    operations: { ...wanted.operations, host: current.operations.host, port: current.operations.port },
    limits: { ...wanted.limits, requestBody: current.limits.requestBody },
    routing: { ...wanted.routing, prefix: current.routing.prefix },
    ...(redis !== undefined && { redis }),
  };
  const hasNewFile = filesOf(redis?.tls).some((file) => (next.texts.get(file) ?? "") !== running.texts.get(file));
  const waiting = [
    ...(isDeepStrictEqual(config.listen, wanted.listen) ? [] : ["listen"]),
    ...(config.operations.host === wanted.operations.host ? [] : ["operations.host"]),
    ...(config.operations.port === wanted.operations.port ? [] : ["operations.port"]),
    ...(isDeepStrictEqual(config.redis, next.config.redis) && !hasNewFile ? [] : ["redis"]),
    ...(config.limits.requestBody === wanted.limits.requestBody ? [] : ["limits.requestBody"]),
    ...(config.routing.prefix === wanted.routing.prefix ? [] : ["routing.prefix"]),
  ];
  return { loaded: { ...next, config, texts: textsOf(config, next, running), digest: digestOf(config) }, waiting };
}

/** Certificates are taken at once; whether there are any is not. */
function listenOf(current: Config, { listen: { tls } }: Pick<Config, "listen">): Config["listen"] {
  return current.listen.tls === undefined || tls === undefined ? current.listen : { ...current.listen, tls };
}

/** Passwords are taken, for the next connect: all of them where nothing else differs, else that of `redis.password`. */
function redisOf(current: Config, wanted: Config): Config["redis"] {
  if (current.redis === undefined || wanted.redis === undefined) return current.redis;
  if (isDeepStrictEqual(withoutSecrets(current), withoutSecrets(wanted))) return wanted.redis;
  return wanted.redis.password === undefined ? current.redis : { ...current.redis, password: wanted.redis.password };
}

function withoutSecrets(config: Config): unknown {
  return (effectiveConfig(config) as { readonly redis?: unknown }).redis;
}

/** Texts of `next`, and those of files that only a kept key names. */
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
