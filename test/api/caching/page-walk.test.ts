import * as fc from "fast-check";
import { expect, test } from "vitest";
import { useStartCached } from "../../support/caching.ts";
import { LIST } from "../../support/endpoints.ts";
import type { TestGateway } from "../../support/gateway.ts";
import { instrument, instruments, type Registry } from "../../support/registry.ts";
import { runs } from "../../support/thorough.ts";

const startCached = useStartCached();

/** Beyond every window in which a page may be served: fresh for 30 s, stale for 30 s more. */
const ALL_EXPIRED = 61_000;

/** Walks all pages; `between` runs before each but the first. */
async function walk(gateway: TestGateway, pageSize: number, between: () => void): Promise<string[]> {
  const seen: string[] = [];
  let token: string | undefined;
  for (let pages = 0; pages < 200; pages += 1) {
    const query = token === undefined ? "" : `&pageToken=${encodeURIComponent(token)}`;
    const page = await gateway.get(`${LIST}?pageSize=${pageSize}${query}`);
    expect(page.status).toBe(200);
    seen.push(...(page.json.instruments as { id: string }[]).map(({ id }) => id));
    token = page.json.nextPageToken as string | undefined;
    if (token === undefined) return seen;
    between();
  }
  throw new Error("the walk does not end");
}

const idsOf = (registry: Registry): string[] => registry.instruments.map(({ id }) => id);

/** Adds an instrument where it belongs in the order of ids. */
function add(registry: Registry, id: string): void {
  registry.instruments = [...registry.instruments, instrument(id)].toSorted((a, b) => (a.id < b.id ? -1 : 1));
}

const walks = fc.array(
  fc.record({
    pageSize: fc.constantFrom(3, 7, 25),
    steps: fc.array(fc.record({ wait: fc.integer({ min: 0, max: 40_000 }), at: fc.option(fc.nat({ max: 39 })) }), {
      minLength: 1,
      maxLength: 12,
    }),
  }),
  { minLength: 1, maxLength: 4 },
);

test("a walk sees every instrument that stayed exactly once, while others come, whatever expires in it", async () => {
  await fc.assert(
    fc.asyncProperty(walks, async (drawn) => {
      const { amulet: registry, clock, gateway } = await startCached({}, { instruments: instruments("AMULET", 40) });
      let added = 0;
      for (const { pageSize, steps } of drawn) {
        clock.advance(ALL_EXPIRED);
        const stayed = idsOf(registry);
        let turn = 0;
        const seen = await walk(gateway, pageSize, () => {
          const step = steps[turn % steps.length]!;
          turn += 1;
          clock.advance(step.wait);
          if (step.at !== null) add(registry, `AMULET-${String(step.at).padStart(5, "0")}+${(added += 1)}`);
        });
        for (const id of stayed) expect(seen.filter((each) => each === id)).toEqual([id]);
      }
      await registry.close();
    }),
    { numRuns: runs(4, 60) },
  );
});
