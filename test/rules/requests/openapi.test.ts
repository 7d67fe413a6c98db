import { expect, test } from "vitest";
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { ERRORS } from "../../../src/error-table.ts";
import { ENDPOINTS } from "../../../src/spec/operations.ts";

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly parameters: readonly { readonly $ref: string }[];
  readonly requestBody?: { readonly $ref: string };
}

const document = parse(readFileSync(new URL("../../../src/spec/openapi.yaml", import.meta.url), "utf8"));
const paths = document.paths as Record<string, Record<string, Operation>>;

test("describes the endpoints of operations.ts, each with its method, path, summary and id", () => {
  const described = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { operationId, summary }]) =>
      path.startsWith("/registry/") ? [`${method} ${path} ${operationId}: ${summary}`] : [],
    ),
  );
  const known = ENDPOINTS.map(({ operation, record }) => {
    const method = record.kind === "metadata" ? "get" : "post";
    return `${method} /registry/${record.path} ${operation}: ${record.summary}`;
  });
  expect(described).toEqual(known);
});

test("names the parameters of each path, and a body for each POST", () => {
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      for (const [, name] of path.matchAll(/\{(\w+)\}/g)) {
        expect(operation.parameters.map(({ $ref }) => $ref)).toContain(`#/components/parameters/${name}`);
      }
      expect(operation.requestBody !== undefined).toBe(method === "post");
    }
  }
});

test("has every code that clients may see, and no other", () => {
  const { code } = document.components.schemas.Error.properties;
  expect(new Set(code.enum)).toEqual(new Set(Object.keys(ERRORS).filter((each) => each !== "client_gone")));
});

test("refers to nothing that is not there, and leaves nothing unreferred to", () => {
  const text = JSON.stringify(document);
  const named = new Set(
    [...text.matchAll(/"\$ref":"#\/components\/(\w+)\/(\w+)"/g)].map(([, kind, name]) => `${kind} ${name}`),
  );
  const there = Object.entries(document.components as Record<string, object>).flatMap(([kind, all]) =>
    kind === "securitySchemes" ? [] : Object.keys(all).map((name) => `${kind} ${name}`),
  );
  expect(named).toEqual(new Set(there));
});

test("fills in no request id and no timeout for those who try it", () => {
  expect(JSON.stringify(document)).not.toMatch(/"name":"(x-request-id|request-timeout)"/i);
});
