import Schema from "typebox/schema";
import { describe, expect, test } from "vitest";
import { ENDPOINTS } from "../../src/spec/endpoints.ts";
import { type ApiDocument, type ApiOptions, describeApi } from "../../src/spec/openapi.ts";

/** Told as they come: nothing of it is kept. */
const CHANGES = "/catalog/v1/changes";

type Json = Readonly<Record<string, unknown>>;

interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly parameters: readonly { readonly name: string; readonly in: string }[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly headers?: object; readonly content?: Content }>>;
}

type Content = Readonly<Record<string, MediaType>>;

interface MediaType {
  readonly schema?: Json;
  readonly example?: unknown;
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
}

function describeBy(change: Partial<ApiOptions> & { readonly isAggregate: boolean }): ApiDocument {
  return describeApi({
    version: "1.2.3",
    prefix: "/registrars",
    adminHeader: "x-instrument-admin",
    alias: "amulet",
    takesAuthorization: false,
    strangers: "unlimited",
    ...change,
  });
}

/** The same with what references stand for in their place. */
function resolve(value: unknown, document: ApiDocument): unknown {
  if (Array.isArray(value)) return value.map((each) => resolve(each, document));
  if (typeof value !== "object" || value === null) return value;
  if (!("$ref" in value)) {
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, resolve(each, document)]));
  }
  let target: unknown = document;
  for (const step of String(value.$ref).slice("#/".length).split("/")) target = (target as Json)[step];
  expect(target, String(value.$ref)).toBeDefined();
  return resolve(target, document);
}

function operationsOf(document: ApiDocument): [path: string, method: string, operation: Operation][] {
  const paths = resolve(document.paths, document) as Record<string, Record<string, Operation>>;
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([method]) => method === "get" || method === "post")
      .map(([method, operation]): [string, string, Operation] => [path, method, operation]),
  );
}

function examplesOf({ example, examples = {} }: MediaType): unknown[] {
  return [...(example === undefined ? [] : [example]), ...Object.values(examples).map(({ value }) => value)];
}

// Both stand on what is cached, too, where one fetch is for many clients.
test("says that a registry gets the request's id with calls", () => {
  const { headers, parameters } = describeBy({ isAggregate: true }).components;
  for (const each of [headers["X-Request-Id"], parameters["RequestId"]]) {
    expect((each as Json)["description"]).toContain("with calls");
  }
});

describe.each([
  ["of one registry", describeBy({ isAggregate: false })],
  ["of several registries", describeBy({ isAggregate: true })],
  ["of a registry that gets the client's token", describeBy({ isAggregate: false, takesAuthorization: true })],
])("the description %s", (_about, document) => {
  const operations = operationsOf(document);

  test("has every endpoint once", () => {
    const ids = operations.map(([, , { operationId }]) => operationId);
    expect(new Set(ids).size).toBe(ids.length);
    for (const { operation } of ENDPOINTS) expect(ids).toContain(operation);
  });

  test("shows examples that fit their schemas", () => {
    let shown = 0;
    for (const [, , { requestBody, responses, operationId }] of operations) {
      const bodies = [requestBody?.content, ...Object.values(responses).map(({ content }) => content)];
      for (const media of bodies.flatMap((content) => Object.values(content ?? {}))) {
        if (media.schema === undefined) continue;
        const validator = Schema.Compile(media.schema);
        for (const example of examplesOf(media)) {
          shown += 1;
          expect(validator.Errors(example)[1], operationId).toEqual([]);
        }
      }
    }
    expect(shown).toBeGreaterThan(100);
  });

  test("shows an example of every JSON body of the API", () => {
    for (const [path, , { requestBody, responses }] of operations) {
      if (!/^\/(?:registry\/[a-z-]+\/v1|catalog)\//.test(path)) continue;
      for (const content of [requestBody?.content, responses["200"]!.content]) {
        if (content !== undefined) expect(examplesOf(content["application/json"]!), path).not.toEqual([]);
      }
    }
  });

  test("says which header fields each answer has, and where there is a 304", () => {
    for (const [path, method, { responses }] of operations) {
      for (const [status, { headers = {} }] of Object.entries(responses)) {
        const names = Object.keys(headers);
        expect(names, `${path} ${status}`).toContain("X-Request-Id");
        if (status === "429" || status === "503") expect(names).toContain("Retry-After");
      }
      if (path.includes("/metadata/") || path.startsWith("/catalog/")) {
        const names = Object.keys(responses["200"]!.headers!);
        const cached = path === CHANGES ? [] : ["Age", "Cache-Status", "ETag"];
        expect(names).toEqual(expect.arrayContaining(["Cache-Control", ...cached]));
      }
      const isKept = method === "get" && path !== CHANGES && !path.includes("{path}");
      expect("304" in responses, `${method} ${path}`).toBe(isKept);
      expect(responses["304"]?.content).toBeUndefined();
    }
  });

  test("takes the field that names the admin wherever a registry answers", () => {
    for (const [path, , { parameters }] of operations) {
      const fields = parameters.filter((each) => each.in === "header").map(({ name }) => name);
      expect(fields.includes("x-instrument-admin"), path).toBe(path.startsWith("/registry/"));
    }
  });

  test("has the errors of its operations, and one that stands for all others", () => {
    for (const [path, method, { responses }] of operations) {
      const statuses = Object.keys(responses);
      expect(statuses).toEqual(expect.arrayContaining(["400", "401", "403", "404", "429", "500", "default"]));
      expect(responses["401"]!.headers).toHaveProperty("WWW-Authenticate");
      expect(responses["429"]!.headers).toHaveProperty("RateLimit");
      expect(statuses.includes("502"), path).toBe(path.startsWith("/registry/"));
      expect(statuses.includes("415"), path).toBe(method === "post" || path.includes("{path}"));
    }
  });

  test("uses every tag and component that it has, and no other tag", () => {
    const declared = (document.tags as { readonly name: string }[]).map(({ name }) => name);
    const used = new Set(operations.flatMap(([, , { tags }]) => tags));
    expect([...used].toSorted()).toEqual(declared.toSorted());
    const text = JSON.stringify(document);
    for (const kind of ["schemas", "responses", "headers", "parameters"] as const) {
      for (const name of Object.keys(document.components[kind])) {
        expect(text).toContain(`"#/components/${kind}/${name}"`);
      }
    }
  });
});

test("a 409 is described where a contract may be on its way, or several registries may have the same id", () => {
  const conflicting = (document: ApiDocument) =>
    operationsOf(document).flatMap(([, , { operationId, responses }]) => ("409" in responses ? [operationId] : []));
  const posts = ENDPOINTS.filter(({ kind }) => kind !== "metadata").map(({ operation }) => operation);
  expect(conflicting(describeBy({ isAggregate: true }))).toEqual(["instrument", ...posts]);
  expect(conflicting(describeBy({ isAggregate: false }))).toEqual(posts);
});

test("a token is described where some registry gets the client's, as one that may be left out", () => {
  expect(describeBy({ isAggregate: true }).security).toEqual([]);
  const { security } = describeBy({ isAggregate: true, takesAuthorization: true });
  expect(security).toEqual([{}, { registryToken: [] }]);
});

test.each([
  ["limited", [{}, { apiKey: [] }, { clientToken: [] }]],
  ["refused", [{ apiKey: [] }, { clientToken: [] }]],
] as const)("where strangers are %s, it says how to show who calls", (strangers, security) => {
  const document = describeBy({ isAggregate: true, strangers });
  expect(document.security).toEqual(security);
  expect(document.components).toMatchObject({
    securitySchemes: {
      apiKey: { type: "apiKey", in: "header", name: "X-API-Key" },
      clientToken: { type: "http", scheme: "bearer" },
    },
  });
});

test("with clients, a registry's own token goes beside an API key", () => {
  const { security } = describeBy({ isAggregate: false, strangers: "refused", takesAuthorization: true });
  expect(security).toContainEqual({ apiKey: [], registryToken: [] });
  expect(security).not.toContainEqual({ registryToken: [] });
});
