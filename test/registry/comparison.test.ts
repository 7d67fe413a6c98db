import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { mulberry32, randomInteger } from "../../src/sandbox/random.ts";
import type { SampleRegistry, SampleRegistryOptions } from "../../src/sandbox/registry.ts";
import type { MetadataAddress } from "../../src/registry/metadata-resource.ts";
import { clientRequest, openRegistryOf } from "../support/registry-metadata.ts";
import { runs } from "../support/thorough.ts";
import { ADMIN, inTime, startRegistry } from "../support/upstream-registries.ts";

/** Every request is a fetch. */
const UNCACHED = {
  ttl: { info: "0s", instruments: "0s", instrument: "0s", notFound: "0s" },
  staleWhileRevalidate: "0s",
  staleIfError: "0s",
};

async function openNodes(count: number, keys: Record<string, unknown>, options: Partial<SampleRegistryOptions> = {}) {
  const nodes = await Promise.all(Array.from({ length: count }, () => startRegistry(options)));
  const opened = openRegistryOf(nodes, { cache: UNCACHED, ...keys }, { random: mulberry32(5) });
  await opened.upstream.learnAdmin(inTime(5_000));
  await expect.poll(() => opened.upstream.state).toBe("up");
  return { ...opened, nodes };
}

type Opened = Awaited<ReturnType<typeof openNodes>>;

/** Fetches for a client, and waits until what is compared for it is compared. */
async function fetchAndCompare({ metadata, upstream }: Opened, address: MetadataAddress): Promise<string | undefined> {
  const get = () => metadata.get(ADMIN, address, clientRequest());
  let answer = await get();
  // What is stored for a millisecond may still be fresh.
  while (answer.outcome === "hit") answer = await get();
  const { body } = answer;
  await turn();
  while (upstream.status().running > 0) await turn();
  return body === undefined ? undefined : metadata.nextToken(body);
}

function countCalls(nodes: readonly SampleRegistry[], operation: "info" | "instruments" | "instrument"): number {
  return nodes.reduce((sum, { calls }) => sum + calls.count(operation), 0);
}

test("no comparison raises a false alarm while supplies move and pages shift", async () => {
  const opened = await openNodes(3, { compare: 1 }, { instruments: 60, defaultPageSize: 25 });
  const { nodes, observer } = opened;
  const random = mulberry32(11);
  const wanted = runs(100, 10_000);
  // While two second looks wait for their second, nothing else is compared: the quicker the machine, the more is skipped.
  const looked = () => observer.count("compared") - observer.count("compared amulet skipped");
  let pageToken: string | undefined;
  for (let i = 0; looked() < wanted && i < 50 * wanted; i++) {
    // Nodes lag behind each other: what one has done another one does a little later.
    const { catalogue } = nodes[i % 3]!;
    catalogue.churn(5);
    const id = `NEW-${Math.floor(i / 3) % 40}`;
    if (Math.floor(i / 120) % 2 === 0) catalogue.add({ ...catalogue.get("Amulet")!, id, decimals: 6 });
    else catalogue.remove(id);
    const drawn = randomInteger(random, 8);
    if (drawn < 2) await fetchAndCompare(opened, { operation: "info" });
    else if (drawn < 4) await fetchAndCompare(opened, { operation: "instrument", id: "Amulet" });
    else pageToken = await fetchAndCompare(opened, { operation: "instruments", pageToken });
  }
  expect(looked()).toBeGreaterThanOrEqual(wanted);
  expect(observer.divergences).toEqual([]);
  expect(observer.count("compared amulet same")).toBeGreaterThan(wanted * 0.8);
}, 600_000);

test("what a 304 confirms is compared with what is stored, and costs one call as well", async () => {
  const cache = { ttl: { instrument: "1ms" }, staleWhileRevalidate: "0s" };
  const opened = await openNodes(2, { compare: 1, cache }, { etags: true });
  const { nodes, observer } = opened;
  const fetch = () => fetchAndCompare(opened, { operation: "instrument", id: "Amulet" });
  await fetch();
  await turn();
  await fetch();
  await expect.poll(() => observer.count("compared amulet same")).toBe(2);
  expect(countCalls(nodes, "instrument")).toBe(4);
  const conditions = nodes.flatMap(({ calls }) => calls.recent.filter(({ headers }) => "if-none-match" in headers));
  expect(conditions).toHaveLength(1);
  // Both confirm what was stored before, or neither does: the body that is compared is the one that clients get.
  nodes[0]!.catalogue.update("Amulet", { decimals: 4 });
  nodes[1]!.catalogue.update("Amulet", { decimals: 4 });
  await fetch();
  await expect.poll(() => observer.count("compared amulet same")).toBe(3);
});

test("what is compared is asked as the client's call was: same size and fields, but for conditions, traces and credentials", async () => {
  const keys = { compare: 1, pageSize: 2_000, cache: { ...UNCACHED, forwardRequestHeaders: ["accept-language"] } };
  const opened = await openNodes(2, keys);
  const { nodes, metadata, observer } = opened;
  const headers = { "accept-language": "de", traceparent: `00-${"1".repeat(32)}-${"2".repeat(16)}-01` };
  await metadata.get(ADMIN, { operation: "instruments" }, { ...clientRequest(), headers });
  await expect.poll(() => observer.count("compared amulet same")).toBe(1);
  const all = nodes.flatMap(({ calls }) => calls.recent).filter(({ operation }) => operation === "instruments");
  // The first size is refused by the sample registry; the one that it takes is asked of both.
  const taken = all.filter(({ url }) => url.endsWith("?pageSize=100"));
  expect(taken.map((call) => call.headers["accept-language"])).toEqual(["de", "de"]);
  expect(taken.filter((call) => "traceparent" in call.headers)).toHaveLength(1);

  const forwarding = await openNodes(2, { compare: 1, forwardAuthorization: true });
  const authorization = "Bearer of-a-client";
  await forwarding.metadata.get(ADMIN, { operation: "info" }, { ...clientRequest(), headers: { authorization } });
  for (let i = 0; i < 20; i++) await turn();
  expect(forwarding.observer.count("compared")).toBe(0);
});
