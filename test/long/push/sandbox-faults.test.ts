import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ERRORS } from "../../../src/errors.ts";
import { useGateways } from "../../support/gateways.ts";
import { DSO } from "../../support/sample.ts";
import { useSampleRegistries } from "../../support/sample-registries.ts";
import { type SentRequest, send } from "../../support/send.ts";

const page = readFileSync(join(import.meta.dirname, "../../../docs/sandbox.md"), "utf8");
const rows = [...page.slice(page.indexOf("<!-- provoke -->")).matchAll(/^\| (`[^|]+`) \| (.+) \|$/gm)].map(
  ([, codes, how]) => ({ codes: [...codes!.matchAll(/`([a-z_]+)`/g)].map(([, code]) => code!), how: how! }),
);

/** Ids, as clients give them, where the gateway passes them on. */
const PLACES: Readonly<Record<string, (id: string) => SentRequest>> = {
  "an instrument": (id) => ({ path: `/registry/metadata/v1/instruments/${id}` }),
  "a page token": (id) => ({ path: `/registry/metadata/v1/instruments?pageToken=${id}` }),
  "a contract": (id) => ({ path: `/registry/allocations/v1/${id}/choice-contexts/cancel`, body: "{}" }),
  "a holding of a transfer": (id) => ({
    path: "/registry/transfer-instruction/v1/transfer-factory",
    body: JSON.stringify({ choiceArguments: { transfer: { inputHoldingCids: ["00ab", id] } } }),
  }),
  "a contract, in version 2": (id) => ({
    path: `/registry/allocation-instruction/v2/${id}/choice-contexts/accept`,
    body: "{}",
  }),
  "an allocation of a settlement": (id) => ({
    path: "/registry/allocation/v2/settlement-factory",
    body: JSON.stringify({ choiceArguments: { transferLegs: [], allocations: ["00ab", id] } }),
  }),
};

test("the page about the sandbox says of every error how to see it", () => {
  expect(rows.flatMap(({ codes }) => codes).toSorted()).toEqual(Object.keys(ERRORS).toSorted());
});

describe("through the gateway, an id that asks for a fault gets it:", () => {
  const startRegistry = useSampleRegistries();
  const startGateway = useGateways();
  const start = async (upstream: Record<string, unknown> = {}) => {
    const registry = await startRegistry({ givesFaults: true });
    const entry = { name: "sandbox", admin: DSO, urls: [registry.url], timeout: "60s", ...upstream };
    return { registry, url: (await startGateway({ upstreams: [entry] })).url };
  };

  /** By the place of the id: status and code of the answer. */
  const askAll = (url: string, id: string) =>
    Promise.all(
      Object.entries(PLACES).map(async ([place, request]) => {
        const { status, headers } = await send(url, request(id));
        return [place, status, headers["registry-gateway-error"]] as const;
      }),
    );

  const faults = rows.flatMap(({ codes: [code], how }) =>
    [...how.matchAll(/`fault-([a-z0-9-]+)`/g)].map(([, fault]) => [fault!, code!] as const),
  );
  test.each(faults)("%s is %s", async (fault, code) => {
    const isRefusal = code === "upstream_credentials";
    // No other fault is to run out of time on a busy machine.
    const timeout = code === "upstream_timeout" ? "3s" : "60s";
    const { url } = await start({ timeout, ...(isRefusal ? { auth: { bearerToken: "of-the-gateway" } } : {}) });
    for (const [place, status, said] of await askAll(url, `fault-${fault}`)) {
      const isOptional = fault === "html-404" && /2|settlement/.test(place);
      const { status: expected } = ERRORS[code as keyof typeof ERRORS];
      expect([status, said], place).toEqual(isOptional ? [404, "upstream_error"] : [expected, code]);
    }
  });

  test.each([400, 404, 409, 422, 500, 503])("%i is the registry's own", async (status) => {
    const { url } = await start();
    for (const [place, ...said] of await askAll(url, `fault-${status}`)) {
      expect(said, place).toEqual([status, undefined]);
    }
  });

  test("and the gateway passes it on as it is, and drops the query of an endpoint", async () => {
    const { url, registry } = await start();
    registry.calls.clear();
    const path = "/registry/allocations/v2/fault-409/choice-contexts/withdraw";
    expect((await send(url, { path: `${path}?fault=503`, body: "{}" })).status).toBe(409);
    // A check of the node may come between.
    const urls = registry.calls.recent.filter(({ operation }) => operation !== "info").map((call) => call.url);
    expect(urls).toEqual([path]);
    const draft = await send(url, { path: "/registry/drafts/v1/x?fault=418&a=b" });
    expect([draft.status, registry.calls.last!.url]).toEqual([418, "/registry/drafts/v1/x?fault=418&a=b"]);
  });

  test("an id that names no fault is an id, and without givesFaults all are", async () => {
    const { url } = await start();
    const asked = (id: string) => PLACES["a contract"]!(id);
    expect((await send(url, asked("fault-nonsense"))).status).toBe(200);
    expect((await send(url, asked("default-409"))).status).toBe(200);
    const plain = await startRegistry();
    expect((await send(plain.url, asked("fault-409"))).status).toBe(200);
  });
});
