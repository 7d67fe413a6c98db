import { describe, expect, test } from "vitest";
import { get, instrumentsOf, useAggregates } from "../support/aggregate-registries.ts";

const { startRegistries, startBefore } = useAggregates();

const LISTING = "/registry/metadata/v1/instruments";
const ALICE = { headers: { authorization: "Bearer alice" } };

/** Two registries; the first gives every caller instruments of its own, and says so by nothing. */
async function startPersonal() {
  const registries = await startRegistries({ amulet: {}, bonds: {} });
  registries.amulet!.script(({ operation, headers, url }) => {
    const [instrument] = instrumentsOf(headers.authorization === undefined ? "ALL" : "ALICE", 1);
    if (operation === "instruments") return { status: 200, body: JSON.stringify({ instruments: [instrument] }) };
    if (operation === "instrument")
      return { status: 200, body: JSON.stringify({ ...instrument, id: url.split("/").at(-1) }) };
    return undefined;
  });
  const upstreams = Object.entries(registries).map(([name, { admin, url }]) => ({
    name,
    admin,
    urls: [url],
    forwardAuthorization: true,
  }));
  return startBefore(registries, { upstreams });
}

describe("answers to a client's credentials and answers without are apart", () => {
  test.each([LISTING, `${LISTING}/X`])("on %s of one registry", async (path) => {
    const gateway = await startPersonal();
    const url = gateway.registrar("amulet") + path;
    for (let round = 0; round < 2; round++) {
      expect((await get(url)).text).toContain("ALL");
      expect((await get(url, ALICE)).text).toContain("ALICE");
    }
    expect((await get(url)).headers.get("cache-status")).toMatch(/hit/);
  });

  test("in the merged listing, the catalogue and single instruments, which ask without credentials", async () => {
    const gateway = await startPersonal();
    await get(gateway.registrar("amulet") + LISTING, ALICE);
    for (const path of [LISTING, "/catalog/v1/instruments", `${LISTING}/ALL-00000`]) {
      for (const init of [ALICE, {}]) {
        const { status, text } = await get(gateway.url + path, init);
        expect([status, text.includes("ALL"), text.includes("ALICE")]).toEqual([200, true, false]);
      }
    }
    const asked = gateway.registries.amulet!.calls.recent.filter(({ headers }) => headers.authorization !== undefined);
    expect(asked).toHaveLength(1);
  });
});
