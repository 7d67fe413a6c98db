import * as fc from "fast-check";
import { expect, test } from "vitest";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { useGateways } from "../support/gateways.ts";
import type { SampleRegistry } from "../support/sample-registry.ts";
import { runs } from "../support/thorough.ts";

const startRegistry = useSampleRegistries();
const startGateway = useGateways();

interface ListedPage {
  readonly instruments: readonly { readonly id: string }[];
  readonly nextPageToken?: string | null;
}

/** Beyond every window in which a page may be served: fresh for 30 s, stale for 30 s more. */
const ALL_EXPIRED = 61_000;

async function readPage(base: string, pageSize: number, token: string | undefined): Promise<ListedPage> {
  const query = new URLSearchParams({ pageSize: String(pageSize) });
  if (token !== undefined) query.set("pageToken", token);
  const response = await fetch(`${base}/registry/metadata/v1/instruments?${query.toString()}`);
  expect(response.status).toBe(200);
  return (await response.json()) as ListedPage;
}

/** Walks all pages; `between` runs before each but the first. */
async function walk(base: string, pageSize: number, between: () => void): Promise<string[]> {
  const seen: string[] = [];
  let token: string | undefined;
  for (let pages = 0; pages < 200; pages += 1) {
    const page = await readPage(base, pageSize, token);
    seen.push(...page.instruments.map(({ id }) => id));
    if (typeof page.nextPageToken !== "string") return seen;
    token = page.nextPageToken;
    between();
  }
  throw new Error("the walk does not end");
}

function idsOf(registry: SampleRegistry): string[] {
  return registry.catalogue.list().map(({ id }) => id);
}

/** Makes ids that were never there before. */
let added = 0;

/** Adds or removes an instrument; what is removed never comes back. Returns the id of what was added. */
function change(registry: SampleRegistry, step: number): string | undefined {
  const ids = idsOf(registry);
  const [sample] = registry.catalogue.list();
  if (step % 2 === 0) {
    added += 1;
    const id = `${ids[step % ids.length]!.split("+", 1)[0]!}+${added}`;
    registry.catalogue.add({ ...sample!, id });
    return id;
  }
  if (ids.length > 10) registry.catalogue.remove(ids[step % ids.length]!);
  return undefined;
}

const storm = fc.array(
  fc.record({
    pageSize: fc.constantFrom(3, 7, 25),
    /** Time and changes before each page. */
    steps: fc.array(
      fc.record({ wait: fc.integer({ min: 0, max: 40_000 }), change: fc.option(fc.nat({ max: 10_000 })) }),
      { minLength: 1, maxLength: 12 },
    ),
  }),
  { minLength: 1, maxLength: 4 },
);

test("with keyset tokens a walk sees every instrument that stayed exactly once, while others come and go", async () => {
  await fc.assert(
    fc.asyncProperty(storm, async (walks) => {
      const registry = await startRegistry({ paging: "keyset", instruments: 40 });
      const clock = new ManualClock();
      const gateway = await startGateway({ upstreams: [{ name: "amulet", urls: [registry.url] }] }, { clock });
      const addedAt = new Map<string, number>();
      for (const { pageSize, steps } of walks) {
        // What came a moment ago is on no page yet that is still served.
        const isListed = (id: string) => (addedAt.get(id) ?? -Infinity) < clock.now() - ALL_EXPIRED;
        let stayed = new Set(idsOf(registry).filter(isListed));
        let at = 0;
        const seen = await walk(gateway.registrar("amulet"), pageSize, () => {
          const step = steps[at++ % steps.length]!;
          clock.advance(step.wait);
          const id = step.change === null ? undefined : change(registry, step.change + at);
          if (id !== undefined) addedAt.set(id, clock.now());
          stayed = new Set(idsOf(registry).filter((id) => stayed.has(id)));
        });
        // A page from before a change may still list what is gone; what is there all the time is there once.
        for (const id of stayed) expect(seen.filter((each) => each === id)).toEqual([id]);
      }
      await gateway.stop();
      await registry.stop();
    }),
    { numRuns: runs(2, 50) },
  );
});

test("with index tokens a walk between changes sees every instrument exactly once, whatever expires in it", async () => {
  await fc.assert(
    fc.asyncProperty(storm, async (walks) => {
      const registry = await startRegistry({ paging: "index", instruments: 40 });
      const clock = new ManualClock();
      const gateway = await startGateway({ upstreams: [{ name: "amulet", urls: [registry.url] }] }, { clock });
      for (const { pageSize, steps } of walks) {
        for (const { change: step } of steps) if (step !== null) change(registry, step);
        clock.advance(ALL_EXPIRED);
        let at = 0;
        const seen = await walk(gateway.registrar("amulet"), pageSize, () => {
          clock.advance(steps[at++ % steps.length]!.wait);
        });
        expect([...seen].sort()).toEqual(idsOf(registry).sort());
      }
      await gateway.stop();
      await registry.stop();
    }),
    { numRuns: runs(2, 50) },
  );
});

test("a first page that lists other instruments makes the cached pages after it asked for anew", async () => {
  const registry = await startRegistry({ paging: "index", instruments: 20 });
  const clock = new ManualClock();
  const ttl = { instruments: "20s" };
  const gateway = await startGateway(
    { cache: { ttl }, upstreams: [{ name: "amulet", urls: [registry.url] }] },
    { clock },
  );
  const base = gateway.registrar("amulet");
  await walk(base, 5, () => clock.advance(5_000));
  // The first page has expired by now, the later ones have not.
  registry.catalogue.add({ ...registry.catalogue.list()[0]!, id: "!first" });
  clock.advance(51_000);
  const seen = await walk(base, 5, () => {});
  expect([...seen].sort()).toEqual(idsOf(registry).sort());
});

// One fetch stood for both: what one client got for a token that is none was everybody's first page.
test("a page behind an empty token is not the first page", async () => {
  const registry = await startRegistry({ paging: "index" });
  const { promise: released, resolve: release } = Promise.withResolvers<undefined>();
  registry.script(({ url }) => (url.includes("pageToken=") ? released : undefined));
  const { url } = await startGateway({ upstreams: [{ name: "amulet", urls: [registry.url] }] });
  const listing = `${url}/registry/metadata/v1/instruments?pageSize=7`;
  const odd = fetch(`${listing}&pageToken=`);
  await registry.calls.reached(2);
  const first = await fetch(listing);
  release(undefined);
  expect([first.status, (await odd).status]).toEqual([200, 400]);
  expect(registry.calls.count("instruments")).toBe(2);
});
