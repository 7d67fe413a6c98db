import { systemClock } from "../../src/clock.ts";
import { mulberry32, type Random } from "../../src/sandbox/random.ts";
import { type GatewayUnderTest, startGateway, testConfig } from "./gateway.ts";
import { SampleRegistry, type SampleRegistryOptions } from "./sample-registry.ts";

/** How much happens while a client reads the merged listing. */
export interface Weather {
  readonly seed: number;
  /** Instruments that come and go between two pages, at most, per registry. */
  readonly churn: number;
  /** How long a page lives in the cache. */
  readonly ttl: string;
  /** What a reload between two pages does. */
  readonly reload: "nothing" | "adds at the end" | "adds in front" | "removes the next" | "turns the rest round";
  readonly maxPageSize: number;
}

/** What a pagination saw, and what it had to see. */
export interface PaginationReport {
  readonly outcome: "complete" | "refused";
  /** Ids with their admins, as they came. */
  readonly seen: readonly string[];
  /** What was there from beginning to end, in the order in which it has to come. */
  readonly stayed: readonly string[];
  readonly pages: number;
}

const KINDS: readonly (Partial<SampleRegistryOptions> & { readonly name: string })[] = [
  { name: "keyset", paging: "keyset", instruments: 140, maxPageSize: { limit: 60, beyond: "400" } },
  { name: "index", paging: "index", instruments: 140, maxPageSize: { limit: 30, beyond: "400" } },
  { name: "unpaged", paging: "ignored", instruments: 50 },
  { name: "slow", paging: "keyset", instruments: 60, latency: 3 },
  { name: "failing", paging: "index", instruments: 120 },
];

/** What one registry is, and what has stayed there so far. */
interface ChangingRegistry {
  readonly name: string;
  readonly registry: SampleRegistry;
  readonly stayed: Set<string>;
}

/** Reads the merged listing of five registries of different behaviour from end to end, in the given weather. */
export async function paginateInWeather(weather: Weather): Promise<PaginationReport> {
  const random = mulberry32(weather.seed);
  const registries = KINDS.map(({ name, ...options }, at) => ({
    name,
    registry: new SampleRegistry({ admin: `${name}::1220`, clock: systemClock(), seed: weather.seed + at, ...options }),
    stayed: new Set<string>(),
  }));
  const late = new SampleRegistry({ admin: "late::1220", clock: systemClock(), instruments: 5 });
  await Promise.all([...registries.map(({ registry }) => registry.start()), late.start()]);
  for (const { registry, stayed } of registries) for (const { id } of registry.catalogue.list()) stayed.add(id);
  const gateway = await startGateway(keysOf(registries, weather));
  await registries[4]!.registry.faults.set({ kind: "status", status: 503, rate: 0.2, operations: ["instruments"] });
  try {
    return await paginate(gateway, { registries, late, random, weather });
  } finally {
    await gateway.stop();
    await Promise.all([...registries.map(({ registry }) => registry.stop()), late.stop()]);
  }
}

async function paginate(
  gateway: GatewayUnderTest,
  {
    registries,
    late,
    random,
    weather,
  }: { registries: ChangingRegistry[]; late: SampleRegistry; random: Random; weather: Weather },
): Promise<PaginationReport> {
  const seen: string[] = [];
  const reloadAt = 2 + Math.floor(random() * 6);
  let pageToken: string | undefined;
  let order: readonly ChangingRegistry[] = registries;
  for (let pages = 1; ; pages++) {
    const pageSize = 1 + Math.floor(random() * weather.maxPageSize);
    const page = await fetchPage(gateway, pageSize, pageToken);
    if (page === "refused") return { outcome: "refused", seen, stayed: [], pages };
    seen.push(...page.instruments.map(({ admin, id }) => `${admin} ${id}`));
    pageToken = page.nextPageToken;
    if (pageToken === undefined) return { outcome: "complete", seen, stayed: order.flatMap(stayedOf), pages };
    if (page.instruments.length !== pageSize) throw new Error("a page that is not the last is not full");
    for (const each of registries) change(each, random, weather.churn);
    if (pages === reloadAt) order = await reload(gateway, { registries, late, weather });
  }
}

interface MergedPage {
  readonly instruments: readonly { readonly admin: string; readonly id: string }[];
  readonly nextPageToken?: string;
}

/** One page; a registry that fails at random is asked again, as a client would. */
async function fetchPage(
  gateway: GatewayUnderTest,
  pageSize: number,
  pageToken: string | undefined,
): Promise<MergedPage | "refused"> {
  const query = pageToken === undefined ? `pageSize=${pageSize}` : `pageSize=${pageSize}&pageToken=${pageToken}`;
  for (let attempt = 1; attempt <= 30; attempt++) {
    const response = await fetch(`${gateway.url}/registry/metadata/v1/instruments?${query}`);
    const body = (await response.json()) as MergedPage & { readonly error?: string };
    if (response.status === 200) return body;
    if (response.status === 400) return "refused";
    if (response.status !== 503) throw new Error(`${response.status} ${body.error}`);
  }
  throw new Error("a registry that fails every fifth time failed thirty times");
}

/** Instruments come, go, and move their supply. */
function change({ registry, stayed }: ChangingRegistry, random: Random, churn: number): void {
  const { catalogue } = registry;
  const pick = () => catalogue.list()[Math.floor(random() * catalogue.size)]!;
  catalogue.churn(3);
  for (let i = Math.floor(random() * (churn + 1)); i > 0; i--) {
    if (random() < 0.5 && catalogue.size > 1) {
      const { id } = pick();
      catalogue.remove(id);
      stayed.delete(id);
    } else {
      const id = `${pick().id}-${Math.floor(random() * 1e6)}`;
      catalogue.add({ ...pick(), id });
    }
  }
}

async function reload(
  gateway: GatewayUnderTest,
  { registries, late, weather }: { registries: ChangingRegistry[]; late: SampleRegistry; weather: Weather },
): Promise<readonly ChangingRegistry[]> {
  const newcomer: ChangingRegistry = { name: "late", registry: late, stayed: new Set() };
  const [first, second, third, ...rest] = registries;
  const next = {
    nothing: registries,
    "adds at the end": [...registries, newcomer],
    "adds in front": [newcomer, ...registries],
    "removes the next": [first!, second!, ...rest],
    "turns the rest round": [first!, second!, third!, ...rest.toReversed()],
  }[weather.reload];
  await gateway.gateway.reload(testConfig(keysOf(next, weather)));
  return next;
}

function keysOf(registries: readonly ChangingRegistry[], { ttl }: Weather): Record<string, unknown> {
  return {
    cache: { ttl: { instruments: ttl }, staleWhileRevalidate: "0s", staleIfError: "0s" },
    upstreams: registries.map(({ name, registry }) => ({ name, admin: registry.admin, urls: [registry.url] })),
  };
}

function stayedOf({ registry, stayed }: ChangingRegistry): string[] {
  return registry.catalogue
    .list()
    .filter(({ id }) => stayed.has(id))
    .map(({ id }) => `${registry.admin} ${id}`);
}
