import { describe, expect, test } from "vitest";
import {
  get,
  instrumentsOf,
  type RegistryOptions,
  useAggregates,
  readListing,
} from "../support/aggregate-registries.ts";
import { parseConfig } from "../../src/config/parse.ts";
import { checkLive } from "../../src/commands/check-live.ts";

const { startRegistries, startBefore } = useAggregates();

const LISTING = "/registry/metadata/v1/instruments";

/** A gateway whose upstreams ask for pages of 1,000 where a client names no size. */
async function start(options: RegistryOptions, keys: Record<string, unknown> = { pageSize: 1000 }) {
  const registries = await startRegistries(options);
  const upstreams = Object.entries(registries).map(([name, { admin, url }]) =>
    Object.assign({ name, admin, urls: [url] }, keys),
  );
  return startBefore(registries, { upstreams });
}

/** The queries of all listings that a registry was asked for. */
function queries({ calls }: { calls: { recent: readonly { operation: string; url: string }[] } }): string[] {
  return calls.recent.flatMap(({ operation, url }) =>
    operation === "instruments" ? [decodeURIComponent(new URL(url, "http://x").search)] : [],
  );
}

describe("a listing without pageSize", () => {
  test("asks the registry for the configured size, and gives its bytes", async () => {
    const { url, registries } = await start({ amulet: { instruments: instrumentsOf("A", 563) } });
    const { amulet } = registries;
    const listed = await get(url + LISTING);
    expect(listed.json.instruments).toHaveLength(563);
    const direct = await get(`${amulet!.url}${LISTING}?pageSize=1000`);
    expect(listed.text).toBe(direct.text);
    expect((await get(url + LISTING)).headers.get("cache-status")).toMatch(/hit/);
    expect(queries(amulet!)).toEqual(["?pageSize=1000", "?pageSize=1000"]);
  });

  test("is left to the registry where nothing is configured", async () => {
    const { url, registries } = await start({ amulet: { instruments: instrumentsOf("A", 60) } }, {});
    expect((await get(url + LISTING)).json.instruments).toHaveLength(25);
    expect(queries(registries.amulet!)).toEqual([""]);
  });

  test("and one with it are apart: a client's size goes to the registry as it is", async () => {
    const { url, registries } = await start({
      amulet: { instruments: instrumentsOf("A", 60), maxPageSize: { limit: 50, beyond: "400" } },
    });
    expect((await get(url + LISTING)).json.instruments).toHaveLength(50);
    expect((await get(`${url}${LISTING}?pageSize=1000`)).status).toBe(400);
    expect((await get(`${url}${LISTING}?pageSize=7`)).json.instruments).toHaveLength(7);
    expect(queries(registries.amulet!)).toEqual([
      "?pageSize=1000",
      "?pageSize=100",
      "?pageSize=50",
      "?pageSize=1000",
      "?pageSize=7",
    ]);
  });

  test("is asked for in smaller sizes where the registry refuses the configured one, which is found out once", async () => {
    const { url, registries } = await start({
      amulet: { instruments: instrumentsOf("A", 250), maxPageSize: { limit: 100, beyond: "400" } },
    });
    const pages: number[] = [];
    for (let query = ""; ;) {
      const { status, json } = await get(url + LISTING + query);
      expect(status).toBe(200);
      pages.push((json.instruments as unknown[]).length);
      if (typeof json.nextPageToken !== "string") break;
      query = `?pageToken=${encodeURIComponent(json.nextPageToken)}`;
    }
    expect(pages).toEqual([100, 100, 50]);
    expect(queries(registries.amulet!)).toEqual([
      "?pageSize=1000",
      "?pageSize=100",
      "?pageSize=100&pageToken=A-00099",
      "?pageSize=100&pageToken=A-00199",
    ]);
    await get(`${url}${LISTING}?pageToken=none-of-its-tokens`);
    expect(queries(registries.amulet!)).toHaveLength(5);
  });

  test("goes on at another replica with a token of the first", async () => {
    const { registries, url } = await start({
      amulet: { instruments: instrumentsOf("A", 150), maxPageSize: { limit: 100, beyond: "400" } },
    });
    const { nextPageToken } = (await get(url + LISTING)).json;
    const { admin, url: node } = registries.amulet!;
    const upstreams = [{ name: "amulet", admin, urls: [node], pageSize: 1000 }];
    const other = await startBefore(registries, { upstreams });
    const next = await get(`${other.url}${LISTING}?pageToken=${nextPageToken as string}`);
    expect([next.status, (next.json.instruments as unknown[]).length]).toEqual([200, 50]);
  });

  test("that the registry refuses at every size gives its own answer", async () => {
    const { url, registries } = await start({ amulet: {} });
    registries.amulet!.script(({ operation }) =>
      operation === "instruments" ? { status: 400, body: '{"error":"no"}' } : undefined,
    );
    const { status, text } = await get(url + LISTING);
    expect([status, text]).toEqual([400, '{"error":"no"}']);
    expect(queries(registries.amulet!)).toEqual([
      "?pageSize=1000",
      "?pageSize=100",
      "?pageSize=50",
      "?pageSize=25",
      "",
    ]);
  });

  test("takes a new size with a reload at once", async () => {
    const { gateway, url } = await start({ amulet: { instruments: instrumentsOf("A", 60) } });
    expect((await get(url + LISTING)).json.instruments).toHaveLength(60);
    const { config } = gateway;
    await gateway.reload({
      ...config,
      upstreams: config.upstreams.map((each) => Object.assign({}, each, { pageSize: 40 })),
    });
    expect((await get(url + LISTING)).json.instruments).toHaveLength(40);
  });

  test.each(["keyset", "index"] as const)("leaves the merged listing whole: %s", async (paging) => {
    const { url } = await start(
      {
        amulet: { instruments: instrumentsOf("A", 250), paging, maxPageSize: { limit: 20, beyond: "400" } },
        bonds: { instruments: instrumentsOf("B", 250), paging },
      },
      { pageSize: 1000, cache: { warmUp: true } },
    );
    const seen = await readListing(url + LISTING, 90);
    const expected = ["A", "B"].flatMap((prefix) => instrumentsOf(prefix, 250).map(({ id }) => id));
    expect(seen.map(({ id }) => id)).toEqual(expected);
  });
});

test.each([
  [1024, "400", undefined, "takes pages of 1000"],
  [1024, "400", 2000, "refuses the configured pageSize 2000 with 400, takes pages of 1000"],
  [1024, "400", 500, "takes pages of 500"],
  [50, "clamp", 1000, "takes pages of 1000 but sends 50"],
] as const)("check --live, of %d at most (beyond: %s) with pageSize %s: %s", async (limit, beyond, pageSize, said) => {
  const registries = await startRegistries({
    amulet: { instruments: instrumentsOf("A", 60), maxPageSize: { limit, beyond } },
  });
  const { admin, url } = registries.amulet!;
  const text = JSON.stringify({ upstreams: [{ name: "amulet", admin, urls: [url], ...(pageSize && { pageSize }) }] });
  const { config } = parseConfig({ text, file: "test.yaml", env: {} });
  const lines: string[] = [];
  await checkLive(config!, (line) => void lines.push(line));
  expect(lines.join("\n")).toMatch(new RegExp(`, ${said}$`, "m"));
});

test("check --live calls a registry well whose listing wants what clients show", async () => {
  const registries = await startRegistries({ amulet: {} });
  const { admin, url } = registries.amulet!;
  registries.amulet!.script(({ operation }) => (operation === "instruments" ? { status: 401, body: "{}" } : undefined));
  const check = async (keys: object) => {
    const text = JSON.stringify({ upstreams: [{ name: "amulet", admin, urls: [url], ...keys }] });
    return checkLive(parseConfig({ text, file: "test.yaml", env: {} }).config!, () => undefined);
  };
  expect(await check({})).toBe(false);
  expect(await check({ forwardAuthorization: true })).toBe(true);
});
