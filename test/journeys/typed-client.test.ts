import { describe, expect, test } from "vitest";
import { contractId } from "../../src/sandbox/contracts.ts";
import { ENDPOINTS, endpointPath } from "../../src/spec/endpoints.ts";
import { answerProblem } from "../../src/spec/schemas.ts";
import {
  apiClient,
  type ApiPath,
  type Called,
  type ContextPath,
  type FactoryPath,
  Wallet,
} from "../support/api-client.ts";
import { runs, shareOf } from "../support/thorough.ts";
import { ADMINS, REGISTRY_NAMES, type RegistryName, useThreeRegistries } from "../support/three-registries.ts";

const GETS = [
  "/registry/metadata/v1/info",
  "/registry/metadata/v1/instruments",
  "/registry/metadata/v1/instruments/{id}",
] as const satisfies readonly ApiPath[];

const CONTEXTS = [
  "/registry/transfer-instruction/v1/{id}/choice-contexts/accept",
  "/registry/transfer-instruction/v1/{id}/choice-contexts/reject",
  "/registry/transfer-instruction/v1/{id}/choice-contexts/withdraw",
  "/registry/allocations/v1/{id}/choice-contexts/execute-transfer",
  "/registry/allocations/v1/{id}/choice-contexts/withdraw",
  "/registry/allocations/v1/{id}/choice-contexts/cancel",
  "/registry/transfer-instruction/v2/{id}/choice-contexts/accept",
  "/registry/transfer-instruction/v2/{id}/choice-contexts/reject",
  "/registry/transfer-instruction/v2/{id}/choice-contexts/withdraw",
  "/registry/allocation-instruction/v2/{id}/choice-contexts/accept",
  "/registry/allocation-instruction/v2/{id}/choice-contexts/withdraw",
  "/registry/allocations/v2/{id}/choice-contexts/withdraw",
  "/registry/allocations/v2/{id}/choice-contexts/cancel",
] as const satisfies readonly ContextPath[];

const ALICE = "alice::1220aa";
const BOB = "bob::1220bb";

/** What the factories take, by path: in version 2 parties are accounts, and `expectedAdmin` is gone. */
const FACTORIES: Readonly<Record<FactoryPath, (admin: string) => Record<string, unknown>>> = {
  "/registry/transfer-instruction/v1/transfer-factory": (admin) => ({
    expectedAdmin: admin,
    transfer: { sender: ALICE, receiver: BOB, amount: "1.0", instrumentId: { admin, id: "Amulet" } },
  }),
  "/registry/allocation-instruction/v1/allocation-factory": (admin) => ({
    expectedAdmin: admin,
    allocation: { transferLegId: "1", transferLeg: { sender: ALICE, receiver: BOB, instrumentId: { admin, id: "A" } } },
  }),
  "/registry/transfer-instruction/v2/transfer-factory": (admin) => ({
    transfer: { sender: account(ALICE), receiver: account(BOB), amount: "1.0", instrumentId: { admin, id: "Amulet" } },
    actors: [ALICE],
  }),
  "/registry/allocation-instruction/v2/allocation-factory": (admin) => ({
    allocation: { admin, authorizer: account(ALICE), transferLegs: [leg(0)] },
    actors: [ALICE],
  }),
  "/registry/allocation/v2/settlement-factory": (admin) => ({
    settlement: { executor: BOB },
    transferLegs: Array.from({ length: 100 }, (_none, at) => leg(at)),
    allocations: Array.from({ length: 100 }, (_none, at) => contractId(admin, `allocation ${at}`)),
    actors: [BOB],
    extraArgs: { context: { values: {} }, meta: { values: {} } },
  }),
};

const account = (owner: string) => ({ owner, provider: null, id: "" });
const leg = (at: number) => ({
  transferLegId: `leg-${at}`,
  sender: account(ALICE),
  receiver: account(BOB),
  amount: "1.0",
  instrumentId: "Amulet",
});

const operationAt = (path: ApiPath) =>
  ENDPOINTS.find((endpoint) => endpointPath(endpoint, "\0").replace("%00", "{id}") === path)!.operation;

test("the typed client has every endpoint, and no other", () => {
  const paths: readonly string[] = [...GETS, ...CONTEXTS, ...Object.keys(FACTORIES)];
  const known = ENDPOINTS.map((endpoint) => endpointPath(endpoint, "\0").replace("%00", "{id}"));
  expect(paths.toSorted()).toEqual(known.toSorted());
});

describe.each(REGISTRY_NAMES.map((name, place) => ({ name, place })))(
  "a typed client of both versions at $name",
  ({ name, place }) => {
    const running = useThreeRegistries();
    const client = (base = running().registrar(name)) => apiClient(base);

    test("reads its metadata", async () => {
      const { data: info } = await client().GET("/registry/metadata/v1/info", { params: {} });
      expect(info?.adminId).toBe(ADMINS[name]);
      const path = "/registry/metadata/v1/instruments";
      const { data: page } = await client().GET(path, { params: { query: { pageSize: 3 } } });
      for (const listed of page!.instruments.slice(0, 3)) {
        const { data } = await client().GET(`${path}/{id}`, { params: { path: { id: listed.id } } });
        expect(data).toEqual(listed);
      }
    });

    test.each(shareOf(CONTEXTS, place, REGISTRY_NAMES.length))("has the context of %s", async (path) => {
      running().clearCalls();
      const id = contractId(ADMINS[name], path);
      const { data, response } = await client().POST(path, { params: { path: { id } }, body: {} });
      expect(response.status).toBe(200);
      expect(answerProblem(operationAt(path), data)).toBeUndefined();
      expect(running().called()).toEqual([`${name} ${operationAt(path)}`]);
      const unknown = contractId("another::1220", path);
      const { error } = await client().POST(path, { params: { path: { id: unknown } }, body: {} });
      expect(error?.error).toContain(unknown);
    });

    test.each(shareOf(Object.keys(FACTORIES) as FactoryPath[], place, REGISTRY_NAMES.length))(
      "has the factory of %s",
      async (path) => {
        running().clearCalls();
        const body = { choiceArguments: FACTORIES[path](ADMINS[name]) };
        const { data, response } = await client().POST(path, { params: {}, body });
        expect(response.status).toBe(200);
        expect(answerProblem(operationAt(path), data)).toBeUndefined();
        expect(running().called()).toEqual([`${name} ${operationAt(path)}`]);
      },
    );

    test("reaches every factory whose body names the admin at the plain base URL", async () => {
      running().clearCalls();
      const paths = (Object.keys(FACTORIES) as FactoryPath[]).filter((path) => !path.includes("settlement"));
      for (const path of paths) {
        const body = { choiceArguments: FACTORIES[path](ADMINS[name]) };
        expect((await client(running().url).POST(path, { params: {}, body })).response.status).toBe(200);
      }
      expect(running().called()).toEqual(paths.map((path) => `${name} ${operationAt(path)}`));
    });
  },
);

/** Everything that a wallet does with both versions, at one registry. */
async function useEverything(wallet: Wallet, name: RegistryName): Promise<Called[]> {
  const { client } = wallet;
  const admin = ADMINS[name];
  const contract = { params: { path: { id: contractId(admin, "a contract") } }, body: {} };
  const made = (path: FactoryPath) => ({ params: {}, body: { choiceArguments: FACTORIES[path](admin) } });
  const transfers = await wallet.supports("splice-api-token-transfer-instruction-v2");
  const allocations = await wallet.supports("splice-api-token-allocation-v2");
  const instructions = await wallet.supports("splice-api-token-allocation-instruction-v2");
  const called: Called[] = [];
  for (const choice of ["accept", "reject", "withdraw"] as const) {
    called.push(
      await wallet.call(transfers, {
        v2: () => client.POST(`/registry/transfer-instruction/v2/{id}/choice-contexts/${choice}`, contract),
        v1: () => client.POST(`/registry/transfer-instruction/v1/{id}/choice-contexts/${choice}`, contract),
      }),
    );
  }
  for (const choice of ["withdraw", "cancel"] as const) {
    called.push(
      await wallet.call(allocations, {
        v2: () => client.POST(`/registry/allocations/v2/{id}/choice-contexts/${choice}`, contract),
        v1: () => client.POST(`/registry/allocations/v1/{id}/choice-contexts/${choice}`, contract),
      }),
    );
  }
  const transferOf = (version: "v1" | "v2") => `/registry/transfer-instruction/${version}/transfer-factory` as const;
  const allocateOf = (version: "v1" | "v2") =>
    `/registry/allocation-instruction/${version}/allocation-factory` as const;
  called.push(
    await wallet.call(transfers, {
      v2: () => client.POST(transferOf("v2"), made(transferOf("v2"))),
      v1: () => client.POST(transferOf("v1"), made(transferOf("v1"))),
    }),
    await wallet.call(instructions, {
      v2: () => client.POST(allocateOf("v2"), made(allocateOf("v2"))),
      v1: () => client.POST(allocateOf("v1"), made(allocateOf("v1"))),
    }),
    await wallet.call(allocations, {
      v2: () =>
        client.POST("/registry/allocation/v2/settlement-factory", made("/registry/allocation/v2/settlement-factory")),
      v1: () => client.POST("/registry/allocations/v1/{id}/choice-contexts/execute-transfer", contract),
    }),
  );
  return called;
}

const TURNS = runs(1, 5);

const ALL = Array.from({ length: 8 }, () => 200);

describe("a wallet that prefers version 2 and falls back on 404", () => {
  describe("at registries that have it", () => {
    const running = useThreeRegistries();

    test.each(REGISTRY_NAMES)("uses version 2 throughout: %s", async (name) => {
      const wallet = new Wallet(apiClient(running().registrar(name)));
      const called = await useEverything(wallet, name);
      expect(called.map(({ status }) => status)).toEqual(ALL);
      expect(new Set(called.map(({ version }) => version))).toEqual(new Set(["v2"]));
      expect(new Set(wallet.statuses)).toEqual(new Set([200]));
    });
  });

  describe.each(["html", "own"] as const)("at registries without it, whose 404 is of the kind %s", (unknownPaths) => {
    const running = useThreeRegistries({ registry: { version: "v1", unknownPaths } });

    test.each(REGISTRY_NAMES)("uses version 1, which is all that the info names: %s", async (name) => {
      const wallet = new Wallet(apiClient(running().registrar(name)));
      const called = await useEverything(wallet, name);
      expect(called.map(({ status, version }) => `${status} ${version}`)).toEqual(ALL.map((status) => `${status} v1`));
      expect(new Set(wallet.statuses)).toEqual(new Set([200]));
    });

    test.each(REGISTRY_NAMES)(
      "falls back where the info is wrong or old, and sees no 502 and no other failure: %s",
      async (name) => {
        const base = running().registrar(name);
        const wallet = new Wallet(apiClient(base));
        // As after a rollback: the info that it kept still names version 2.
        wallet.supports = () => Promise.resolve(true);
        for (let turn = 0; turn < TURNS; turn += 1) {
          const called = await useEverything(wallet, name);
          expect(called.map(({ status, version }) => `${status} ${version}`)).toEqual(
            ALL.map((status) => `${status} v1`),
          );
        }
        expect(wallet.statuses.filter((status) => status === 200)).toHaveLength(8 * TURNS);
        expect(wallet.statuses.filter((status) => status === 404)).toHaveLength(8 * TURNS);
        expect(wallet.statuses).toHaveLength(16 * TURNS);
      },
    );

    test("by the header, too, and is told why in the form of errors", async () => {
      const client = apiClient(running().url, { "x-instrument-admin": "bonds" });
      const path = "/registry/allocation/v2/settlement-factory";
      const { error, response } = await client.POST(path, { params: {}, body: { choiceArguments: {} } });
      expect([response.status, typeof error?.error]).toEqual([404, "string"]);
    });
  });
});

describe("a contract that was learned in one version", () => {
  const running = useThreeRegistries({ keys: { routing: { learn: true } } });

  test.each([
    ["v1", "v2"],
    ["v2", "v1"],
  ] as const)("is known in the other: %s, then %s, at the plain base URL", async (first, then) => {
    const id = contractId(ADMINS.funds, `learned in ${first}`);
    const contract = { params: { path: { id } }, body: {} };
    const at = (version: "v1" | "v2") => `/registry/allocations/${version}/{id}/choice-contexts/cancel` as const;
    const plain = apiClient(running().url);
    expect((await plain.POST(at(then), contract)).response.status).toBe(400);
    expect((await apiClient(running().registrar("funds")).POST(at(first), contract)).response.status).toBe(200);
    running().clearCalls();
    await expect.poll(async () => (await plain.POST(at(then), contract)).response.status).toBe(200);
    expect(new Set(running().called())).toEqual(new Set([`funds allocation_cancel${then === "v2" ? "_v2" : ""}`]));
  });
});
