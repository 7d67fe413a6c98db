import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { afterEach, describe, expect, test } from "vitest";
import type { Instrument } from "../../src/sandbox/instrument.ts";
import { get, instrumentsOf, useAggregates } from "../support/aggregate-registries.ts";
import { subscribe, type Subscriber } from "../support/event-stream.ts";
import { testConfig } from "../support/gateway.ts";
import type { SampleRegistry } from "../support/sample-registry.ts";
import { ShiftedClock } from "../support/shifted-clock.ts";

const { startRegistries, startBefore, startAggregate } = useAggregates();
const CHANGES = "/catalog/v1/changes";

const open: Subscriber[] = [];
afterEach(() => {
  for (const subscriber of open.splice(0)) subscriber.close();
});

async function follow(...args: Parameters<typeof subscribe>): Promise<Subscriber> {
  const subscriber = await subscribe(...args);
  open.push(subscriber);
  return subscriber;
}

const clock = new ShiftedClock();

/** Has a registry list these instruments from now on; it is read again at once. */
function list(registry: SampleRegistry, instruments: readonly object[], supportedApis: object = { a: 1 }): void {
  clock.advance(6_000);
  registry.script(({ operation }) => {
    const headers = ["content-type", "application/json", "cache-control", "max-age=5"];
    if (operation === "info")
      return { status: 200, headers, body: JSON.stringify({ adminId: registry.admin, supportedApis }) };
    return operation === "instruments" ? { status: 200, headers, body: JSON.stringify({ instruments }) } : undefined;
  });
}

const [ONE, TWO, THREE] = instrumentsOf("AMULET", 3) as [Instrument, Instrument, Instrument];

describe("changes as they come", () => {
  test("say in one line what they vary by", async () => {
    const cors = { origins: ["https://a.example"] };
    const { url } = await startAggregate({ amulet: {}, bonds: {} }, { cors }, { clock });
    const sent = request(`${url}${CHANGES}`, {
      headers: { accept: "text/event-stream", origin: cors.origins[0]! },
    }).end();
    const [{ rawHeaders }] = (await once(sent, "response")) as [IncomingMessage];
    sent.destroy();
    const lines = rawHeaders.filter((_value, at) => rawHeaders[at - 1]?.toLowerCase() === "vary");
    expect(lines).toEqual(["x-instrument-admin, origin"]);
  });

  test("tell what came, went, was paused and changed, by registry, and go on behind an id", async () => {
    const { registries, url } = await startAggregate({ amulet: {}, bonds: {} }, {}, { clock });
    const { amulet, bonds } = registries as { amulet: SampleRegistry; bonds: SampleRegistry };
    list(amulet, [ONE, TWO]);
    list(bonds, [ONE]);
    const subscriber = await follow(url);
    expect(subscriber.fields).toMatchObject({
      "content-type": "text/event-stream",
      "cache-control": "no-store",
      "access-control-allow-origin": "*",
      "x-content-type-options": "nosniff",
    });
    const [reset] = await subscriber.next("reset");
    expect(reset!.data).toEqual({ id: reset!.id, reason: "new" });
    expect(subscriber.text).toMatch(/^retry: \d{4}\n\n/);
    const added = await subscriber.next("change", 2);
    expect(added.map(({ data }) => [data.type, data.admin, data.registry])).toEqual(
      expect.arrayContaining([
        ["registry_added", "amulet::1220", "amulet"],
        ["registry_added", "bonds::1220", "bonds"],
      ]),
    );
    const before = subscriber.lastId!;
    list(
      amulet,
      [
        { ...TWO, symbol: "NEW", decimals: 2 },
        { ...THREE, paused: true },
      ],
      { a: 2 },
    );
    const changes = await subscriber.next("change", 4);
    expect(
      changes.map(({ data: { type, registry, supportedApis, instrument } }) => ({
        type,
        registry,
        supportedApis,
        instrument,
      })),
    ).toEqual([
      { type: "registry_changed", registry: "amulet", supportedApis: { a: 2 } },
      { type: "instrument_removed", registry: "amulet", instrument: { id: ONE.id } },
      { type: "instrument_changed", registry: "amulet", instrument: { id: TWO.id, symbol: "NEW", decimals: 2 } },
      {
        type: "instrument_added",
        registry: "amulet",
        instrument: { ...pick(THREE, "id", "name", "symbol", "decimals", "supportedApis"), paused: true },
      },
    ]);
    for (const { id, data } of changes) expect(data.id).toBe(id);
    list(amulet, [{ ...TWO, symbol: "NEW", decimals: 2, paused: true, totalSupply: "1" }, THREE], { a: 2 });
    const paused = await subscriber.next("change", 2);
    expect(paused.map(({ data }) => [data.type, data.instrument])).toEqual([
      ["instrument_paused", { id: TWO.id }],
      ["instrument_unpaused", { id: THREE.id }],
    ]);
    const all = [...changes, ...paused].map(({ data }) => data);
    const { json, headers } = await get(`${url}${CHANGES}?since=${before}`);
    expect(json).toEqual({ changes: all, lastId: subscriber.lastId, reset: false, more: false });
    expect(headers.get("cache-control")).toBe("no-store");
    for (const [at, { id }] of changes.entries()) {
      const later = await follow(url, { lastId: id! });
      await later.next("change", all.length - at - 1);
      expect(later.events.map(({ event, data }) => [event, data])).toEqual(
        all.slice(at + 1).map((data) => ["change", data]),
      );
      expect((await get(`${url}${CHANGES}?since=${id}`)).json.changes).toEqual(all.slice(at + 1));
    }
  });

  test("begin with a reset behind an id that is another gateway's", async () => {
    const { url } = await startAggregate({ amulet: {}, bonds: {} });
    const elsewhere = await startAggregate({ amulet: {}, bonds: {} });
    const { json } = await get(`${elsewhere.url}${CHANGES}?since=`);
    expect(json).toEqual({ changes: [], lastId: expect.any(String), reset: true, more: false });
    const id = String(json.lastId);
    expect((await get(`${elsewhere.url}${CHANGES}?since=${id}`)).json.reset).toBe(false);
    expect((await get(`${url}${CHANGES}?since=${id}`)).json).toMatchObject({ changes: [], reset: true });
    const [reset] = await (await follow(url, { lastId: id })).next("reset");
    expect(reset!.data.reason).toBe("unknown");
    for (const lastId of ["0", "x".repeat(5_000), "%00", `${id}.999999`, `${id}.-1`]) {
      const [other] = await (await follow(url, { lastId })).next("reset");
      expect(other!.data.reason).toBe("unknown");
    }
  });

  test("HEAD has the fields, other parameters are refused, and without several registries there is no such path", async () => {
    const { url } = await startAggregate({ amulet: {}, bonds: {} });
    const head = await fetch(url + CHANGES, { method: "HEAD" });
    expect([head.status, head.headers.get("content-type")]).toEqual([200, "text/event-stream"]);
    const json = await fetch(`${url}${CHANGES}?since=`, { method: "HEAD" });
    expect([json.status, json.headers.get("content-type")]).toEqual([200, "application/json"]);
    const { status, json: body } = await get(`${url}${CHANGES}?after=1`);
    expect([status, body.code]).toEqual([400, "invalid_query"]);
    expect((await get(url + CHANGES, { method: "POST" })).status).toBe(405);
    const alone = await startAggregate({ amulet: {} });
    expect((await get(alone.url + CHANGES)).status).toBe(404);
  });

  test("are for as many clients as the configuration says; one more is told when to come back", async () => {
    const { url } = await startAggregate({ amulet: {}, bonds: {} }, { aggregate: { maxSubscribers: 2 } });
    const [first] = [await follow(url), await follow(url)];
    const { status, json, headers } = await get(url + CHANGES);
    expect([status, json.code, json.retryAfter, headers.get("retry-after")]).toEqual([
      503,
      "too_many_subscribers",
      10,
      "10",
    ]);
    first.close();
    await expect.poll(async () => (await follow(url).catch(() => undefined))?.status).toBe(200);
  });
});

describe("clients of tiers", () => {
  test("see the registries that they may use; a reload ends their streams", async () => {
    const tiers = { anonymous: { upstreams: ["bonds"] } };
    const { registries, url, gateway } = await startAggregate(
      { amulet: {}, bonds: {} },
      { clients: { tiers } },
      { clock },
    );
    const { amulet, bonds } = registries as { amulet: SampleRegistry; bonds: SampleRegistry };
    list(amulet, [ONE]);
    list(bonds, [ONE]);
    const subscriber = await follow(url);
    const [added] = await subscriber.next("change");
    expect(added!.data.registry).toBe("bonds");
    list(amulet, [TWO]);
    list(bonds, [ONE, TWO]);
    const [change] = await subscriber.next("change");
    expect(change!.data).toMatchObject({ type: "instrument_added", registry: "bonds" });
    const { json } = await get(`${url}${CHANGES}?since=${added!.id}`);
    expect(json.changes).toEqual([change!.data]);
    expect(subscriber.text).not.toContain("amulet");
    const upstreams = [amulet, bonds].map(({ admin, url: each }) => ({
      name: admin.split(":")[0],
      admin,
      urls: [each],
    }));
    const { listen, operations } = gateway.config;
    await gateway.reload({
      ...testConfig({ upstreams, clients: { tiers: { anonymous: { upstreams: ["amulet"] } } } }),
      listen,
      operations,
    });
    await expect.poll(() => subscriber.hasEnded).toBe(true);
    expect(subscriber.text).not.toContain("amulet");
    const again = await follow(url, { lastId: added!.id! });
    const [seen] = await again.next("change", 2);
    expect(seen!.data.registry).toBe("amulet");
    expect(again.text).not.toContain("bonds");
  });
});

// They were passed over in silence, and never told.
describe("changes of a registry whose alias may be another's by now", () => {
  const tiers = { anonymous: { upstreams: ["amulet", "bonds"] } };

  test.each(["that has not named its admin", "with another admin"])("one %s: clients list anew", async (other) => {
    const registries = await startRegistries({ amulet: {}, bonds: {}, coins: {} });
    const { amulet, bonds, coins } = registries as Record<"amulet" | "bonds" | "coins", SampleRegistry>;
    const keysWith = (url: string) => ({
      upstreams: [
        { name: "amulet", admin: amulet.admin, urls: [amulet.url] },
        { name: "bonds", urls: [url] },
      ],
      clients: { tiers },
    });
    const { url, gateway } = await startBefore(registries, keysWith(bonds.url), { clock });
    list(amulet, [ONE]);
    list(bonds, [ONE]);
    const subscriber = await follow(url);
    await subscriber.next("change", 2);
    const before = subscriber.lastId!;
    list(bonds, [ONE, TWO]);
    const [added] = await subscriber.next("change");
    expect(added!.data).toMatchObject({ type: "instrument_added", registry: "bonds" });
    if (other === "with another admin") list(coins, [ONE]);
    else coins.script(() => ({ status: 503 }));
    const { listen, operations } = gateway.config;
    await gateway.reload({ ...testConfig(keysWith(coins.url)), listen, operations });
    if (other === "with another admin") {
      await expect.poll(() => gateway.upstreams().byName("bonds")!.admin).toBe(coins.admin);
    }
    const { json } = await get(`${url}${CHANGES}?since=${before}`);
    expect(json).toMatchObject({ changes: [], reset: true });
    // Where the alias is another's, that the registry went may come in between.
    if (other === "that has not named its admin") {
      expect((await get(`${url}${CHANGES}?since=${String(json.lastId)}`)).json.reset).toBe(false);
    }
    const again = await follow(url, { lastId: before });
    const [reset] = await again.next("reset");
    expect(reset!.data).toEqual({ id: reset!.id, reason: "unknown" });
    expect(again.text).not.toContain(bonds.admin);
  });
});

describe("registries", () => {
  test("that a reload takes away went, and those that it brings came", async () => {
    const { registries, url, gateway } = await startAggregate({ amulet: {}, bonds: {}, coins: {} }, {}, { clock });
    for (const registry of Object.values(registries)) list(registry, [ONE]);
    const subscriber = await follow(url);
    await subscriber.next("change", 3);
    const upstreams = (...names: string[]) =>
      names.map((name) => ({ name, admin: registries[name]!.admin, urls: [registries[name]!.url] }));
    const { listen, operations } = gateway.config;
    const reload = (...names: string[]) =>
      gateway.reload({ ...testConfig({ upstreams: upstreams(...names) }), listen, operations });
    await reload("amulet", "bonds");
    await expect.poll(() => subscriber.hasEnded).toBe(true);
    const after = await follow(url, { lastId: subscriber.lastId! });
    const [removed] = await after.next("change");
    expect(removed!.data).toMatchObject({ type: "registry_removed", registry: "coins", admin: "coins::1220" });
    await reload("amulet", "bonds", "coins");
    await expect.poll(() => after.hasEnded).toBe(true);
    const [added] = await (await follow(url, { lastId: after.lastId! })).next("change");
    expect(added!.data).toMatchObject({ type: "registry_added", registry: "coins" });
  });
});

function pick<T extends object>(value: T, ...names: (keyof T)[]): Partial<T> {
  return Object.fromEntries(names.map((name) => [name, value[name]])) as Partial<T>;
}
