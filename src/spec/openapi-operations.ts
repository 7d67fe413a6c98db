import { type TSchema, Type } from "typebox";
import type { Endpoint } from "./endpoints.ts";
import * as schemas from "./schemas.ts";

/** One operation in the API's description. */
export interface ApiOperation {
  readonly id: string;
  readonly summary: string;
  readonly description?: string | undefined;
  readonly parameters: readonly ApiParameter[];
  readonly body?: { readonly schema: TSchema; readonly isRequired: boolean } | undefined;
  readonly ok: { readonly description: string; readonly type: string; readonly schema?: TSchema | undefined };
}

export interface ApiParameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly description: string;
  readonly schema: TSchema;
}

interface EndpointText {
  readonly summary: string;
  readonly answer: TSchema;
}

const PAGE_SIZE = query("pageSize", "Instruments per page.", Type.Integer({ minimum: 1, maximum: 0x7fff_ffff }));
const PAGE_TOKEN = query("pageToken", "The `nextPageToken` of the page before.", Type.String());
const PARTIAL = query(
  "partial",
  "On the plain base URL of several registries: answer without those that fail, and name them in X-Registry-Partial.",
  Type.Boolean(),
);

/** spec.md §4. */
const TEXTS: Readonly<Record<Endpoint["operation"], EndpointText>> = {
  info: { summary: "What the registry is and supports", answer: schemas.RegistryInfo },
  instruments: { summary: "All instruments, in pages", answer: schemas.InstrumentPage },
  instrument: { summary: "One instrument", answer: schemas.Instrument },
  transfer_factory: { summary: "Factory and context for a direct transfer", answer: schemas.TransferFactory },
  transfer_accept: { summary: "Context to accept a transfer instruction", answer: schemas.ChoiceContext },
  transfer_reject: { summary: "Context to reject a transfer instruction", answer: schemas.ChoiceContext },
  transfer_withdraw: { summary: "Context to withdraw a transfer instruction", answer: schemas.ChoiceContext },
  allocation_execute: { summary: "Context to execute the transfer of an allocation", answer: schemas.ChoiceContext },
  allocation_withdraw: { summary: "Context to withdraw an allocation", answer: schemas.ChoiceContext },
  allocation_cancel: { summary: "Context to cancel an allocation", answer: schemas.ChoiceContext },
  allocation_factory: { summary: "Factory and context to create allocations", answer: schemas.AllocationFactory },
};

const IN_AGGREGATE: Partial<Record<Endpoint["operation"], { readonly text: string; readonly answer: TSchema }>> = {
  info: {
    text: "Without an admin: 400 that lists the registries, or the gateway's own admin where one is configured.",
    answer: schemas.RegistryInfo,
  },
  instruments: {
    text: "Without an admin: the instruments of all registries in turn, each with its `admin`.",
    answer: schemas.MergedPage,
  },
  instrument: {
    text: "Without an admin: the instrument if one registry alone has the id, else 409 that names them.",
    answer: schemas.MergedInstrument,
  },
};

/** One of the eleven endpoints. */
export function describeEndpoint(
  { operation, kind, segments }: Endpoint,
  { adminHeader, isAggregate }: { readonly adminHeader: string; readonly isAggregate: boolean },
): ApiOperation {
  const { summary, answer } = TEXTS[operation];
  const merged = isAggregate ? IN_AGGREGATE[operation] : undefined;
  const parameters: ApiParameter[] = [];
  if (segments.includes("{id}")) {
    const what = operation === "instrument" ? "Instrument id" : "Contract id";
    parameters.push({
      name: "id",
      in: "path",
      description: `${what}, as one percent-encoded segment.`,
      schema: Type.String(),
    });
  }
  if (operation === "instruments") parameters.push(PAGE_SIZE, PAGE_TOKEN);
  if (merged !== undefined) parameters.push(PARTIAL);
  parameters.push({
    name: adminHeader,
    in: "header",
    description: "Party id or alias of the admin, where the path names none.",
    schema: Type.String(),
  });
  return {
    id: operation,
    summary,
    description: merged?.text,
    parameters,
    body: bodyOf(kind),
    ok: {
      description: summary,
      type: "application/json",
      schema: merged === undefined || merged.answer === answer ? answer : Type.Union([answer, merged.answer]),
    },
  };
}

/** Later versions and drafts of the API. */
export function passThroughOperations(): Readonly<Record<string, Readonly<Record<"get" | "post", ApiOperation>>>> {
  const path: ApiParameter = {
    name: "path",
    in: "path",
    description: "Any other path of the registry, slashes included.",
    schema: Type.String(),
  };
  const summary = "Any other path, passed through to the registry untouched";
  const ok = { description: "Whatever the registry answers", type: "*/*" };
  const get: ApiOperation = { id: "pass_through", summary, parameters: [path], ok };
  return {
    "/registry/{path}": {
      get,
      post: { ...get, id: "pass_through_post", body: { schema: Type.Unknown(), isRequired: false } },
    },
  };
}

/** The gateway's own pages. */
export function catalogueOperations(isAggregate: boolean): Readonly<Record<string, ApiOperation>> {
  const pages: Record<string, ApiOperation> = {
    "/openapi.json": own("openapi", "This description", { type: "application/json", schema: Type.Object({}) }),
    "/docs": own("docs", "This description to read", { type: "text/html" }),
  };
  if (!isAggregate) return pages;
  return {
    "/catalog/v1/registries": own("catalog_registries", "The registries behind this gateway", {
      type: "application/json",
      schema: schemas.CatalogueRegistries,
    }),
    "/catalog/v1/instruments": {
      ...own("catalog_instruments", "Search the instruments of all registries", {
        type: "application/json",
        schema: schemas.CataloguePage,
      }),
      description:
        "Upper and lower case and accents make no difference; instruments of which a field begins with the query come " +
        "first. X-Registry-Partial names registries whose instruments are not known yet.",
      parameters: [
        query("query", "Searched for in id, name and symbol.", Type.String()),
        query("admin", "Only the registry of this party id or alias.", Type.String()),
        query("symbol", "Only instruments with this symbol.", Type.String()),
        PAGE_SIZE,
        PAGE_TOKEN,
      ],
    },
    ...pages,
  };
}

/** The errors any operation may answer. */
export function errorResponses(schema: unknown): Record<string, object> {
  const texts: Readonly<Record<string, string>> = {
    "4XX": "What is wrong with the request, and what to do",
    "5XX": "Why the registry could not be asked; Retry-After says when to come back",
  };
  return Object.fromEntries(
    Object.entries(texts).map(([status, description]) => [
      status,
      { description, content: { "application/json": { schema } } },
    ]),
  );
}

function bodyOf(kind: Endpoint["kind"]): ApiOperation["body"] {
  if (kind === "metadata") return undefined;
  return kind === "factory"
    ? { schema: schemas.FactoryRequest, isRequired: true }
    : { schema: schemas.ContextRequest, isRequired: false };
}

function own(id: string, summary: string, { type, schema }: { type: string; schema?: TSchema }): ApiOperation {
  return { id, summary, parameters: [], ok: { description: summary, type, schema } };
}

function query(name: string, description: string, schema: TSchema): ApiParameter {
  return { name, in: "query", description, schema };
}
