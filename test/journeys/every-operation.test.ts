import { describe, expect, test } from "vitest";
import { differences, meaningOf } from "../../src/bodies/meaning.ts";
import type { CacheContents } from "../../src/operations/answers.ts";
import { endpointOf, endpointPath } from "../../src/spec/endpoints.ts";
import { ENDPOINT_EXAMPLES } from "../../tools/openapi/examples.ts";
import {
  CACHED_OPERATIONS,
  cachedRecord,
  type CachedOperation,
  isCached,
  OPERATION_RECORDS,
  type EndpointName,
} from "../../src/spec/operations.ts";
import { useGateways } from "../support/gateways.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { DSO } from "../support/sample.ts";
import { errorOf, type ReceivedAnswer, send } from "../support/send.ts";

const startGateway = useGateways();
const startRegistry = useSampleRegistries();

const NAMES = Object.keys(OPERATION_RECORDS) as EndpointName[];

/** An operation that is added is tried here by its record alone: what was forgotten of it fails by its name. */
async function open() {
  const registry = await startRegistry();
  const other = await startRegistry({
    admin: "other::1220",
    instruments: [{ id: "Bond", name: "Bond", symbol: "BND", decimals: 2, supportedApis: {} }],
  });
  const gateway = await startGateway({
    upstreams: [
      { name: "amulet", admin: DSO, urls: [registry.url] },
      { name: "other", admin: "other::1220", urls: [other.url] },
    ],
  });
  const { url, operations } = gateway;
  const pathOf = (operation: EndpointName) => endpointPath(endpointOf(operation), "Amulet");
  const ask = (operation: EndpointName, base = gateway.registrar("amulet")) => {
    const { request } = ENDPOINT_EXAMPLES[operation];
    // The examples name an admin of their own.
    const body = isCached(operation) ? {} : { body: JSON.stringify(request).replaceAll(/DSO::1220[0-9a-f]+/g, DSO) };
    return send(base, { path: `${new URL(base).pathname.replace(/\/$/, "")}${pathOf(operation)}`, ...body });
  };
  const callsOf = (operation: EndpointName) => registry.calls.count(operation);
  const read = async (path: string) => JSON.parse((await send(operations, { path })).text) as unknown;
  const purge = (body: object) => send(operations, { path: "/purge", body: JSON.stringify(body) });
  return { url, ask, callsOf, read, purge, pathOf };
}

const isHit = ({ headers }: ReceivedAnswer): boolean => /;\s*hit\b/.test(String(headers["cache-status"]));

describe.each(NAMES)("%s", (operation) => {
  const { kind } = OPERATION_RECORDS[operation];

  const repeated = kind === "metadata" ? "is kept, and asked for once" : "is a call each time";

  test(`${repeated}; and it is explained and counted under its name`, async () => {
    const { url, ask, callsOf, read, pathOf } = await open();
    expect((await ask(operation)).status).toBe(200);
    // An info is asked for besides, as a proof of the node.
    const before = callsOf(operation);
    expect(isHit(await ask(operation))).toBe(kind === "metadata");
    expect(callsOf(operation) - before).toBe(kind === "metadata" ? 0 : 1);

    const path = `/api/token-standard/v0/registrars/amulet${pathOf(operation)}`;
    expect(await read(`/explain?path=${encodeURIComponent(path)}`)).toMatchObject({
      operation,
      cached: kind === "metadata",
    });
    expect(await read("/requests?limit=1")).toMatchObject({ requests: [{ operation, upstream: "amulet" }] });
    const { paths } = JSON.parse((await send(url, { path: "/openapi.json" })).text) as { paths: object };
    expect(JSON.stringify(paths)).toContain(`"operationId":"${operation}"`);
  });
});

describe.each(CACHED_OPERATIONS)("the cached %s", (operation) => {
  test("is compared by the members that its record names", () => {
    const { compared } = cachedRecord(operation);
    const example = ENDPOINT_EXAMPLES[operation].answer as Readonly<Record<string, unknown>>;
    const meaning = (body: object) => meaningOf(operation, Buffer.from(JSON.stringify(body)));
    expect(differences(meaning(example), meaning({ ...example, more: 1 }), 9)).toEqual([]);
    for (const name of compared) {
      expect(differences(meaning(example), meaning({ ...example, [name]: "other" }), 9)).toEqual([name]);
    }
  });

  test("is shown among what is stored, and purged with what holds the same data and nothing else", async () => {
    const { ask, read, purge } = await open();
    for (const each of CACHED_OPERATIONS) await ask(each);
    const { groups } = (await read("/cache")) as CacheContents;
    expect(groups.map((group) => group.kind)).toContain(operation);
    expect((await purge({ upstream: "amulet", endpoint: operation })).status).toBe(200);
    const { data } = cachedRecord(operation);
    const stays = CACHED_OPERATIONS.filter((each) => cachedRecord(each).data !== data);
    const found: CachedOperation[] = [];
    // Those that go with it are asked for last: a page brings single instruments with it.
    for (const each of [...stays, operation]) if (isHit(await ask(each))) found.push(each);
    expect(found).toEqual(stays);
  });

  test("is answered by all registries together as its record says", async () => {
    const { url, ask } = await open();
    const answer = await ask(operation, url);
    const { aggregate, members } = cachedRecord(operation);
    // Without aggregate.adminId there is no info of all.
    if (aggregate === "refused" || aggregate === "info") {
      expect([answer.status, errorOf(answer)]).toEqual([400, expect.stringContaining(`the ${operation} of one`)]);
      return;
    }
    expect(answer.status).toBe(200);
    expect(Object.keys(JSON.parse(answer.text) as object)).toEqual(expect.arrayContaining(Object.keys(members)));
    expect(answer.text).toContain(`"admin":"${DSO}"`);
  });
});
