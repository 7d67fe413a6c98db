import type { Config } from "./schema.ts";

const MIB = 2 ** 20;

/** What a process takes before anything is cached, and at full load (docs/operations/sizing.md, as measured). */
const BASE = 215 * MIB;
/** Of each byte of `cache.memory.maxBytes`: garbage that is not collected yet, besides. */
const CACHE_SHARE = 1.3;

/** Beyond the base: answers that clients do not read, bodies of calls, rare garbage collections. */
const RESERVE = 280 * MIB;
/** A connection with the largest head, of which the end has not come. */
const CONNECTION = { plain: 36 * 1024, tls: 80 * 1024 };

/** Bytes of memory that a process with this configuration takes. */
export interface MemoryEstimate {
  /** At full load. */
  readonly underLoad: number;
  /** What the process is to be limited to: with every connection open, and clients that do their worst. */
  readonly limit: number;
}

/** By the formula of docs/operations/sizing.md. */
export function estimateMemory({ cache, listen, limits }: Pick<Config, "cache" | "listen" | "limits">): MemoryEstimate {
  const underLoad = BASE + CACHE_SHARE * cache.memory.maxBytes;
  const connections = listen.maxConnections * (listen.tls === undefined ? CONNECTION.plain : CONNECTION.tls);
  // Bodies in memory get 64 MiB, or four of the largest (see "What clients can make a process keep").
  const bodies = Math.max(0, 4 * limits.requestBody - 64 * MIB);
  return { underLoad, limit: underLoad + RESERVE + connections + bodies };
}
