import { type PostRequest, TokenStandardClient } from "@canton-network/core-token-standard";
import { describe, expect, test } from "vitest";
import { contractId } from "../../../src/sandbox/contracts.ts";
import { sampleJson } from "../../support/sample.ts";
import { ADMINS, REGISTRY_NAMES, type RegistryName, useThreeRegistries } from "../../support/three-registries.ts";

type FactoryRequest = PostRequest<"/registry/transfer-instruction/v1/transfer-factory">;

/** Sizes of listings as registries have them. */
const SIZES: Readonly<Record<RegistryName, number>> = { amulet: 563, bonds: 20, funds: 0 };

const OPERATOR = "/api/utilities/v0/operator";

const running = useThreeRegistries({
  of: (name) => ({
    registry: { instruments: SIZES[name] },
    upstream: { basePaths: [`/api/${name}/v0/scan-proxy`], extraPaths: name === "bonds" ? [OPERATOR] : [] },
  }),
});

const silent = { info() {}, debug() {}, warn() {}, error() {}, trace() {}, fatal() {}, child: () => silent };
// It sends the token it has; the gateway must not pass it on.
const token = { getAccessToken: async () => "client-token" };

/** The client as a wallet makes it: nothing but the base URL is ours. */
function clientOf(baseUrl: string): TokenStandardClient {
  type Parameters = ConstructorParameters<typeof TokenStandardClient>;
  return new TokenStandardClient(baseUrl, silent, token as unknown as Parameters[2]);
}

/** The base URLs under which wallets may know one registry. */
const BASES: Readonly<Record<string, (name: RegistryName) => string>> = {
  "the encoded party id": (name) => running().registrar(ADMINS[name]),
  "the party id as Go leaves it": (name) => `${prefix()}/${ADMINS[name]}`,
  "the party id in lower-case codes": (name) => `${prefix()}/${ADMINS[name].replace("::", "%3a%3a")}`,
  "the alias": (name) => running().registrar(name),
  "a slash at the end": (name) => `${running().registrar(name)}/`,
  "/registry at the end": (name) => `${running().registrar(name)}/registry`,
  "/registry/ at the end": (name) => `${running().registrar(name)}/registry/`,
  "a base path of its own": (name) => `${running().url}/api/${name}/v0/scan-proxy`,
};

const prefix = (): string => `${running().url}/api/token-standard/v0/registrars`;

function factoryRequest(name: RegistryName, kind: "04-transfer" | "11-allocation"): FactoryRequest {
  const sample = `${kind}-factory.request.${name === "amulet" ? "amulet" : "utility"}.json`;
  const text = JSON.stringify(sampleJson(sample)).replaceAll(ADMINS.bonds, ADMINS[name]);
  return JSON.parse(text) as FactoryRequest;
}

async function factories(client: TokenStandardClient, name: RegistryName): Promise<void> {
  const transfer = await client.post(
    "/registry/transfer-instruction/v1/transfer-factory",
    factoryRequest(name, "04-transfer"),
  );
  expect(transfer.factoryId).toHaveLength(138);
  expect(transfer.choiceContext.disclosedContracts.length).toBeGreaterThan(1);
  const allocation = await client.post(
    "/registry/allocation-instruction/v1/allocation-factory",
    factoryRequest(name, "11-allocation"),
  );
  expect(allocation.factoryId).toHaveLength(138);
}

async function contexts(client: TokenStandardClient, name: RegistryName): Promise<void> {
  const request = { excludeDebugFields: true };
  const transferInstructionId = contractId(ADMINS[name], "a transfer");
  for (const choice of ["accept", "reject", "withdraw"] as const) {
    const endpoint = `/registry/transfer-instruction/v1/{transferInstructionId}/choice-contexts/${choice}` as const;
    const answer = await client.post(endpoint, request, { path: { transferInstructionId } });
    expect(answer.disclosedContracts.length).toBeGreaterThan(1);
  }
  const allocationId = contractId(ADMINS[name], "an allocation");
  for (const choice of ["execute-transfer", "withdraw", "cancel"] as const) {
    const endpoint = `/registry/allocations/v1/{allocationId}/choice-contexts/${choice}` as const;
    const answer = await client.post(endpoint, request, { path: { allocationId } });
    expect(answer.disclosedContracts.length).toBeGreaterThan(1);
  }
}

async function metadata(client: TokenStandardClient, name: RegistryName): Promise<void> {
  const info = await client.get("/registry/metadata/v1/info");
  expect(info.adminId).toBe(ADMINS[name]);
  const page = await client.get("/registry/metadata/v1/instruments");
  for (const listed of page.instruments.slice(0, 3)) {
    const path = { instrumentId: listed.id };
    const instrument = await client.get("/registry/metadata/v1/instruments/{instrumentId}", { path });
    expect(instrument).toEqual(listed);
  }
}

describe.each(REGISTRY_NAMES)("the official client, unchanged, at %s", (name) => {
  test.each(Object.keys(BASES))("completes all eleven endpoints by %s", async (form) => {
    running().clearCalls();
    const client = clientOf(BASES[form]!(name));
    await metadata(client, name);
    await factories(client, name);
    await contexts(client, name);
    const elsewhere = running()
      .called()
      .filter((call) => !call.startsWith(name));
    expect(elsewhere).toEqual([]);
    const { calls } = running().registries[name];
    expect(calls.total).toBeGreaterThanOrEqual(8);
    expect(calls.count("pass_through")).toBe(0);
    expect(calls.recent.filter(({ headers }) => headers.authorization !== undefined)).toEqual([]);
  });

  test("reaches both factories at the plain base URL, routed by the body", async () => {
    running().clearCalls();
    await factories(clientOf(running().url), name);
    expect(running().called()).toEqual([`${name} transfer_factory`, `${name} allocation_factory`]);
  });

  test.each([7, 25, 100, undefined])("pages through the whole listing by %s", async (pageSize) => {
    const client = clientOf(running().registrar(name));
    const ids: string[] = [];
    let pageToken: string | undefined;
    for (let pages = 0; pages < 100; pages++) {
      const page = await client.get("/registry/metadata/v1/instruments", {
        query: { ...(pageSize === undefined ? {} : { pageSize }), ...(pageToken === undefined ? {} : { pageToken }) },
      });
      ids.push(...page.instruments.map(({ id }) => id));
      pageToken = page.nextPageToken ?? undefined;
      if (pageToken === undefined) break;
    }
    expect(ids).toHaveLength(SIZES[name]);
    expect(ids).toEqual(
      running()
        .registries[name].catalogue.list()
        .map(({ id }) => id),
    );
  });

  test("is told why in the registry's own words", async () => {
    const path = { instrumentId: "DOES-NOT/EXIST" };
    const client = clientOf(running().registrar(name));
    const unknown = client.get("/registry/metadata/v1/instruments/{instrumentId}", { path });
    await expect(unknown).rejects.toEqual({ error: "No instrument with id DOES-NOT/EXIST found" });
  });
});

test("the reference wallet finds the operator at the origin of a registry's URL", async () => {
  const headers = ["content-type", "application/json", "cache-control", "max-age=60"];
  running().registries.bonds.script(({ url }) =>
    url === OPERATOR ? { status: 200, headers, body: '{"partyId":"operator::1220"}' } : undefined,
  );
  running().clearCalls();
  for (const form of ["the encoded party id", "a base path of its own"]) {
    const registryUrl = BASES[form]!("bonds");
    const answer = await fetch(new URL(registryUrl).origin + OPERATOR);
    expect([answer.status, await answer.json()]).toEqual([200, { partyId: "operator::1220" }]);
  }
  expect(running().called()).toEqual(["bonds pass_through"]);
});

test("wallets at all three registries at once get each their own", async () => {
  const wallets = REGISTRY_NAMES.flatMap((name) => [name, name, name, name]);
  await Promise.all(
    wallets.map(async (name) => {
      const client = clientOf(running().registrar(name));
      await Promise.all([metadata(client, name), factories(client, name), contexts(client, name)]);
      await factories(clientOf(running().url), name);
    }),
  );
});
