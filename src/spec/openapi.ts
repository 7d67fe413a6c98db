import type { TSchema } from "typebox";
import { type Endpoint, endpointPath, ENDPOINTS } from "./endpoints.ts";
import {
  type ApiOperation,
  type ApiParameter,
  catalogueOperations,
  describeEndpoint,
  errorResponses,
  passThroughOperations,
} from "./openapi-operations.ts";
import * as schemas from "./schemas.ts";

/** What the description depends on. */
export interface ApiOptions {
  readonly version: string;
  /** `routing.prefix` and `routing.adminHeader`. */
  readonly prefix: string;
  readonly adminHeader: string;
  /** Whether the plain base URL stands for several registries. */
  readonly isAggregate: boolean;
}

/** An OpenAPI 3.1 document. */
export interface ApiDocument {
  readonly openapi: "3.1.0";
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly servers: readonly object[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, unknown>> };
}

/** Schemas by the name they have in the document. */
const NAMED: Readonly<Record<string, TSchema>> = {
  RegistryInfo: schemas.RegistryInfo,
  Instrument: schemas.Instrument,
  InstrumentPage: schemas.InstrumentPage,
  MergedInstrument: schemas.MergedInstrument,
  MergedPage: schemas.MergedPage,
  CatalogueInstrument: schemas.CatalogueInstrument,
  CataloguePage: schemas.CataloguePage,
  CatalogueRegistries: schemas.CatalogueRegistries,
  ChoiceContext: schemas.ChoiceContext,
  DisclosedContract: schemas.DisclosedContract,
  TransferFactory: schemas.TransferFactory,
  AllocationFactory: schemas.AllocationFactory,
  FactoryRequest: schemas.FactoryRequest,
  ContextRequest: schemas.ContextRequest,
  SupportedApis: schemas.SupportedApis,
  Error: schemas.ErrorBody,
};

/** Describes everything the public listener answers, from the very schemas that requests and answers are held to. */
export function describeApi(options: ApiOptions): ApiDocument {
  const { version, prefix, isAggregate } = options;
  const plain = { url: "/", description: "The plain base URL" };
  const registry = {
    url: `${prefix}/{admin}`,
    description: "One registry",
    variables: {
      admin: { default: "alias", description: "Party id of the instrument admin, or the registry's alias." },
    },
  };
  const paths: Record<string, Record<string, unknown>> = {};
  for (const endpoint of ENDPOINTS) {
    const operation = describeEndpoint(endpoint, options);
    paths[pathOf(endpoint)] = { [endpoint.kind === "metadata" ? "get" : "post"]: describeOperation(operation) };
  }
  for (const [path, methods] of Object.entries(passThroughOperations())) {
    paths[path] = Object.fromEntries(
      Object.entries(methods).map(([method, each]) => [method, describeOperation(each)]),
    );
  }
  for (const [path, operation] of Object.entries(catalogueOperations(isAggregate))) {
    paths[path] = { servers: [plain], get: describeOperation(operation) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Registry Gateway",
      version,
      description:
        "The token-registry API of every registry behind this gateway. Each registry is to be had by itself below " +
        `${prefix}/{admin}; the plain base URL ${isAggregate ? "stands for all of them" : "needs an admin unless there is one registry only"}.`,
    },
    servers: [registry, plain],
    paths,
    components: { schemas: Object.fromEntries(Object.entries(NAMED).map(([name, each]) => [name, inner(each, each)])) },
  };
}

function pathOf(endpoint: Endpoint): string {
  return endpointPath(endpoint, "\0").replace("%00", "{id}");
}

function describeOperation({ summary, description, id, parameters, body, ok }: ApiOperation): object {
  return {
    operationId: id,
    summary,
    ...(description === undefined ? {} : { description }),
    ...(parameters.length === 0 ? {} : { parameters: parameters.map(describeParameter) }),
    ...(body === undefined
      ? {}
      : {
          requestBody: { required: body.isRequired, content: { "application/json": { schema: inner(body.schema) } } },
        }),
    responses: {
      "200": {
        description: ok.description,
        content: { [ok.type]: ok.schema === undefined ? {} : { schema: inner(ok.schema) } },
      },
      ...errorResponses(inner(schemas.ErrorBody)),
    },
  };
}

function describeParameter({ name, in: place, description, schema }: ApiParameter): object {
  return { name, in: place, description, schema: inner(schema), ...(place === "path" ? { required: true } : {}) };
}

/** A schema as JSON, with references in the place of those that have a name, `self` excepted. */
function inner(schema: unknown, self?: unknown): unknown {
  if (Array.isArray(schema)) return schema.map((each) => inner(each));
  if (typeof schema !== "object" || schema === null) return schema;
  const name = schema === self ? undefined : Object.keys(NAMED).find((each) => NAMED[each] === schema);
  if (name !== undefined) return { $ref: `#/components/schemas/${name}` };
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, inner(value)]));
}
