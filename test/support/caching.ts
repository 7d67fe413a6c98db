import { beforeAll, beforeEach } from "vitest";
import { type Span, TestClock } from "./clock.ts";
import { CANCEL, INFO, LIST } from "./endpoints.ts";
import { startGateway, type TestGateway, useGateway, type Values } from "./gateway.ts";
import type { Answer } from "./http.ts";
import { type Registry, type RegistryOptions, startRegistry } from "./registry.ts";
import { until } from "./until.ts";

export const ONE = `${LIST}/AMULET-00001`;

/** The cached endpoints: their path, operation, and how long what is stored of them may live. */
export const CACHED = [
  { path: INFO, operation: "info" },
  { path: `${LIST}?pageSize=2`, operation: "instruments" },
  { path: ONE, operation: "instrument" },
] as const;

export interface Cached {
  readonly amulet: Registry;
  readonly gateway: TestGateway;
  readonly clock: TestClock;
  /** Waits until a refresh in the background has been stored: the next answer is fresh. */
  readonly refreshed: (path: string) => Promise<Answer>;
}

type CachedOptions = RegistryOptions & { readonly upstream?: object };

/** One registry behind a gateway whose clock goes on by itself, and may be moved. */
export function startCached(keys: object = {}, options: CachedOptions = {}): Promise<Cached> {
  const clock = TestClock.running();
  return begin({ keys, options, clock, serve: (values) => startGateway(values, { clock }) });
}

/** {@link startCached} for tests of a file that share a gateway, as {@link useGateway} has it. */
export function useStartCached() {
  const clock = TestClock.running();
  const serve = useGateway(clock);
  return (keys: object = {}, options: CachedOptions = {}) => begin({ keys, options, clock, serve });
}

interface Beginning {
  readonly keys: object;
  readonly options: CachedOptions;
  readonly clock: TestClock;
  readonly serve: (values: Values) => Promise<TestGateway>;
}

async function begin({ keys, options, clock, serve }: Beginning): Promise<Cached> {
  const amulet = await startRegistry("amulet", options);
  const gateway = await serve({ ...keys, upstreams: [amulet.upstream(options.upstream)] });
  // Time that is moved while a node is asked for its info would be its deadline.
  await until(async () => (await gateway.operations.upstream("amulet")).nodes.every(isUp));
  return {
    amulet,
    gateway,
    clock,
    refreshed: (path) =>
      until(async () => {
        const answer = await gateway.get(path);
        return answer.cache === "hit" && answer;
      }),
  };
}

/** {@link startCached} for all tests of a block; before each all is purged, and nothing is scripted or counted. */
export function useCached(...how: Parameters<typeof startCached>): () => Cached {
  let cached: Cached | undefined;
  beforeAll(async () => {
    cached = await startCached(...how);
  });
  beforeEach(async () => {
    cached!.amulet.reset();
    // Pauses after a failure are over.
    cached!.clock.advance("61s");
    await cached!.gateway.operations.purge();
    await until(async () => {
      cached!.clock.advance(250);
      return (await cached!.gateway.post(CANCEL)).status === 200;
    });
    cached!.amulet.calls.length = 0;
  });
  return () => cached!;
}

const isUp = ({ state }: { readonly state: string }): boolean => state === "up";

/** Asks for a path again and again, each time after a span; what the cache did each time. */
export async function outcomes({ gateway, clock }: Cached, path: string, spans: readonly Span[]): Promise<string[]> {
  const seen: string[] = [];
  for (const span of spans) {
    clock.advance(span);
    const answer = await gateway.get(path);
    seen.push(answer.status === 200 ? String(answer.cache) : answer.outcome);
  }
  return seen;
}
