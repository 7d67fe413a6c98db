import { type TSchema, Type } from "typebox";
import { type Endpoint, idNameOf } from "../../src/spec/endpoints.ts";
import { cachedRecord, OPERATION_RECORDS } from "../../src/spec/operations.ts";
import { ContextRequest, FactoryRequest, SCHEMAS } from "../../src/spec/schemas.ts";
import { ANSWER_KINDS, type AnswerKind, COMMON_PARAMETERS, errorRefs, headerRefs } from "./answers.ts";
import {
  CATALOGUE_EXAMPLE,
  CHANGE_EVENTS_EXAMPLE,
  CHANGES_EXAMPLE,
  ENDPOINT_EXAMPLES,
  REGISTRIES_EXAMPLE,
} from "./examples.ts";
import { CatalogueChanges, CataloguePage, CatalogueRegistries, MERGED } from "./schemas.ts";

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

/** One operation, before what all of them have is added. */
interface OwnParts {
  readonly id: string;
  readonly tag: keyof typeof TAGS;
  readonly summary: string;
  readonly description?: string | undefined;
  readonly parameters?: readonly object[];
  readonly requestBody?: object | undefined;
  readonly kind: AnswerKind;
  /** Of the success. */
  readonly answer: {
    /** The summary, where there is no other. */
    readonly description?: string;
    readonly type: string;
    readonly schema?: TSchema;
    /** Bodies to show, by what they are an example of. */
    readonly examples?: Readonly<Record<string, unknown>>;
    /** What it is as server-sent events, where it can be that, too. */
    readonly events?: string;
  };
  /** Put together from several registries, some of which may be missing. */
  readonly isMerged?: boolean;
}

const PAGE_SIZE = query("pageSize", "Instruments per page.", Type.Integer({ minimum: 1, maximum: 0x7fff_ffff }));
const PAGE_TOKEN = query("pageToken", "The `nextPageToken` of the page before.", Type.String());
const PARTIAL = query(
  "partial",
  "On the plain base URL of several registries: answer without those that fail, and name them in X-Registry-Partial.",
  Type.Boolean(),
);

const ADMIN = { $ref: "#/components/parameters/Admin" };

const SEARCH_PARAMETERS = [
  query("query", "Searched for in id, name and symbol.", Type.String()),
  query("admin", "Only the registry of this party id or alias.", Type.String()),
  query("symbol", "Only instruments with this symbol.", Type.String()),
  query("paused", "Only instruments that are paused, or only those that are not.", Type.Boolean()),
  PAGE_SIZE,
  PAGE_TOKEN,
];

/** One of the endpoints of the standard. */
export function describeEndpoint(endpoint: Endpoint, isAggregate: boolean): object {
  const { operation, kind } = endpoint;
  const { tag, summary, answer: name } = OPERATION_RECORDS[operation];
  const cached = kind === "metadata" ? cachedRecord(operation) : undefined;
  const merged = isAggregate && kind === "metadata" ? MERGED[operation] : undefined;
  const answer = SCHEMAS[name];
  const mergedAnswer = merged?.answer ?? answer;
  const example = ENDPOINT_EXAMPLES[operation];
  const idName = idNameOf(endpoint);
  return describeOperation({
    id: operation,
    tag,
    summary,
    description: merged?.text,
    parameters: [
      ...(idName === undefined
        ? []
        : [inPath(idName, `${cached ? "Instrument" : "Contract"} id, as one percent-encoded segment.`)]),
      ...(cached?.address === "page" ? [PAGE_SIZE, PAGE_TOKEN] : []),
      ...(merged === undefined ? [] : [PARTIAL]),
      ADMIN,
    ],
    requestBody: bodyOf(kind, example.request),
    kind: cached === undefined ? "call" : "cached",
    answer: {
      type: "application/json",
      schema: mergedAnswer === answer ? answer : Type.Union([answer, mergedAnswer]),
      examples: {
        "one-registry": example.answer,
        ...(merged === undefined || example.merged === undefined ? {} : { "all-registries": example.merged }),
      },
    },
    isMerged: merged !== undefined,
  });
}

/** OpenAPI has no parameter of several segments. */
const OTHER_PATH =
  "Any other path of the registry, slashes included. /docs and the typed client send these as they are; other viewers and " +
  "generated clients encode them, and ask for another path.";

/** The parameters of an object in the form of a query have names of their own. */
const ANY_QUERY = {
  ...query("query", "Any query.", Type.Object({}, { additionalProperties: Type.String() })),
  style: "form",
  explode: true,
  example: {},
};

/** Drafts and other families of APIs. */
export function describePassThrough(): object {
  const get: OwnParts = {
    id: "pass_through",
    tag: "other paths",
    summary: "Any other path, passed through to the registry untouched",
    parameters: [inPath("path", OTHER_PATH), ANY_QUERY, ADMIN],
    kind: "streamed",
    answer: { description: "Whatever the registry answers", type: "*/*" },
  };
  const requestBody = { required: false, content: { "application/json": { schema: Type.Unknown() } } };
  const post = { ...get, id: "pass_through_post", requestBody };
  return { get: describeOperation(get), post: describeOperation(post) };
}

/** The gateway's own pages, all of them GETs, by path. */
export function describePages(isAggregate: boolean): Readonly<Record<string, object>> {
  const page = (id: string, summary: string, answer: OwnParts["answer"]): object =>
    describeOperation({ id, tag: "this API", summary, kind: "page", answer });
  const pages = {
    "/openapi.json": page("openapi", "This description", { type: "application/json", schema: Type.Object({}) }),
    "/docs": page("docs", "This description to read", { type: "text/html" }),
    "/": page("home", "What this gateway has, as HTML, or as JSON where Accept prefers that", { type: "text/html" }),
  };
  return isAggregate ? { ...describeCatalogue(), ...pages } : pages;
}

function describeCatalogue(): Readonly<Record<string, object>> {
  const ofCatalogue = { tag: "catalogue", kind: "composed", isMerged: true } as const;
  return {
    "/catalog/v1/registries": describeOperation({
      ...ofCatalogue,
      id: "catalog_registries",
      summary: "The registries behind this gateway",
      answer: inCatalogue("The registries", CatalogueRegistries, REGISTRIES_EXAMPLE),
    }),
    "/catalog/v1/instruments": describeOperation({
      ...ofCatalogue,
      id: "catalog_instruments",
      summary: "Search the instruments of all registries",
      description:
        "Upper and lower case and accents make no difference; instruments of which a field begins with the query come " +
        "first. X-Registry-Partial names registries whose instruments are not known, or not all of them.",
      parameters: SEARCH_PARAMETERS,
      answer: inCatalogue("The instruments that were found", CataloguePage, CATALOGUE_EXAMPLE),
    }),
    "/catalog/v1/changes": describeChanges(),
  };
}

function describeChanges(): object {
  return describeOperation({
    id: "catalog_changes",
    tag: "catalogue",
    summary: "Follow the changes of all registries and their instruments",
    description:
      "Server-sent events: `change` with a CatalogueChange, and `reset` where the changes since the client's last id cannot be " +
      "told, as on a stream without one: list the catalogue then. With `since`, one answer in JSON. Ids hold over replicas that share " +
      "a Redis, and over restarts.",
    parameters: [
      query("since", "Asks for one answer: the changes behind this id; empty: the id to begin with.", Type.String()),
      { name: "Last-Event-ID", in: "header", description: "Goes on behind this id.", schema: Type.String() },
    ],
    kind: "changes",
    answer: {
      ...inCatalogue("The changes, as events or as one answer", CatalogueChanges, CHANGES_EXAMPLE),
      events: CHANGE_EVENTS_EXAMPLE,
    },
  });
}

function inCatalogue(description: string, schema: TSchema, catalogue: unknown): OwnParts["answer"] {
  return { description, type: "application/json", schema, examples: { catalogue } };
}

/** An operation as the document has it, with what all have: common parameters, errors, the 304 of what has an ETag. */
function describeOperation(parts: OwnParts): object {
  const { id, tag, summary, description, parameters = [], requestBody, kind, answer, isMerged = false } = parts;
  const { fields, errors } = ANSWER_KINDS[kind];
  const { type, schema, examples = {}, events } = answer;
  const shown = Object.entries(examples).map(([name, value]) => [name, { value }] as const);
  const content = { ...(schema && { schema }), ...(shown.length > 0 && { examples: Object.fromEntries(shown) }) };
  const stream = events !== undefined && {
    "text/event-stream": { schema: Type.String(), examples: { events: { value: events } } },
  };
  const headers = headerRefs(isMerged ? [...fields, "X-Registry-Partial"] : fields);
  const known = "The client has it already: its If-None-Match or If-Modified-Since says so.";
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(description !== undefined && { description }),
    parameters: [...parameters, ...COMMON_PARAMETER_REFS],
    ...(requestBody && { requestBody }),
    responses: {
      "200": { description: answer.description ?? summary, headers, content: { [type]: content, ...stream } },
      ...(fields.includes("ETag") && { "304": { description: known, headers: headerRefs(fields) } }),
      ...errorRefs(errors),
      ...errorRefs(id === "instrument" && isMerged ? ["409"] : []),
    },
  };
}

const COMMON_PARAMETER_REFS = Object.keys(COMMON_PARAMETERS).map((name) => ({
  $ref: `#/components/parameters/${name}`,
}));

function bodyOf(kind: Endpoint["kind"], example: unknown): object | undefined {
  if (kind === "metadata") return undefined;
  const isFactory = kind === "factory";
  const schema = isFactory ? FactoryRequest : ContextRequest;
  return { required: isFactory, content: { "application/json": { schema, example } } };
}

function inPath(name: string, description: string): object {
  return { name, in: "path", description, schema: Type.String(), required: true };
}

function query(name: string, description: string, schema: TSchema): object {
  return { name, in: "query", description, schema };
}
