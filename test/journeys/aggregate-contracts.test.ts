import { describe, expect, test, vi } from "vitest";
import { contractId, ownContracts } from "../../src/sandbox/contracts.ts";
import { type Aggregate, get, type Got, useAggregates } from "../support/aggregate-registries.ts";

const { startAggregate, startRegistries, startBefore } = useAggregates();

const NAMES = ["amulet", "bonds", "funds"];

const choosy = (name: string) => ({ contracts: ownContracts(`${name}::1220`) });
const OWN = Object.fromEntries(NAMES.map((name) => [name, choosy(name)]));

function ask(base: string, contract: string): Promise<Got> {
  return get(`${base}/registry/allocations/v1/${contract}/choice-contexts/cancel`, {
    method: "POST",
    body: "{}",
    headers: { "content-type": "application/json", authorization: "Bearer client" },
  });
}

/** Which registries were asked for contexts. */
function asked({ registries }: Aggregate): string[] {
  return NAMES.filter((name) => (registries[name]?.calls.count("allocation_cancel") ?? 0) > 0);
}

const BONDS = contractId("bonds::1220", "an allocation");

describe("a contract id at the plain base URL", () => {
  test("says nothing about its registry by itself", async () => {
    const aggregate = await startAggregate(OWN);
    const { status, json } = await ask(aggregate.url, BONDS);
    expect(status).toBe(400);
    expect(json.error).toContain("send it to /api/token-standard/v0/registrars/{admin}/registry/");
    expect(asked(aggregate)).toEqual([]);
  });
});

describe("routing.learn", () => {
  const keys = { routing: { learn: true } };

  test("sends a contract to the registry that answered for it before, and no other", async () => {
    const aggregate = await startAggregate(OWN, keys);
    expect((await ask(aggregate.url, BONDS)).status).toBe(400);
    expect((await ask(aggregate.registrar("bonds"), BONDS)).status).toBe(200);
    expect((await ask(aggregate.url, BONDS)).status).toBe(200);
    expect(asked(aggregate)).toEqual(["bonds"]);
  });

  test("learns nothing from a refusal", async () => {
    const aggregate = await startAggregate(OWN, keys);
    expect((await ask(aggregate.registrar("amulet"), BONDS)).status).toBe(404);
    expect((await ask(aggregate.url, BONDS)).status).toBe(400);
  });

  test("refuses a contract that two registries answered for", async () => {
    const aggregate = await startAggregate({ amulet: {}, bonds: {} }, keys);
    expect((await ask(aggregate.registrar("amulet"), BONDS)).status).toBe(200);
    expect((await ask(aggregate.registrar("bonds"), BONDS)).status).toBe(200);
    await vi.waitFor(
      async () => {
        const { status, json } = await ask(aggregate.url, BONDS);
        expect([status, json.error]).toEqual([400, expect.stringContaining("more than one registry has answered")]);
      },
      { timeout: 60_000 },
    );
  });
});

describe("routing.probe", () => {
  const keys = { routing: { probe: true } };

  test("asks all registries, and the one that knows the contract is the answer", async () => {
    const aggregate = await startAggregate(OWN, keys);
    const answer = await ask(aggregate.url, BONDS);
    const direct = await ask(aggregate.registries.bonds!.url, BONDS);
    expect([answer.status, answer.text]).toEqual([200, direct.text]);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect(asked(aggregate)).toEqual(NAMES);
    for (const { calls } of Object.values(aggregate.registries)) {
      const leaked = calls.recent.filter(({ headers }) => headers.authorization === "Bearer client");
      expect(leaked.length).toBeLessThanOrEqual(calls === aggregate.registries.bonds!.calls ? 1 : 0);
    }
  });

  test("is 404 only when all registries say so", async () => {
    const aggregate = await startAggregate(OWN, keys);
    const unknown = contractId("nobody::1220", "an allocation");
    expect((await ask(aggregate.url, unknown)).status).toBe(404);
    await aggregate.registries.funds!.kill();
    expect((await ask(aggregate.url, unknown)).status).toBe(502);
    expect((await ask(aggregate.url, BONDS)).status).toBe(200);
    await aggregate.registries.funds!.revive();
  });

  test("is 400 when several know the contract, or one says neither yes nor no", async () => {
    const several = await startAggregate({ amulet: {}, bonds: {}, funds: choosy("funds") }, keys);
    const { status, json } = await ask(several.url, BONDS);
    expect([status, json.error]).toEqual([400, expect.stringContaining("more than one registry knows")]);

    const odd = await startAggregate(OWN, keys);
    odd.registries.amulet!.script(({ operation }) =>
      operation === "allocation_cancel" ? { status: 409, body: '{"error":"being reassigned"}' } : undefined,
    );
    const refusal = await ask(odd.url, contractId("nobody::1220", "an allocation"));
    expect([refusal.status, refusal.json.error]).toEqual([
      400,
      expect.stringContaining('"amulet" refused the request with 409'),
    ]);
  });

  // A registry that failed was said to have refused the request: clients gave up what only had to be asked again.
  test.each([
    ["500", { status: 500, body: '{"error":"ledger away"}' }, 502, null],
    ["501 in HTML", { status: 501, body: "<html>" }, 502, null],
    ["502", { status: 502, body: "" }, 502, null],
    ["503 with Retry-After", { status: 503, body: "{}", headers: ["retry-after", "7"] }, 503, "7"],
    ["504", { status: 504, body: '{"error":"late"}' }, 504, null],
    ["429", { status: 429, body: '{"error":"slow down"}', headers: ["retry-after", "3"] }, 503, "3"],
  ])("is no 400 where a registry answered %s: it might be the one", async (_what, answer, status, after) => {
    const aggregate = await startAggregate(OWN, keys);
    const { amulet } = aggregate.registries;
    amulet!.script(({ operation }) => (operation === "allocation_cancel" ? answer : undefined));
    const unknown = await ask(aggregate.url, contractId("nobody::1220", "an allocation"));
    expect([unknown.status, unknown.headers.get("retry-after")]).toEqual([status, after]);
    expect(unknown.json.error).toContain(`upstream "amulet" answered ${answer.status}`);
    // The one that knows it is the answer all the same.
    expect((await ask(aggregate.url, BONDS)).status).toBe(200);
  });

  test("is 503 where a registry may not be asked any more", async () => {
    const registries = await startRegistries(OWN);
    const rateLimit = { requests: 3, per: "10m", maxWait: "0s" };
    const upstreams = Object.entries(registries).map(([name, { admin, url }]) => ({
      name,
      admin,
      urls: [url],
      rateLimit,
    }));
    const aggregate = await startBefore(registries, { ...keys, upstreams });
    const unknown = contractId("nobody::1220", "an allocation");
    const answers = [];
    for (let i = 0; i < 4; i += 1) answers.push(await ask(aggregate.url, unknown));
    expect(answers.at(-1)).toMatchObject({ status: 503, json: { error: expect.stringContaining("that is used up") } });
  });

  test("asks once where learning is on too", async () => {
    const registries = await startRegistries(OWN);
    const aggregate = await startBefore(registries, { routing: { probe: true, learn: true } });
    await ask(aggregate.url, BONDS);
    for (const { calls } of Object.values(registries)) calls.clear();
    await ask(aggregate.url, BONDS);
    expect(asked(aggregate)).toEqual(["bonds"]);
  });
});
