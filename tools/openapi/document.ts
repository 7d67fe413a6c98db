import { type Endpoint, endpointPath, ENDPOINTS, idNameOf } from "../../src/spec/endpoints.ts";
import type { MadeDocument } from "../../src/spec/openapi.ts";
import { SupportedApis } from "../../src/spec/schemas.ts";
import { ADMIN_FIELD, COMMON_PARAMETERS, describeErrors, HEADER_FIELDS } from "./answers.ts";
import { describeEndpoint, describePages, describePassThrough, TAGS } from "./operations.ts";
import { ErrorBody, NAMED_SCHEMAS } from "./schemas.ts";

/**
 * Describes everything the public listener answers, from the very schemas that requests and answers are held to.
 *
 * @param isAggregate whether the plain base URL stands for several registries
 */
export function makeDocument(isAggregate: boolean): MadeDocument {
  const paths = describePaths(isAggregate);
  const components = {
    schemas: {
      ...Object.fromEntries(Object.entries(NAMED_SCHEMAS).map(([name, each]) => [name, inner(each, each)])),
      // As published, so that the types made of both are the same. Registries are not held to it.
      SupportedApis: { ...(inner(SupportedApis, SupportedApis) as object), additionalProperties: { type: "integer" } },
    },
    responses: describeErrors(inner(ErrorBody)),
    headers: HEADER_FIELDS,
    parameters: { Admin: ADMIN_FIELD, ...COMMON_PARAMETERS },
  };
  return {
    openapi: "3.1.0",
    servers: [PLAIN],
    tags: describeTags(isAggregate),
    paths,
    components: withoutUnused(paths, components),
  };
}

export function renderDocument(isAggregate: boolean): string {
  return `${JSON.stringify(makeDocument(isAggregate), null, 2)}\n`;
}

const PLAIN = { url: "/", description: "The plain base URL" };

function describeTags(isAggregate: boolean): object[] {
  return Object.entries(TAGS)
    .filter(([name]) => isAggregate || name !== "catalogue")
    .map(([name, description]) => ({ name, description }));
}

function describePaths(isAggregate: boolean): MadeDocument["paths"] {
  const paths: Record<string, object> = {};
  for (const endpoint of ENDPOINTS) {
    const method = endpoint.kind === "metadata" ? "get" : "post";
    paths[pathOf(endpoint)] = { [method]: describeEndpoint(endpoint, isAggregate) };
  }
  paths["/registry/{path}"] = describePassThrough();
  for (const [path, get] of Object.entries(describePages(isAggregate))) paths[path] = { servers: [PLAIN], get };
  return inner(paths) as MadeDocument["paths"];
}

/** The components that `paths` refer to, directly or through others. */
function withoutUnused(paths: object, components: MadeDocument["components"]): MadeDocument["components"] {
  const used = new Set<string>();
  const collect = (part: unknown): void => {
    for (const [, reference, kind, name] of JSON.stringify(part).matchAll(REFERENCE)) {
      if (used.has(reference!)) continue;
      used.add(reference!);
      collect(components[kind as keyof typeof components][name!]);
    }
  };
  collect(paths);
  return Object.fromEntries(
    Object.entries(components).map(([kind, named]) => [
      kind,
      Object.fromEntries(Object.entries(named).filter(([name]) => used.has(`${kind}/${name}`))),
    ]),
  ) as MadeDocument["components"];
}

const REFERENCE = /"\$ref":"#\/components\/(([a-z]+)\/([^"]+))"/g;

function pathOf(endpoint: Endpoint): string {
  return endpointPath(endpoint, "\0").replace("%00", `{${idNameOf(endpoint)!}}`);
}

/** A schema as JSON, with references in the place of those that have a name, `self` excepted. */
function inner(schema: unknown, self?: unknown): unknown {
  if (Array.isArray(schema)) return schema.map((each) => inner(each));
  if (typeof schema !== "object" || schema === null) return schema;
  const name = schema === self ? undefined : Object.keys(NAMED_SCHEMAS).find((each) => NAMED_SCHEMAS[each] === schema);
  if (name !== undefined) return { $ref: `#/components/schemas/${name}` };
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, inner(value)]));
}
