import { describe, expect, test } from "vitest";
import { contractId } from "../../src/sandbox/contracts.ts";
import { instrumentsOf } from "../support/aggregate-registries.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import type { SampleRegistry } from "../support/sample-registry.ts";
import { DSO, UTILITY_ADMIN } from "../support/sample.ts";
import { useGateways } from "../support/gateways.ts";
import { errorOf, send } from "../support/send.ts";
import { STRANGER } from "../support/three-registries.ts";

const startRegistry = useSampleRegistries();
const startGateway = useGateways();

const PREFIX = "/api/token-standard/v0/registrars";
const INFO = "/registry/metadata/v1/info";
const CANCEL = `/registry/allocations/v1/${contractId(DSO, "x")}/choice-contexts/cancel`;
const FACTORY = "/registry/transfer-instruction/v1/transfer-factory";
const expecting = (admin: string): string => JSON.stringify({ choiceArguments: { expectedAdmin: admin } });

/** Calls other than those by which the gateway proves a node. */
const beyondProofs = (registry: SampleRegistry): string[] =>
  registry.calls.recent.map(({ operation }) => operation).filter((operation) => operation !== "info");

describe("before a sole upstream", () => {
  test("the plain base URL is its own", async () => {
    const registry = await startRegistry();
    const { url } = await startGateway({ upstreams: [{ name: "amulet", urls: [registry.url] }] });
    expect((await send(url, { path: INFO })).status).toBe(200);
    expect((await send(url, { path: CANCEL, body: "{}" })).status).toBe(200);
    expect((await send(url, { path: FACTORY, body: '{"choiceArguments":{}}' })).status).toBe(200);
    expect((await send(url, { path: FACTORY, body: expecting(DSO) })).status).toBe(200);
    expect((await send(url, { path: "/registry/drafts/v1/x" })).status).toBe(200);
  });

  test("an admin that is not its own is still unknown", async () => {
    const registry = await startRegistry({ checksBodyAdmin: false });
    const { url } = await startGateway({ upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }] });
    const strange = encodeURIComponent(STRANGER);
    expect((await send(url, { path: `${PREFIX}/${strange}${INFO}` })).status).toBe(404);
    expect((await send(url, { path: `${PREFIX}/${strange}${CANCEL}`, body: "{}" })).status).toBe(404);
    expect((await send(url, { path: FACTORY, body: expecting(STRANGER) })).status).toBe(404);
    expect((await send(url, { path: CANCEL, headers: { "x-instrument-admin": STRANGER }, body: "{}" })).status).toBe(
      404,
    );
    expect(beyondProofs(registry)).toEqual([]);
  });
});

describe("the plain base URL of several upstreams", () => {
  async function start(plain: string) {
    const [amulet, bonds] = [await startRegistry(), await startRegistry({ admin: UTILITY_ADMIN })];
    const gateway = await startGateway({
      routing: { plain },
      upstreams: [
        { name: "amulet", admin: DSO, urls: [amulet.url] },
        { name: "bonds", admin: UTILITY_ADMIN, urls: [bonds.url] },
      ],
    });
    return { ...gateway, amulet, bonds };
  }

  test("is that of the upstream which is named so", async () => {
    const { url, amulet, bonds } = await start("bonds");
    const info = await send(url, { path: INFO });
    expect(JSON.parse(info.text)).toHaveProperty("adminId", UTILITY_ADMIN);
    expect((await send(url, { path: CANCEL, body: "{}" })).status).toBe(200);
    expect((await send(url, { path: FACTORY, body: expecting(DSO) })).status).toBe(200);
    expect(beyondProofs(amulet)).toEqual(["transfer_factory"]);
    expect(beyondProofs(bonds)).toEqual(["allocation_cancel"]);
  });

  test("is nobody's while the one that is named so is not enabled", async () => {
    const [amulet, bonds] = [await startRegistry(), await startRegistry({ admin: UTILITY_ADMIN })];
    const { url } = await startGateway({
      routing: { plain: "bonds" },
      upstreams: [
        { name: "amulet", admin: DSO, urls: [amulet.url] },
        { name: "bonds", admin: UTILITY_ADMIN, urls: [bonds.url], enabled: false },
      ],
    });
    for (const request of [{ path: INFO }, { path: CANCEL, body: "{}" }, { path: "/registry/drafts/v1/x" }]) {
      expect((await send(url, request)).status).toBe(400);
    }
    expect([beyondProofs(amulet), beyondProofs(bonds)]).toEqual([[], []]);
  });

  test("is nobody's when it is off, and says how to name a registry", async () => {
    const { url, amulet, bonds } = await start("off");
    for (const request of [
      { path: INFO },
      { path: CANCEL, body: "{}" },
      { path: FACTORY, body: '{"choiceArguments":{}}' },
      { path: "/registry/drafts/v1/x" },
    ]) {
      const answer = await send(url, request);
      expect(answer.status).toBe(400);
      expect(errorOf(answer)).toContain(`${PREFIX}/{admin}/registry/`);
      expect(errorOf(answer)).toContain("x-instrument-admin");
    }
    expect((await send(url, { path: FACTORY, body: expecting(DSO) })).status).toBe(200);
    expect([beyondProofs(amulet), beyondProofs(bonds)]).toEqual([["transfer_factory"], []]);
  });
});

describe("an upstream whose admin another one has", () => {
  const rogueOf = async (gateway: { operations: string }) => {
    const { text } = await send(gateway.operations, { path: "/status" });
    const { upstreams } = JSON.parse(text) as { upstreams: { name: string; state: string }[] };
    return upstreams.find(({ name }) => name === "rogue")?.state;
  };
  const LISTING = "/registry/metadata/v1/instruments";

  test("takes no part in several as one, and shows nobody what is the other's", async () => {
    const [amulet, bonds, rogue] = [
      await startRegistry(),
      await startRegistry({ admin: UTILITY_ADMIN, instruments: instrumentsOf("BOND", 20) }),
      await startRegistry(),
    ];
    const gateway = await startGateway({
      upstreams: [
        { name: "amulet", admin: DSO, urls: [amulet.url] },
        { name: "bonds", admin: UTILITY_ADMIN, urls: [bonds.url] },
        { name: "rogue", urls: [rogue.url] },
      ],
    });
    await expect.poll(() => rogueOf(gateway)).toBe("disabled");
    const [first] = amulet.catalogue.list();
    const path = `${LISTING}/${encodeURIComponent(first!.id)}`;
    expect((await send(gateway.url, { path: `${PREFIX}/amulet${path}` })).status).toBe(200);
    expect((await send(gateway.url, { path: `${PREFIX}/rogue${path}` })).status).toBe(503);
    expect((await send(gateway.url, { path })).status).toBe(200);
    expect((await send(gateway.url, { path: `${LISTING}?pageSize=1000` })).status).toBe(503);
    const { text, headers } = await send(gateway.url, { path: `${LISTING}?pageSize=1000&partial=true` });
    expect(headers["x-registry-partial"]).toBe("rogue");
    const { instruments } = JSON.parse(text) as { instruments: object[] };
    expect(instruments).toHaveLength(amulet.catalogue.list().length + bonds.catalogue.list().length);
    const catalogue = await send(gateway.url, { path: "/catalog/v1/registries" });
    const { registries } = JSON.parse(catalogue.text) as { registries: { name: string; admin: string | null }[] };
    expect(registries.map(({ name, admin }) => [name, admin])).toEqual([
      ["amulet", DSO],
      ["bonds", UTILITY_ADMIN],
      ["rogue", null],
    ]);
    const searched = await send(gateway.url, { path: "/catalog/v1/instruments?pageSize=1000" });
    const rows = (JSON.parse(searched.text) as { instruments: { registry: string }[] }).instruments;
    expect(new Set(rows.map(({ registry }) => registry))).toEqual(new Set(["amulet", "bonds"]));
    expect(beyondProofs(rogue)).toEqual([]);
  });

  // Its info may have named the other's admin by a mistake of a moment.
  test("does not leave the plain base URL to the other", async () => {
    const [amulet, rogue] = [await startRegistry(), await startRegistry({ admin: UTILITY_ADMIN })];
    await rogue.faults.set({ kind: "wrong-admin", admin: DSO });
    const gateway = await startGateway({
      upstreams: [
        { name: "amulet", admin: DSO, urls: [amulet.url] },
        { name: "rogue", urls: [rogue.url] },
      ],
    });
    await expect.poll(() => rogueOf(gateway)).toBe("disabled");
    await rogue.faults.clear();
    for (const request of [{ path: INFO }, { path: CANCEL, body: "{}" }, { path: "/registry/drafts/v1/x" }]) {
      expect((await send(gateway.url, request)).status).toBe(400);
    }
    expect([beyondProofs(amulet), beyondProofs(rogue)]).toEqual([[], []]);
  });
});

describe("a node that has not proved its admin", () => {
  test("gets nothing but the question who it is, and its failure is the answer", async () => {
    const registry = await startRegistry();
    await registry.faults.set({ kind: "status", status: 500, operations: ["info"] });
    const { url } = await startGateway({ upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }] });
    for (const request of [{ path: `${PREFIX}/amulet${INFO}` }, { path: CANCEL, body: "{}" }]) {
      const answer = await send(url, request);
      expect(answer.status).toBe(502);
      expect(answer.headers["proxy-status"]).toMatch(/^registry-gateway; ?error=/);
    }
    expect(beyondProofs(registry)).toEqual([]);
    await registry.faults.clear();
    await expect.poll(async () => (await send(url, { path: CANCEL, body: "{}" })).status).toBe(200);
  });

  test("is waited for by the first request", async () => {
    const registry = await startRegistry();
    const held = Promise.withResolvers<undefined>();
    registry.script(({ operation }) => (operation === "info" ? held.promise : undefined));
    const { url } = await startGateway({ upstreams: [{ name: "amulet", urls: [registry.url] }] });
    const answer = send(url, { path: CANCEL, body: "{}" });
    await registry.calls.reached(1);
    expect(beyondProofs(registry)).toEqual([]);
    held.resolve(undefined);
    expect((await answer).status).toBe(200);
    expect(beyondProofs(registry)).toEqual(["allocation_cancel"]);
  });

  test("that serves another admin than configured gets nothing ever", async () => {
    const registry = await startRegistry({ admin: UTILITY_ADMIN, checksBodyAdmin: false });
    const { url } = await startGateway({ upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }] });
    for (const request of [
      { path: `${PREFIX}/amulet${INFO}` },
      { path: `${PREFIX}/amulet${CANCEL}`, body: "{}" },
      { path: FACTORY, body: expecting(DSO) },
      { path: `${PREFIX}/amulet/registry/drafts/v1/x` },
    ]) {
      const answer = await send(url, request);
      expect(answer.status).toBe(502);
      expect(answer.text).not.toContain("127.0.0.1");
    }
    expect((await send(url, { path: FACTORY, body: expecting(UTILITY_ADMIN) })).status).toBe(404);
    expect(beyondProofs(registry)).toEqual([]);
  });
});

describe("while an upstream has not told its admin", () => {
  test("an admin nobody is known to have may be its own: 503, and when to come back", async () => {
    const [amulet, bonds] = [await startRegistry(), await startRegistry({ admin: UTILITY_ADMIN })];
    await bonds.kill();
    const { url } = await startGateway({
      upstreams: [
        { name: "amulet", admin: DSO, urls: [amulet.url] },
        { name: "bonds", urls: [bonds.url] },
      ],
    });
    const path = `${PREFIX}/${encodeURIComponent(UTILITY_ADMIN)}${INFO}`;
    for (const request of [{ path }, { path: FACTORY, body: expecting(UTILITY_ADMIN) }]) {
      const answer = await send(url, request);
      expect(answer.status).toBe(503);
      expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
    }
    expect((await send(url, { path: `${PREFIX}/bonds${INFO}` })).status).toBe(502);
    expect((await send(url, { path: `${PREFIX}/amulet${INFO}` })).status).toBe(200);
    const torn = { path: `${PREFIX}/amulet${FACTORY}`, body: expecting(UTILITY_ADMIN) };
    expect((await send(url, torn)).status).toBe(400);

    await bonds.revive();
    await expect.poll(async () => (await send(url, { path })).status).toBe(200);
    expect((await send(url, { path: `${PREFIX}/${encodeURIComponent(STRANGER)}${INFO}` })).status).toBe(404);
    expect(beyondProofs(amulet)).toEqual([]);
  });

  test("a body that contradicts its alias is refused as soon as it has", async () => {
    const bonds = await startRegistry({ admin: UTILITY_ADMIN, checksBodyAdmin: false });
    const held = Promise.withResolvers<undefined>();
    bonds.script(({ operation }) => (operation === "info" ? held.promise : undefined));
    const { url } = await startGateway({ upstreams: [{ name: "bonds", urls: [bonds.url] }] });
    const torn = send(url, { path: `${PREFIX}/bonds${FACTORY}`, body: expecting(DSO) });
    const agreed = send(url, { path: `${PREFIX}/bonds${FACTORY}`, body: expecting(UTILITY_ADMIN) });
    await bonds.calls.reached(1);
    held.resolve(undefined);
    expect((await torn).status).toBe(400);
    expect((await agreed).status).toBe(200);
    expect(beyondProofs(bonds)).toEqual(["transfer_factory"]);
  });
});

test("of two upstreams that turn out to have one admin, only one gets requests", async () => {
  const [one, other] = [await startRegistry(), await startRegistry()];
  const { url } = await startGateway({
    upstreams: [
      { name: "one", admin: DSO, urls: [one.url] },
      { name: "other", urls: [other.url] },
    ],
  });
  expect((await send(url, { path: `${PREFIX}/${encodeURIComponent(DSO)}${CANCEL}`, body: "{}" })).status).toBe(200);
  const answer = await send(url, { path: `${PREFIX}/other${CANCEL}`, body: "{}" });
  expect([502, 503]).toContain(answer.status);
  expect(beyondProofs(one)).toEqual(["allocation_cancel"]);
  expect(beyondProofs(other)).toEqual([]);
});

test("an upstream that is not enabled is unknown", async () => {
  const [amulet, bonds] = [await startRegistry(), await startRegistry({ admin: UTILITY_ADMIN })];
  const { url } = await startGateway({
    upstreams: [
      { name: "amulet", admin: DSO, urls: [amulet.url] },
      { name: "bonds", admin: UTILITY_ADMIN, urls: [bonds.url], enabled: false },
    ],
  });
  expect((await send(url, { path: `${PREFIX}/bonds${INFO}` })).status).toBe(404);
  expect((await send(url, { path: `${PREFIX}/${encodeURIComponent(UTILITY_ADMIN)}${INFO}` })).status).toBe(404);
  expect(bonds.calls.total).toBe(0);
});

test("base URLs of nodes may end in a slash, in /registry or in both, and lie below a path", async () => {
  const plain = await startRegistry();
  const nested = await startRegistry({ admin: UTILITY_ADMIN, basePath: "/some/registrars/x" });
  for (const end of ["", "/", "/registry", "/registry/"]) {
    const { url } = await startGateway({
      upstreams: [
        { name: "plain", urls: [plain.url + end] },
        { name: "nested", urls: [nested.url + end] },
      ],
    });
    for (const name of ["plain", "nested"]) {
      expect((await send(url, { path: `${PREFIX}/${name}${INFO}` })).status).toBe(200);
    }
  }
});
