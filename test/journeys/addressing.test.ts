import { describe, expect, test } from "vitest";
import { NOTHING_KEPT } from "../support/gateway.ts";
import { contractId } from "../../src/sandbox/contracts.ts";
import { type Endpoint, ENDPOINTS, endpointPath } from "../../src/spec/endpoints.ts";
import { errorOf, type SentRequest, send } from "../support/send.ts";
import { shareOf } from "../support/thorough.ts";
import {
  ADMINS,
  REGISTRY_NAMES,
  type RegistryName,
  STRANGER,
  useThreeRegistries,
} from "../support/three-registries.ts";

/**
 * Every endpoint of both versions, by every way to address a registry, and by every way to address two at once: what all
 * places name is called, and nothing else is.
 */

const PREFIX = "/api/token-standard/v0/registrars";
const HEADER = "x-instrument-admin";

/** Where one request names a registry, and which. */
interface Naming {
  readonly path?: string;
  readonly header?: string;
  /** At the instrument, or the allocation, of a factory's body. */
  readonly instrument?: string;
  readonly expected?: string;
}

/** Where factories have their admin, besides `expectedAdmin`; the settlement factory has none. */
const PLACES: Partial<Record<Endpoint["operation"], (admin: string) => object>> = {
  transfer_factory: (admin) => ({ transfer: { instrumentId: { admin, id: "X" } } }),
  transfer_factory_v2: (admin) => ({ transfer: { instrumentId: { admin, id: "X" } } }),
  allocation_factory: (admin) => ({ allocation: { transferLeg: { instrumentId: { admin, id: "X" } } } }),
  allocation_factory_v2: (admin) => ({ allocation: { admin, transferLegs: [{ instrumentId: "X" }] } }),
};

const partyOf = (name: RegistryName) => ADMINS[name];
const encoded = (text: string) =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");

function waysTo(endpoint: Endpoint, name: RegistryName): readonly Naming[] {
  const party = partyOf(name);
  const paths = [
    name,
    encoded(name),
    party,
    encodeURIComponent(party),
    party.replace("::", "%3a%3a"),
    party.replace("::", ":%3A"),
    encoded(party),
  ];
  const ways: Naming[] = [...paths.map((path) => ({ path })), { header: party }, { header: name }];
  ways.push({ path: name, header: party }, { path: encodeURIComponent(party), header: name });
  if (endpoint.kind !== "factory") return ways;
  ways.push({ expected: party }, { path: name, expected: party }, { header: name, expected: party });
  if (PLACES[endpoint.operation] === undefined) return ways;
  const all = { path: name, header: party, instrument: party, expected: party };
  return [...ways, { instrument: party }, { path: party, instrument: party }, { header: name, instrument: party }, all];
}

/** Each pair of places names two registries, or one and a stranger; and each place alone a stranger, which is 404. */
function disagreementsAt(endpoint: Endpoint): readonly (readonly [Naming, status: number])[] {
  const places: (keyof Naming)[] = ["path", "header"];
  if (endpoint.kind === "factory") places.push("expected");
  if (PLACES[endpoint.operation] !== undefined) places.push("instrument");
  const rows: [Naming, number][] = [];
  for (const [at, one] of places.entries()) {
    rows.push([{ [one]: STRANGER }, 404]);
    for (const other of places.slice(at + 1)) {
      for (const [left, right] of [
        [ADMINS.amulet, ADMINS.bonds],
        [ADMINS.bonds, ADMINS.amulet],
        [ADMINS.amulet, STRANGER],
        [STRANGER, ADMINS.amulet],
      ]) {
        rows.push([{ [one]: left, [other]: right }, 400]);
      }
      // A third place that agrees with one of the two makes nothing good.
      const third = places.find((each) => each !== one && each !== other);
      if (third !== undefined) {
        rows.push([{ [one]: ADMINS.amulet, [other]: ADMINS.bonds, [third]: ADMINS.amulet }, 400]);
      }
    }
  }
  rows.push([{ path: "amulet", header: "bonds" }, 400], [{ path: "nobody" }, 404], [{ header: "nobody" }, 404]);
  return rows;
}

function requestOf(endpoint: Endpoint, { path, header, instrument, expected }: Naming, id: string): SentRequest {
  const below = endpointPath(endpoint, endpoint.operation === "instrument" ? "A b/c" : id);
  const choiceArguments = {
    ...(instrument === undefined ? {} : PLACES[endpoint.operation]!(instrument)),
    ...(expected === undefined ? {} : { expectedAdmin: expected }),
  };
  return {
    path: path === undefined ? below : `${PREFIX}/${path}${below}`,
    headers: header === undefined ? {} : { [HEADER]: header },
    ...(endpoint.kind === "metadata" ? {} : { body: JSON.stringify({ choiceArguments }) }),
  };
}

const OPERATIONS = ENDPOINTS.map((endpoint) => [endpoint.operation, endpoint] as const);
const INSTRUMENT = { id: "A b/c", name: "A", symbol: "A", decimals: 1, supportedApis: {} };

describe("a request for", () => {
  const running = useThreeRegistries({ keys: NOTHING_KEPT, registry: { instruments: [INSTRUMENT] } });

  describe.each(OPERATIONS.map(([operation, endpoint], at) => ({ operation, endpoint, at })))(
    "$operation",
    ({ operation, endpoint, at }) => {
      test.each(REGISTRY_NAMES.map((name, place) => ({ name, place })))(
        "reaches $name by every way that names it, and no other",
        async ({ name, place }) => {
          const id = contractId(ADMINS[name], operation);
          // The registries differ in their names alone here: each way leads to one of them, to another for the next.
          const ways = shareOf(waysTo(endpoint, name), (place + at) % REGISTRY_NAMES.length, REGISTRY_NAMES.length);
          for (const naming of ways) {
            running().clearCalls();
            const answer = await send(running().url, requestOf(endpoint, naming, id));
            const got = [answer.status, running().called()];
            expect(got, JSON.stringify(naming)).toEqual([200, [`${name} ${operation}`]]);
            const [call] = running().registries[name].calls.recent;
            expect(call!.url.split("?")[0]).toBe(requestOf(endpoint, {}, id).path);
            expect(call!.body.toString()).toBe(requestOf(endpoint, naming, id).body ?? "");
          }
        },
      );

      test("goes nowhere when two places disagree, or one names a stranger", async () => {
        const id = contractId(ADMINS.amulet, operation);
        running().clearCalls();
        for (const [naming, status] of disagreementsAt(endpoint)) {
          const answer = await send(running().url, requestOf(endpoint, naming, id));
          expect([answer.status, running().called()], JSON.stringify(naming)).toEqual([status, []]);
          expect(errorOf(answer)).toMatch(/^registry-gateway: /);
        }
      });
    },
  );
});

describe.each([
  ["a plain registry that routing.plain names", "bonds", "bonds"],
  ["no plain registry", "off", undefined],
] as const)("with %s", (_what, plain, name) => {
  const running = useThreeRegistries({
    keys: { ...NOTHING_KEPT, routing: { plain } },
    registry: { instruments: [INSTRUMENT] },
  });

  test.each(OPERATIONS)(
    "%s without an admin goes there or nowhere, and elsewhere when another is named",
    async (operation, endpoint) => {
      const id = contractId(ADMINS[name ?? "amulet"], operation);
      running().clearCalls();
      const { status } = await send(running().url, requestOf(endpoint, {}, id));
      expect([status, running().called()]).toEqual(name === undefined ? [400, []] : [200, [`${name} ${operation}`]]);
      running().clearCalls();
      const own = contractId(ADMINS.amulet, operation);
      expect((await send(running().url, requestOf(endpoint, { header: "amulet" }, own))).status).toBe(200);
      expect(running().called()).toEqual([`amulet ${operation}`]);
      if (endpoint.kind !== "factory") return;
      running().clearCalls();
      await send(running().url, requestOf(endpoint, { expected: ADMINS.funds }, id));
      expect(running().called()).toEqual([`funds ${operation}`]);
    },
  );
});
