import { availableParallelism } from "node:os";
import type { Config } from "../config/schema.ts";

/** How many workers there are to be; 1: none, the one process answers by itself. */
export function workerCount({ workers }: Config): number {
  return workers === "auto" ? availableParallelism() : workers;
}

/** The primary's shelf counts like one worker more. */
export function memoryShare(config: Config, workers: number): number {
  return Math.floor(config.cache.memory.maxBytes / (workers + 1));
}

/** What one of so many workers may use of what the configuration grants to the machine. */
export function workerConfig(config: Config, workers: number): Config {
  const part = (whole: number): number => Math.ceil(whole / workers);
  return {
    ...config,
    listen: { ...config.listen, maxConnections: part(config.listen.maxConnections) },
    cache: { ...config.cache, memory: { ...config.cache.memory, maxBytes: memoryShare(config, workers) } },
    upstreams: config.upstreams.map((upstream) => ({
      ...upstream,
      concurrency: { max: part(upstream.concurrency.max), queue: part(upstream.concurrency.queue) },
    })),
  };
}
