import { describe, expect, test } from "vitest";
import type { Instrument } from "../../src/sandbox/instrument.ts";
import type { PageStyle } from "../../src/sandbox/paging.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import type { SampleRegistry } from "../support/sample-registry.ts";
import { ask, errorOf, parse } from "../support/wire.ts";

const startRegistry = useSampleRegistries();
const LIST = "/registry/metadata/v1/instruments";

interface PageBody {
  instruments: Instrument[];
  nextPageToken?: string | null;
}

async function walk(registry: SampleRegistry, pageSize?: number): Promise<string[][]> {
  const pages: string[][] = [];
  let token: string | null | undefined;
  do {
    const query = new URLSearchParams();
    if (pageSize !== undefined) query.set("pageSize", String(pageSize));
    if (typeof token === "string") query.set("pageToken", token);
    const page = parse(await ask(`${registry.url}${LIST}?${query.toString()}`)) as PageBody;
    pages.push(page.instruments.map((instrument) => instrument.id));
    token = page.nextPageToken;
  } while (typeof token === "string");
  return pages;
}

const WALKS: { paging: PageStyle; instruments: number; pageSize?: number; pages: number[] }[] = [
  { paging: "keyset", instruments: 60, pages: [25, 25, 10] },
  { paging: "keyset", instruments: 50, pages: [25, 25] },
  { paging: "keyset", instruments: 7, pageSize: 3, pages: [3, 3, 1] },
  { paging: "keyset", instruments: 0, pages: [0] },
  { paging: "index", instruments: 60, pages: [25, 25, 10] },
  { paging: "index", instruments: 7, pageSize: 1, pages: [1, 1, 1, 1, 1, 1, 1] },
  { paging: "ignored", instruments: 60, pages: [60] },
  { paging: "ignored", instruments: 60, pageSize: 5, pages: [60] },
];

describe("a walk over the pages", () => {
  test.each(WALKS)("lists every instrument once: $paging, $instruments by $pageSize", async (walked) => {
    const { paging, instruments, pageSize, pages } = walked;
    const registry = await startRegistry({ paging, instruments });
    const found = await walk(registry, pageSize);
    expect(found.map((page) => page.length)).toEqual(pages);
    const ids = found.flat();
    expect(new Set(ids).size).toBe(instruments);
    expect(ids).toEqual(registry.catalogue.list().map((instrument) => instrument.id));
  });

  test("goes on where it was when the instrument of its keyset token has gone", async () => {
    const registry = await startRegistry({ instruments: 6 });
    const first = parse(await ask(`${registry.url}${LIST}?pageSize=3`)) as PageBody;
    registry.catalogue.remove(first.nextPageToken!);
    const url = `${registry.url}${LIST}?pageToken=${encodeURIComponent(first.nextPageToken!)}`;
    expect((parse(await ask(url)) as PageBody).instruments).toHaveLength(3);
  });

  test("ends with a null token in one family, with none in the other and where paging is ignored", async () => {
    const lastPage = async (options: Parameters<typeof startRegistry>[0]): Promise<unknown> =>
      parse(await ask(`${(await startRegistry({ instruments: 3, ...options })).url}${LIST}`));
    expect(await lastPage({ style: "splice" })).toHaveProperty("nextPageToken", null);
    expect(await lastPage({ style: "utility" })).not.toHaveProperty("nextPageToken");
    expect(await lastPage({ paging: "ignored" })).not.toHaveProperty("nextPageToken");
  });
});

describe("the paging parameters", () => {
  test.each([
    { paging: "keyset", query: "pageSize=0", error: "pageSize must be a positive integer" },
    { paging: "keyset", query: "pageSize=-1", error: "pageSize must be a positive integer" },
    { paging: "keyset", query: "pageSize=ten", error: "pageSize must be a positive integer" },
    { paging: "keyset", query: "pageSize=1025", error: "pageSize cannot be greater than 1024" },
    { paging: "keyset", query: "pageToken=never-issued", error: "invalid pageToken" },
    { paging: "index", query: "pageToken=Amulet", error: "invalid pageToken" },
    { paging: "index", query: "pageToken=61", error: "invalid pageToken" },
  ] as const)("are refused: $paging $query", async ({ paging, query, error }) => {
    const registry = await startRegistry({ paging });
    const answer = await ask(`${registry.url}${LIST}?${query}`);
    expect(answer.status).toBe(400);
    expect(errorOf(answer)).toBe(error);
  });

  test("beyond the largest page are clamped where the registry does so", async () => {
    const registry = await startRegistry({ maxPageSize: { limit: 10, beyond: "clamp" } });
    const page = parse(await ask(`${registry.url}${LIST}?pageSize=1000`)) as PageBody;
    expect(page.instruments).toHaveLength(10);
    expect(page.nextPageToken).toBe(page.instruments.at(-1)!.id);
  });
});
