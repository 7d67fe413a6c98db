import { CLIENT_ERRORS } from "../../src/errors.ts";
import { ENDPOINTS } from "../../src/spec/endpoints.ts";
import { describe, expect, test } from "vitest";
import { get, useAggregates } from "../support/aggregate-registries.ts";
import { ownError } from "../support/own-error.ts";

const { startAggregate } = useAggregates();

type Json = Record<string, unknown>;

interface Document {
  readonly openapi: string;
  readonly paths: Record<string, Record<string, Json>>;
  readonly components: Record<string, Record<string, Json>>;
}

/** Every object within a JSON value. */
function* objectsIn(value: unknown): Generator<Json> {
  if (typeof value !== "object" || value === null) return;
  if (!Array.isArray(value)) yield value as Json;
  for (const each of Object.values(value)) yield* objectsIn(each);
}

interface DescribedOperation {
  readonly operationId: string;
  readonly requestBody?: { readonly content: Record<string, { readonly example?: unknown }> };
  readonly responses: Record<string, { readonly content?: Record<string, { readonly examples?: object }> }>;
}

describe("the description of the API", () => {
  test("is OpenAPI 3.1 of everything the public listener answers", async () => {
    const { url } = await startAggregate({ amulet: {}, bonds: {} });
    const { status, headers, json } = await get(`${url}/openapi.json`);
    expect([status, headers.get("content-type")]).toEqual([200, "application/json"]);
    const { openapi, paths, components } = json as unknown as Document;
    expect(openapi).toBe("3.1.0");
    expect(Object.keys(paths)).toEqual([
      "/registry/metadata/v1/info",
      "/registry/metadata/v1/instruments",
      "/registry/metadata/v1/instruments/{instrumentId}",
      "/registry/transfer-instruction/v1/transfer-factory",
      "/registry/transfer-instruction/v1/{transferInstructionId}/choice-contexts/accept",
      "/registry/transfer-instruction/v1/{transferInstructionId}/choice-contexts/reject",
      "/registry/transfer-instruction/v1/{transferInstructionId}/choice-contexts/withdraw",
      "/registry/allocations/v1/{allocationId}/choice-contexts/execute-transfer",
      "/registry/allocations/v1/{allocationId}/choice-contexts/withdraw",
      "/registry/allocations/v1/{allocationId}/choice-contexts/cancel",
      "/registry/allocation-instruction/v1/allocation-factory",
      "/registry/transfer-instruction/v2/transfer-factory",
      "/registry/transfer-instruction/v2/{transferInstructionId}/choice-contexts/accept",
      "/registry/transfer-instruction/v2/{transferInstructionId}/choice-contexts/reject",
      "/registry/transfer-instruction/v2/{transferInstructionId}/choice-contexts/withdraw",
      "/registry/allocation-instruction/v2/allocation-factory",
      "/registry/allocation-instruction/v2/{allocationInstructionId}/choice-contexts/accept",
      "/registry/allocation-instruction/v2/{allocationInstructionId}/choice-contexts/withdraw",
      "/registry/allocation/v2/settlement-factory",
      "/registry/allocations/v2/{allocationId}/choice-contexts/withdraw",
      "/registry/allocations/v2/{allocationId}/choice-contexts/cancel",
      "/registry/{path}",
      "/catalog/v1/registries",
      "/catalog/v1/instruments",
      "/catalog/v1/changes",
      "/openapi.json",
      "/docs",
      "/",
    ]);
    const operations = Object.values(paths).flatMap(({ get: read, post }) => [read, post].filter((each) => each));
    const ids = operations.map((operation) => operation!.operationId);
    expect(new Set(ids).size).toBe(ids.length);
    for (const [path, item] of Object.entries(paths)) {
      const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      for (const operation of [item.get, item.post]) {
        if (operation === undefined) continue;
        const parameters = (operation.parameters ?? []) as { name: string; in: string }[];
        expect(parameters.filter((each) => each.in === "path").map(({ name }) => name)).toEqual(named);
        expect(Object.keys(operation.responses as Json)).toEqual(expect.arrayContaining(["200", "400", "default"]));
      }
    }
    for (const { $ref } of objectsIn(json)) {
      if (typeof $ref !== "string") continue;
      const [, , kind, name] = $ref.split("/");
      expect(Object.keys(components[kind!]!), $ref).toContain(name);
    }
    expect(components["schemas"]!["ListInstrumentsResponse"]).toMatchObject({
      required: ["instruments"],
      properties: { instruments: { items: { $ref: "#/components/schemas/Instrument" } } },
    });
  });

  test("tells the header fields that answers have", async () => {
    const { url } = await startAggregate({ amulet: {}, bonds: {} });
    const { json } = await get(`${url}/openapi.json`);
    const { paths } = json as unknown as Document;
    const headersOf = (path: string, method: string) => {
      const responses = paths[path]![method]!.responses as Record<string, { headers: object }>;
      return Object.keys(responses["200"]!.headers).filter((name) => name !== "X-Registry-Partial");
    };
    const asked: [path: string, url: string, init?: RequestInit][] = [
      ["/registry/metadata/v1/instruments", `${url}/registry/metadata/v1/instruments`],
      ["/catalog/v1/registries", `${url}/catalog/v1/registries`],
      ["/catalog/v1/instruments", `${url}/catalog/v1/instruments`],
      ["/docs", `${url}/docs`],
      [
        "/registry/transfer-instruction/v1/{transferInstructionId}/choice-contexts/accept",
        `${url}/registry/transfer-instruction/v1/00ab/choice-contexts/accept`,
        { method: "POST", headers: { "x-instrument-admin": "amulet" } },
      ],
    ];
    for (const [path, target, init] of asked) {
      const { status, headers } = await get(target, init);
      expect(status, path).toBe(200);
      const described = headersOf(path, init === undefined ? "get" : "post");
      expect(described.length).toBeGreaterThan(1);
      for (const name of described) expect(headers.has(name), `${path} ${name}`).toBe(true);
    }
  });

  test("names what the standard names as the standard does, a server that answers, and every code", async () => {
    const { url } = await startAggregate({ amulet: {}, bonds: {} });
    const { json } = await get(`${url}/openapi.json`);
    type Named = Record<string, { properties: Record<string, { enum?: string[] }> }>;
    const { servers, components } = json as unknown as {
      servers: { url: string; variables?: { admin: { default: string } } }[];
      components: { schemas: Named };
    };
    for (const server of servers) {
      const base = `${url}${server.url.replace("{admin}", server.variables?.admin.default ?? "")}`.replace(/\/$/, "");
      expect((await get(`${base}/registry/metadata/v1/instruments`)).status, server.url).toBe(200);
    }
    expect(servers[0]!.url).toBe("/");
    const { schemas } = components;
    for (const name of ["GetRegistryInfoResponse", "ListInstrumentsResponse", "GetFactoryRequest", "ErrorResponse"]) {
      expect(schemas).toHaveProperty(name);
    }
    expect(schemas["ErrorResponse"]!.properties["code"]!.enum).toEqual(Object.keys(CLIENT_ERRORS));
  });

  test("of the catalogue is found from below a registry's base URL", async () => {
    const { url } = await startAggregate({ amulet: {}, bonds: {} });
    const { status, json } = await get(`${url}/api/token-standard/v0/registrars/amulet/catalog/v1/instruments`);
    expect([status, json]).toEqual([404, ownError(/the catalogue .* is at \/catalog\/v1/, { code: "no_such_path" })]);
  });

  test("is to be read at /docs, on a page that needs nothing from elsewhere", async () => {
    const { url } = await startAggregate({ amulet: {}, bonds: {} });
    const { status, headers, text } = await get(`${url}/docs`);
    expect([status, headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    const policy = headers.get("content-security-policy")!.split("; ");
    expect(policy[0]).toBe("default-src 'none'");
    for (const each of policy.slice(1)) expect(each).toMatch(/^[a-z-]+ (?:'none'|'self'(?: data:| 'sha256-\S+')?)$/);
    expect(text).not.toMatch(/https?:/);
    for (const [, path] of text.matchAll(/(?:src|href)="([^"#]*)"/g)) {
      if (path!.startsWith("data:")) continue;
      expect((await get(new URL(path!, `${url}/docs`).href)).status, path).toBe(200);
    }
    for (const name of ["amulet", "bonds"]) {
      expect(text).toContain(`<code>${name}::1220</code>`);
      expect(text).toContain(`<code>/api/token-standard/v0/registrars/${name}</code>`);
    }
    expect(text).toContain("new TokenStandardClient(");
    for (const [code, { status: meant }] of Object.entries(CLIENT_ERRORS)) {
      if (code !== "client_gone") {
        expect(text).toContain(`<tr id="${code}"><td><code>${code}</code></td><td>${meant}</td>`);
      }
    }
  });

  test("has examples that are answered by the registry itself, for each endpoint", async () => {
    const amulet = { id: "Amulet", name: "Amulet", symbol: "AMT", decimals: 10, supportedApis: {} };
    const { url } = await startAggregate({ amulet: { instruments: [amulet] }, bonds: {} });
    const { paths } = (await get(`${url}/openapi.json`)).json as {
      paths: Record<string, Record<string, DescribedOperation>>;
    };
    const described = Object.entries(paths).flatMap(([path, item]) =>
      ["get", "post"].flatMap((method) => (item[method] === undefined ? [] : [{ path, method, ...item[method] }])),
    );
    for (const { operation, kind } of ENDPOINTS) {
      const { path, method, requestBody, responses } = described.find((each) => each.operationId === operation)!;
      expect(Object.keys(responses).includes("409"), operation).toBe(kind !== "metadata" || operation === "instrument");
      expect(Object.keys(responses["200"]!.content!["application/json"]!.examples ?? {}), operation).not.toEqual([]);
      const example = JSON.stringify(requestBody?.content["application/json"]?.example);
      const init = {
        method,
        headers: { "content-type": "application/json" },
        body: example?.replaceAll(/DSO::1220[0-9a-f]+/g, "amulet::1220") ?? "",
      };
      const id = operation === "instrument" ? "Amulet" : "CONTRACT-ID";
      const tried = `${url}/api/token-standard/v0/registrars/amulet${path.replace(/\{\w+Id\}/, id)}`;
      expect((await get(tried, method === "post" ? init : undefined)).status, operation).toBe(200);
    }
  });

  test("answers conditions and HEAD, and no other method", async () => {
    const { url } = await startAggregate({ amulet: {} });
    const { headers } = await get(`${url}/openapi.json`);
    const conditional = await get(`${url}/openapi.json`, { headers: { "if-none-match": headers.get("etag")! } });
    expect([conditional.status, conditional.text]).toEqual([304, ""]);
    expect((await get(`${url}/docs`, { method: "HEAD" })).text).toBe("");
    const viewer = await get(`${url}/docs/viewer.css`, { method: "HEAD" });
    expect([viewer.status, viewer.text, viewer.headers.get("content-type")]).toEqual([
      200,
      "",
      "text/css; charset=utf-8",
    ]);
    expect((await get(`${url}/docs/../package.json`)).status).toBe(404);
    expect((await get(`${url}/docs/license.md`)).status).toBe(404);
    const posted = await get(`${url}/docs`, { method: "POST" });
    expect([posted.status, posted.headers.get("allow")]).toEqual([405, "GET, HEAD, OPTIONS"]);
  });

  test("is not there with docs: false", async () => {
    const { url } = await startAggregate({ amulet: {} }, { docs: false });
    expect((await get(`${url}/openapi.json`)).status).toBe(404);
    expect((await get(`${url}/docs`)).status).toBe(404);
    expect((await get(`${url}/docs/viewer.js`)).status).toBe(404);
  });
});
