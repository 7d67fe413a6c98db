import { TokenStandardClient } from "@canton-network/core-token-standard";
import { beforeEach, describe, expect, test } from "vitest";
import { choice, OPERATOR } from "../../support/endpoints.ts";
import { send } from "../../support/http.ts";
import { instruments, partyOf } from "../../support/registry.ts";
import { NAMES, type Name, useThree } from "../../support/three.ts";

const three = useThree({
  upstream: (name) => ({
    basePaths: [`/api/${name}/v0/scan-proxy`],
    ...(name === "bonds" && { extraPaths: [OPERATOR] }),
  }),
});

beforeEach(() => {
  for (const name of NAMES)
    three().registries[name].instruments = instruments(name.toUpperCase(), name === "amulet" ? 103 : 20);
});

const silent = { info() {}, debug() {}, warn() {}, error() {}, trace() {}, fatal() {}, child: () => silent };
// It sends the token it has; the gateway must not pass it on.
const token = { getAccessToken: async () => "client-token" };

/** The client as a wallet makes it: nothing but the base URL is ours. */
function clientOf(baseUrl: string): TokenStandardClient {
  type Parameters = ConstructorParameters<typeof TokenStandardClient>;
  return new TokenStandardClient(baseUrl, silent, token as unknown as Parameters[2]);
}

const at = (path: string): string => `${three().gateway.url}${path}`;

/** The base URLs under which wallets may know one registry. */
const BASES: Readonly<Record<string, (name: Name) => string>> = {
  "the encoded party id": (name) => at(three().gateway.base(partyOf(name))),
  "the party id as Go leaves it": (name) => at(`/api/token-standard/v0/registrars/${partyOf(name)}`),
  "the alias": (name) => at(three().gateway.base(name)),
  "a slash at the end": (name) => `${at(three().gateway.base(name))}/`,
  "/registry at the end": (name) => `${at(three().gateway.base(name))}/registry`,
  "/registry/ at the end": (name) => `${at(three().gateway.base(name))}/registry/`,
  "a base path of its own": (name) => at(`/api/${name}/v0/scan-proxy`),
};

/** All eleven endpoints of version 1, as the client gives them. */
async function everything(client: TokenStandardClient): Promise<unknown[]> {
  type Factory = Parameters<typeof client.post<"/registry/transfer-instruction/v1/transfer-factory">>[1];
  const factory = JSON.parse(choice()) as Factory;
  const request = { excludeDebugFields: true };
  const transferInstructionId = "00ab";
  const allocationId = "00cd/é";
  const answers: unknown[] = [
    await client.get("/registry/metadata/v1/info"),
    await client.get("/registry/metadata/v1/instruments", { query: { pageSize: 7 } }),
    await client.get("/registry/metadata/v1/instruments/{instrumentId}", { path: { instrumentId: "BONDS-00003" } }),
    await client.post("/registry/transfer-instruction/v1/transfer-factory", factory),
    await client.post("/registry/allocation-instruction/v1/allocation-factory", factory),
  ];
  for (const choice of ["accept", "reject", "withdraw"] as const) {
    const endpoint = `/registry/transfer-instruction/v1/{transferInstructionId}/choice-contexts/${choice}` as const;
    answers.push(await client.post(endpoint, request, { path: { transferInstructionId } }));
  }
  for (const choice of ["execute-transfer", "withdraw", "cancel"] as const) {
    const endpoint = `/registry/allocations/v1/{allocationId}/choice-contexts/${choice}` as const;
    answers.push(await client.post(endpoint, request, { path: { allocationId } }));
  }
  return answers;
}

describe("the official client, unchanged", () => {
  test.each(Object.keys(BASES))(
    "gets from all eleven endpoints what the registry itself gives, by %s",
    async (form) => {
      const { bonds } = three().registries;
      const direct = await everything(clientOf(bonds.url));
      bonds.calls.length = 0;
      expect(await everything(clientOf(BASES[form]!("bonds")))).toEqual(direct);
      expect(
        three()
          .asked()
          .every((each) => each.startsWith("bonds ") && !each.endsWith("pass_through")),
      ).toBe(true);
      expect(bonds.calls.filter(({ headers }) => headers.authorization !== undefined)).toEqual([]);
    },
  );

  test.each([7, 25, 100, undefined])("pages through a whole listing by %s", async (pageSize) => {
    for (const name of ["amulet", "bonds"] as const) {
      const client = clientOf(BASES["the alias"]!(name));
      const ids: string[] = [];
      let pageToken: string | undefined;
      do {
        const query = { ...(pageSize !== undefined && { pageSize }), ...(pageToken !== undefined && { pageToken }) };
        const page = await client.get("/registry/metadata/v1/instruments", { query });
        ids.push(...page.instruments.map(({ id }) => id));
        pageToken = page.nextPageToken ?? undefined;
      } while (pageToken !== undefined);
      expect(ids).toEqual(three().registries[name].instruments.map(({ id }) => id));
    }
  });

  test("is told why in the registry's own words, and in the gateway's", async () => {
    const path = { instrumentId: "DOES-NOT/EXIST" };
    const unknown = clientOf(BASES["the alias"]!("bonds")).get("/registry/metadata/v1/instruments/{instrumentId}", {
      path,
    });
    await expect(unknown).rejects.toEqual({ error: "No instrument with id DOES-NOT/EXIST found" });
    const nobody = clientOf(at(three().gateway.base("nobody"))).get("/registry/metadata/v1/info");
    await expect(nobody).rejects.toMatchObject({
      code: "admin_unknown",
      error: expect.stringMatching(/nobody/) as string,
    });
  });

  test("lists all registries as one at the plain base URL", async () => {
    const client = clientOf(three().gateway.url);
    const ids: string[] = [];
    let pageToken: string | undefined;
    do {
      const query = pageToken === undefined ? {} : { pageToken };
      const page = await client.get("/registry/metadata/v1/instruments", { query });
      ids.push(...page.instruments.map(({ id }) => id));
      pageToken = page.nextPageToken ?? undefined;
    } while (pageToken !== undefined);
    expect(ids).toEqual(NAMES.flatMap((name) => three().registries[name].instruments.map(({ id }) => id)));
  });
});

test("what the client gets is byte for byte what the registry sends, by prefix and base path", async () => {
  const { gateway, registries } = three();
  for (const path of [
    "/registry/metadata/v1/instruments?pageSize=1000",
    "/registry/metadata/v1/instruments/BONDS-00001",
  ]) {
    const direct = await send(registries.bonds.url, { path });
    for (const base of [gateway.base("bonds"), "/api/bonds/v0/scan-proxy"]) {
      for (let round = 0; round < 2; round += 1) {
        const answer = await gateway.get(base + path, { "content-type": "application/json" });
        expect([answer.status, answer.text]).toEqual([200, direct.text]);
      }
    }
  }
});

test("the reference wallet finds the operator at the origin of a registry's URL", async () => {
  const { gateway, registries } = three();
  registries.bonds.on(OPERATOR, { body: { partyId: "operator::1220" } });
  const registryUrl = `${gateway.url}${gateway.base(partyOf("bonds"))}`;
  const answer = await fetch(new URL(registryUrl).origin + OPERATOR);
  expect(await answer.json()).toEqual({ partyId: "operator::1220" });
});
