import { afterEach } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { SampleRegistry, type SampleRegistryOptions } from "./sample-registry.ts";
import { DSO } from "./sample.ts";

/** Starts registries that stop after each test. */
export function useSampleRegistries(): (options?: Partial<SampleRegistryOptions>) => Promise<SampleRegistry> {
  const running: SampleRegistry[] = [];
  afterEach(async () => {
    await Promise.all(running.splice(0).map((registry) => registry.stop()));
  });
  return async (options = {}) => {
    const registry = new SampleRegistry({ admin: DSO, clock: systemClock(), ...options });
    running.push(registry);
    await registry.start();
    return registry;
  };
}
