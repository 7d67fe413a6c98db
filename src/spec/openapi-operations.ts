import { type TSchema, Type } from "typebox";
import { type Endpoint, idNameOf } from "./endpoints.ts";
import type { AnswerKind } from "./openapi-answers.ts";
import { CATALOGUE_EXAMPLE, ENDPOINT_EXAMPLES, REGISTRIES_EXAMPLE } from "./openapi-examples.ts";
import { cachedRecord, OPERATION_RECORDS } from "./operations.ts";
import * as schemas from "./schemas.ts";

/** Groups of operations, in the order in which they are shown. */
export const TAGS = {
  "token metadata": "Which registry this is, and which instruments it has. Cached.",
  "transfer instruction": "What a transfer, and its acceptance, rejection or withdrawal, needs.",
  allocation: "What the execution, settlement, withdrawal or cancellation of allocations needs.",
  "allocation instruction": "What the creation of allocations, and their acceptance or withdrawal, needs.",
  "other paths": "Drafts and other families of APIs, passed through.",
  catalogue: "All registries behind this gateway, and their instruments.",
  "this API": "The description that you read.",
} as const;

export type Tag = keyof typeof TAGS;

/** One operation in the API's description. */
export interface ApiOperation {
  readonly id: string;
  readonly tag: Tag;
  readonly summary: string;
  readonly description?: string | undefined;
  readonly parameters: readonly ApiParameter[];
  readonly body?: ApiBody | undefined;
  readonly ok: ApiAnswer;
}

export interface ApiBody {
  readonly schema: TSchema;
  readonly isRequired: boolean;
  readonly example?: unknown;
}

/** A success. */
export interface ApiAnswer {
  readonly kind: AnswerKind;
  readonly description: string;
  readonly type: string;
  readonly schema?: TSchema | undefined;
  /** Bodies to show, by what they are an example of. */
  readonly examples?: Readonly<Record<string, unknown>> | undefined;
  /** Put together from several registries, some of which may be missing. */
  readonly isMerged?: boolean;
}

export interface ApiParameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly description: string;
  readonly schema: TSchema;
}

const PAGE_SIZE = query("pageSize", "Instruments per page.", Type.Integer({ minimum: 1, maximum: 0x7fff_ffff }));
const PAGE_TOKEN = query("pageToken", "The `nextPageToken` of the page before.", Type.String());
const PARTIAL = query(
  "partial",
  "On the plain base URL of several registries: answer without those that fail, and name them in X-Registry-Partial.",
  Type.Boolean(),
);

/** One of the endpoints of the standard. */
export function describeEndpoint(
  endpoint: Endpoint,
  { adminHeader, isAggregate }: { readonly adminHeader: string; readonly isAggregate: boolean },
): ApiOperation {
  const { operation, kind } = endpoint;
  const { tag, summary, answer: name } = OPERATION_RECORDS[operation];
  const cached = kind === "metadata" ? cachedRecord(operation) : undefined;
  const merged = isAggregate ? cached?.merged : undefined;
  const [answer, mergedAnswer] = [schemas.SCHEMAS[name], schemas.SCHEMAS[merged?.answer ?? name]];
  const example = ENDPOINT_EXAMPLES[operation];
  const parameters: ApiParameter[] = [];
  const idName = idNameOf(endpoint);
  if (idName !== undefined) {
    const what = kind === "metadata" ? "Instrument id" : "Contract id";
    parameters.push({
      name: idName,
      in: "path",
      description: `${what}, as one percent-encoded segment.`,
      schema: Type.String(),
    });
  }
  if (cached?.address === "page") parameters.push(PAGE_SIZE, PAGE_TOKEN);
  if (merged !== undefined) parameters.push(PARTIAL);
  parameters.push({
    name: adminHeader,
    in: "header",
    description: "Party id or alias of the admin, where the path names none.",
    schema: Type.String(),
  });
  return {
    id: operation,
    tag,
    summary,
    description: merged?.text,
    parameters,
    body: bodyOf(kind, example.request),
    ok: {
      kind: kind === "metadata" ? "cached" : "call",
      description: summary,
      type: "application/json",
      schema: mergedAnswer === answer ? answer : Type.Union([answer, mergedAnswer]),
      examples: {
        "one registry": example.answer,
        ...(merged === undefined || example.merged === undefined ? {} : { "all registries": example.merged }),
      },
      isMerged: merged !== undefined,
    },
  };
}

/** Drafts and other families of APIs. */
export function passThroughOperations(): Readonly<Record<string, Readonly<Record<"get" | "post", ApiOperation>>>> {
  const path: ApiParameter = {
    name: "path",
    in: "path",
    description: "Any other path of the registry, slashes included.",
    schema: Type.String(),
  };
  const summary = "Any other path, passed through to the registry untouched";
  const ok: ApiAnswer = { kind: "streamed", description: "Whatever the registry answers", type: "*/*" };
  const get: ApiOperation = { id: "pass_through", tag: "other paths", summary, parameters: [path], ok };
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
    "/openapi.json": describePage("openapi", "This description", {
      type: "application/json",
      schema: Type.Object({}),
    }),
    "/docs": describePage("docs", "This description to read", { type: "text/html" }),
    "/": describePage("home", "What this gateway has, as HTML, or as JSON where Accept prefers that", {
      type: "text/html",
    }),
  };
  if (!isAggregate) return pages;
  return {
    "/catalog/v1/registries": {
      id: "catalog_registries",
      tag: "catalogue",
      summary: "The registries behind this gateway",
      parameters: [],
      ok: describeCatalogue("The registries", schemas.CatalogueRegistries, REGISTRIES_EXAMPLE),
    },
    "/catalog/v1/instruments": {
      id: "catalog_instruments",
      tag: "catalogue",
      summary: "Search the instruments of all registries",
      description:
        "Upper and lower case and accents make no difference; instruments of which a field begins with the query come " +
        "first. X-Registry-Partial names registries whose instruments are not known, or not all of them.",
      parameters: [
        query("query", "Searched for in id, name and symbol.", Type.String()),
        query("admin", "Only the registry of this party id or alias.", Type.String()),
        query("symbol", "Only instruments with this symbol.", Type.String()),
        query("paused", "Only instruments that are paused, or only those that are not.", Type.Boolean()),
        PAGE_SIZE,
        PAGE_TOKEN,
      ],
      ok: describeCatalogue("The instruments that were found", schemas.CataloguePage, CATALOGUE_EXAMPLE),
    },
    ...pages,
  };
}

function bodyOf(kind: Endpoint["kind"], example: unknown): ApiBody | undefined {
  if (kind === "metadata") return undefined;
  return kind === "factory"
    ? { schema: schemas.FactoryRequest, isRequired: true, example }
    : { schema: schemas.ContextRequest, isRequired: false, example };
}

function describePage(id: string, summary: string, answer: Pick<ApiAnswer, "type" | "schema">): ApiOperation {
  return { id, tag: "this API", summary, parameters: [], ok: { kind: "page", description: summary, ...answer } };
}

function describeCatalogue(description: string, schema: TSchema, example: unknown): ApiAnswer {
  const examples = { catalogue: example };
  return { kind: "composed", description, type: "application/json", schema, examples, isMerged: true };
}

function query(name: string, description: string, schema: TSchema): ApiParameter {
  return { name, in: "query", description, schema };
}
