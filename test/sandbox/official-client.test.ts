import { TokenStandardClient, type PostRequest } from "@canton-network/core-token-standard";
import { describe, expect, test } from "vitest";
import { contractId, ownContracts } from "../../src/sandbox/contracts.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import type { SampleRegistry } from "../support/sample-registry.ts";
import { DSO, sampleJson, UTILITY_ADMIN } from "../support/sample.ts";

const startRegistry = useSampleRegistries();

type FactoryRequest = PostRequest<"/registry/transfer-instruction/v1/transfer-factory">;

const silent = { info() {}, debug() {}, warn() {}, error() {}, trace() {}, fatal() {}, child: () => silent };
const noToken = { getAccessToken: async () => "" };

function clientOf(registry: SampleRegistry): TokenStandardClient {
  type Parameters = ConstructorParameters<typeof TokenStandardClient>;
  return new TokenStandardClient(`${registry.url}/`, silent, noToken as unknown as Parameters[2]);
}

const REGISTRIES = [
  { style: "splice", admin: DSO, sample: "amulet" },
  { style: "utility", admin: UTILITY_ADMIN, sample: "utility" },
] as const;

describe.each(REGISTRIES)("the official client at a $style registry", ({ style, admin, sample }) => {
  test("completes all eleven endpoints", async () => {
    const registry = await startRegistry({ style, admin, contracts: ownContracts(admin) });
    const client = clientOf(registry);
    const context = { excludeDebugFields: true };

    const info = await client.get("/registry/metadata/v1/info");
    expect(info.adminId).toBe(admin);
    const page = await client.get("/registry/metadata/v1/instruments");
    expect(page.instruments).toHaveLength(25);
    for (const { id } of page.instruments) {
      const path = { instrumentId: id };
      const instrument = await client.get("/registry/metadata/v1/instruments/{instrumentId}", { path });
      expect(instrument).toEqual(page.instruments.find((listed) => listed.id === id));
    }

    const transfer = await client.post(
      "/registry/transfer-instruction/v1/transfer-factory",
      sampleJson(`04-transfer-factory.request.${sample}.json`) as FactoryRequest,
    );
    expect(transfer.factoryId).toHaveLength(138);
    expect(transfer.choiceContext.disclosedContracts.map((contract) => contract.contractId)).toContain(
      transfer.factoryId,
    );
    const allocation = await client.post(
      "/registry/allocation-instruction/v1/allocation-factory",
      sampleJson(`11-allocation-factory.request.${sample}.json`) as FactoryRequest,
    );
    expect(allocation.factoryId).toHaveLength(138);

    const transferInstructionId = contractId(admin, "a transfer");
    for (const choice of ["accept", "reject", "withdraw"] as const) {
      const path = { transferInstructionId };
      const endpoint = `/registry/transfer-instruction/v1/{transferInstructionId}/choice-contexts/${choice}` as const;
      const answer = await client.post(endpoint, context, { path });
      expect(answer.disclosedContracts.length).toBeGreaterThan(1);
    }
    const allocationId = contractId(admin, "an allocation");
    for (const choice of ["execute-transfer", "withdraw", "cancel"] as const) {
      const endpoint = `/registry/allocations/v1/{allocationId}/choice-contexts/${choice}` as const;
      const answer = await client.post(endpoint, context, { path: { allocationId } });
      expect(answer.disclosedContracts.length).toBeGreaterThan(1);
    }
    expect(registry.calls.count("pass_through")).toBe(0);
  });

  test("is told why in the words it will show", async () => {
    const client = clientOf(await startRegistry({ style, admin, contracts: ownContracts(admin) }));
    const path = { instrumentId: "DOES-NOT-EXIST" };
    const unknown = client.get("/registry/metadata/v1/instruments/{instrumentId}", { path });
    await expect(unknown).rejects.toEqual({ error: "No instrument with id DOES-NOT-EXIST found" });
    const foreign = { allocationId: contractId("another::1220", "an allocation") };
    const stranger = client.post(
      "/registry/allocations/v1/{allocationId}/choice-contexts/cancel",
      { excludeDebugFields: true },
      { path: foreign },
    );
    await expect(stranger).rejects.toEqual({ error: expect.stringContaining(foreign.allocationId) });
  });
});
