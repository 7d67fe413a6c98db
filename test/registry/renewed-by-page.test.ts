import { expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { clientRequest, openRegistryOf } from "../support/registry-metadata.ts";
import { until } from "../support/until.ts";
import { ADMIN, startRegistry } from "../support/upstream-registries.ts";

const INSTRUMENTS = 5;

/** What every client sends to a registry that answers nothing but its info without it. */
const TOKEN = { authorization: "Bearer a" };

/** A registry whose page of instruments was asked for once, and a clock that can be put forward. */
async function listed(keys: Record<string, unknown> = {}, headers: Partial<typeof TOKEN> = {}) {
  const real = systemClock();
  let ahead = 3_600_000;
  // What a `Date` says stays as it is.
  const clock = { ...real, now: () => real.now() + ahead };
  const wantsToken = headers.authorization !== undefined;
  const cacheHeaders = () => (wantsToken ? { "cache-control": "public, max-age=30" } : {});
  const registry = await startRegistry({ instruments: INSTRUMENTS, clock, cacheHeaders });
  if (wantsToken) {
    registry.script(({ operation, headers: { authorization } }) =>
      operation === "info" || authorization === headers.authorization
        ? undefined
        : { status: 401, body: '{"error":"who?"}' },
    );
  }
  const { metadata } = openRegistryOf([registry], keys, { clock });
  const request = () => ({ ...clientRequest(), headers, deadline: clock.now() + 10_000 });
  const page = () => metadata.get(ADMIN, { operation: "instruments" }, request());
  const { body } = await page();
  const { instruments } = JSON.parse(body!.toString()) as { instruments: { id: string }[] };
  const info = () => metadata.get(ADMIN, { operation: "info" }, request());
  const get = (at: number, further = {}, time = 10_000) => {
    const address = { operation: "instrument", id: instruments[at]!.id } as const;
    return metadata.get(ADMIN, address, {
      ...request(),
      headers: { ...headers, ...further },
      deadline: clock.now() + time,
    });
  };
  const calls = () => [registry.calls.count("instruments"), registry.calls.count("instrument")];
  const advance = (seconds: number) => {
    ahead += seconds * 1_000;
  };
  return { registry, text: body!.toString(), info, page, get, calls, advance };
}

test("instruments that are served stale are renewed by one call for their page", async () => {
  const { get, calls, advance } = await listed();
  advance(31);
  for (let at = 0; at < INSTRUMENTS; at += 1) expect((await get(at)).status).toBe(200);
  await until(async () => (await get(INSTRUMENTS - 1)).outcome === "hit");
  for (let at = 0; at < INSTRUMENTS; at += 1) expect(await get(at)).toMatchObject({ outcome: "hit", age: 0 });
  expect(calls()).toEqual([2, 0]);
});

test("instruments that have to be asked for first are renewed by one call for their page", async () => {
  const { get, calls, advance } = await listed();
  advance(120);
  const answers = await Promise.all(Array.from({ length: INSTRUMENTS }, (_, at) => get(at)));
  for (const answer of answers) expect(answer).toMatchObject({ status: 200, age: 0 });
  expect(calls()).toEqual([2, 0]);
});

test("an instrument that is asked for often is renewed ahead by a call for its page", async () => {
  const { get, calls, advance } = await listed();
  for (let at = 0; at < 10; at += 1) await get(0);
  advance(26.9);
  await get(0);
  await until(async () => (await get(0)).age === 0);
  expect(calls()).toEqual([2, 0]);
});

test.for([
  ["fails", { kind: "reset" }],
  ["hangs", { kind: "hang" }],
] as const)("an instrument whose page %s is asked for by itself", async ([, fault]) => {
  const { registry, get, calls, advance } = await listed({ timeout: "3s", retry: { attempts: 1 } });
  advance(120);
  await registry.faults.set({ ...fault, operations: ["instruments"] });
  expect(await get(0)).toMatchObject({ status: 200, age: 0 });
  expect(calls()).toEqual([2, 1]);
});

test("a page that may not be kept any more is not asked for before each of its instruments", async () => {
  const { registry, get, calls, advance } = await listed();
  advance(120);
  registry.script(({ operation }) =>
    operation === "instruments"
      ? { status: 200, headers: ["cache-control", "no-store"], body: '{"instruments":[]}' }
      : undefined,
  );
  for (let at = 0; at < INSTRUMENTS; at += 1) expect(await get(at)).toMatchObject({ status: 200, age: 0 });
  expect(calls()).toEqual([2, INSTRUMENTS]);
});

test.for([
  ["in a hurry", 1_500],
  ["with time", 9_000],
] as const)("a client %s has its instrument though the page hangs", async ([, time]) => {
  const { registry, get, calls, advance } = await listed({ timeout: "3s", retry: { attempts: 1 } });
  advance(120);
  await registry.faults.set({ kind: "hang", operations: ["instruments"] });
  expect(await get(0, {}, time)).toMatchObject({ status: 200, age: 0 });
  // The next one does not wait for the page again.
  expect(await get(1, {}, time)).toMatchObject({ status: 200, age: 0 });
  expect(calls()[1]).toBe(2);
});

test("a page that was slow once is not the last that is asked for in its instruments' place", async () => {
  const { registry, page, get, calls, advance } = await listed();
  const held = Promise.withResolvers<undefined>();
  registry.script(({ operation }) => (operation === "instruments" ? held.promise : undefined));
  const rounds: number[][] = [];
  for (let round = 0; round < 3; round += 1) {
    advance(120);
    expect(await get(0)).toMatchObject({ status: 200, age: 0 });
    held.resolve(undefined);
    await until(async () => (await page()).outcome === "hit");
    for (let at = 0; at < INSTRUMENTS; at += 1) expect((await get(at)).outcome).toBe("hit");
    rounds.push(calls());
  }
  expect(rounds).toEqual([
    [2, 1],
    [3, 2],
    [4, 2],
  ]);
});

test("a page that is out of date as it comes is not asked for in an instrument's place", async () => {
  const { registry, text, page, get, calls, advance } = await listed();
  registry.script(({ operation }) =>
    operation === "instruments"
      ? { status: 200, headers: ["cache-control", "max-age=0", "etag", '"1"'], body: text }
      : undefined,
  );
  advance(120);
  expect((await page()).status).toBe(200);
  expect((await get(0)).status).toBe(200);
  expect(calls()).toEqual([2, 1]);
});

test("an instrument that is gone does not come back from a page that was asked for before", async () => {
  const { registry, get, calls } = await listed({ cache: { honorClient: true, clientFloor: "0s" } });
  registry.script(({ operation }) =>
    operation === "instrument" ? { status: 410, body: '{"error":"gone"}' } : undefined,
  );
  expect((await get(0, { "cache-control": "no-cache" })).status).toBe(410);
  for (let i = 0; i < 2; i += 1) expect((await get(0)).status).toBe(410);
  expect(calls()).toEqual([1, 3]);
});

test("an instrument that may not be kept any more does not come back from a page that was asked for before", async () => {
  const ttl = { instruments: "60s", instrument: "5s" };
  const { registry, text, get, advance } = await listed({ cache: { ttl } });
  const { instruments } = JSON.parse(text) as { instruments: readonly object[] };
  const cacheControl = ["cache-control", "max-age=0, must-revalidate"];
  registry.script(({ operation }) =>
    operation === "instrument"
      ? { status: 200, headers: cacheControl, body: JSON.stringify({ ...instruments[0], name: "later" }) }
      : undefined,
  );
  advance(6);
  expect((await get(0)).outcome).toBe("stale");
  const read = async () => String((await get(0)).body);
  await until(async () => (await read()).includes("later"));
  registry.script(({ operation }) => (operation === "instrument" ? { status: 503, body: "" } : undefined));
  expect((await get(0)).status).toBe(503);
});

test("a page that a client waits for goes before refreshes that nobody does, where calls are scarce", async () => {
  const keys = { rateLimit: { requests: 10, per: "1h", maxWait: "0s" }, cache: { ttl: { info: "0s" } } };
  const { info, get, calls, advance } = await listed(keys);
  // With the proof and the page seven: refreshes have so many, clients' calls one more.
  for (let i = 0; i < 5; i += 1) expect((await info()).status).toBe(200);
  advance(120);
  expect(await get(0)).toMatchObject({ status: 200, age: 0 });
  expect(calls()).toEqual([2, 0]);
});

test("while something can be served, a client does not wait seconds for a limit that is used up", async () => {
  const { page, calls, advance } = await listed({ rateLimit: { requests: 2, per: "105s", maxWait: "8s" } });
  advance(100);
  expect(await page()).toMatchObject({ status: 200, outcome: "stale", age: 100 });
  expect(calls()).toEqual([1, 0]);
});

test.for([
  ["have to be asked for first", 120, "miss"],
  ["are served stale", 31, "stale"],
] as const)(
  "where a registry sees who asks, instruments that %s have no call for their page",
  async ([, age, outcome]) => {
    const { registry, get, advance } = await listed({ forwardAuthorization: true }, TOKEN);
    for (let round = 0; round < 2; round += 1) {
      advance(age);
      expect(await get(0)).toMatchObject({ status: 200, outcome });
      await until(async () => (await get(0)).outcome === "hit");
    }
    const asked = registry.calls.recent.map(({ operation, headers }) => `${operation}:${headers.authorization ?? "-"}`);
    expect(asked).toEqual(["info:-", "instruments:Bearer a", "instrument:Bearer a", "instrument:Bearer a"]);
  },
);
