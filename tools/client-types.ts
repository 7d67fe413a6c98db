import { execFileSync } from "node:child_process";
import { join } from "node:path";
import type { MadeDocument } from "../src/spec/openapi.ts";
import { makeDocument } from "./openapi/document.ts";

/** What is read of a JSON Schema; the document uses nothing else. */
interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | boolean;
}

interface Parameter {
  readonly $ref?: string;
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly description?: string;
  readonly required?: boolean;
  readonly schema: Schema;
}

interface Operation {
  readonly summary: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly required?: boolean; readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly $ref?: string; readonly content?: Content }>>;
}

type PathItem = Readonly<Record<string, Operation>>;

type Content = Readonly<Record<string, { readonly schema?: Schema }>>;

/**
 * The types of the client: the document of `/openapi.json`, with all that a gateway can be configured to answer, in the form
 * that openapi-fetch reads. Written here, because openapi-typescript needs a compiler API that TypeScript 7 has not.
 */
export function renderClientTypes(): string {
  const document = makeDocument(true);
  return format(`// Generated from the OpenAPI document (npm run generate).

/** A path that knows these methods alone. */
type Path<Methods> = Methods & { [Name in Exclude<"${METHODS.join('" | "')}", keyof Methods>]?: never };

/** An answer, by the media type of its body; \`never\`: without one. */
interface Answer<Content> {
  headers: { [name: string]: unknown };
  content: Content;
}

/** Header fields that a request may have. */
interface Fields {
${[...headerFieldsOf(document)].map(([name, each]) => renderProperty(name, withDescription(each), false)).join("\n")}
}

/** What every endpoint takes and gives. */
export interface paths {
${Object.entries(document.paths)
  .map(([path, item]) => renderPath(document, path, item as PathItem))
  .join("\n")}
}

/** Bodies, by the name that they have in the standard. */
export interface components {
  schemas: {
${Object.entries(document.components.schemas)
  .map(([name, schema]) => renderProperty(name, schema as Schema, true))
  .join("\n")}
  };
}
`);
}

const OXFMT = join(import.meta.dirname, "../node_modules/.bin/oxfmt");

/** As `npm run format` has it. */
function format(text: string): string {
  return execFileSync(OXFMT, ["--stdin-filepath", "client/api.ts"], { input: text, encoding: "utf8" });
}

const METHODS = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/** Each by its name; an operation takes some of them. */
function headerFieldsOf(document: MadeDocument): ReadonlyMap<string, Parameter> {
  const operations = Object.values(document.paths).flatMap((each) => operationsOf(each as PathItem));
  const headers = operations.flatMap(([, each]) => parametersOf(document, each)).filter((each) => each.in === "header");
  return new Map(headers.map((each) => [each.name, each]));
}

/** All that a path has besides methods holds for its operations, too. */
function operationsOf(path: PathItem): [method: string, Operation][] {
  return Object.entries(path).filter(([method]) => METHODS.includes(method));
}

function parametersOf(document: MadeDocument, { parameters = [] }: Operation): Parameter[] {
  return parameters.map((each) => resolved(document, each) as Parameter);
}

function renderPath(document: MadeDocument, path: string, item: PathItem): string {
  const lines = operationsOf(item).map(([method, each]) => renderOperation(document, method, each));
  return `${JSON.stringify(path)}: Path<{ ${lines.join("\n")} }>;`;
}

function renderOperation(document: MadeDocument, method: string, operation: Operation): string {
  const { requestBody } = operation;
  const body =
    requestBody === undefined
      ? ""
      : `requestBody${requestBody.required === true ? "" : "?"}: { content: ${renderContent(requestBody.content)} };\n`;
  // An error is thrown, so no answer of a call has its body.
  const good = Object.entries(operation.responses).filter(([status]) => Number(status) < 400);
  const responses = good.map(([status, given]) => {
    const { content } = resolved(document, given) as { readonly content?: Content };
    return `${status}: Answer<${content === undefined ? "never" : renderContent(content)}>;`;
  });
  return `/** ${operation.summary} */
${method}: {
parameters: { ${renderParameters(parametersOf(document, operation))} };
${body}responses: { ${responses.join("\n")} };
};`;
}

function renderParameters(parameters: readonly Parameter[]): string {
  const named = (["query", "path"] as const).flatMap((kind) => {
    const list = parameters.filter((each) => each.in === kind);
    if (list.length === 0) return [];
    // Any query: those of its members.
    const any = list.find(({ schema }) => kind === "query" && schema.type === "object");
    if (any !== undefined) return [`query?: ${renderType(any.schema)};`];
    const isNeeded = list.some(({ required }) => required === true);
    const lines = list.map((each) => renderProperty(each.name, withDescription(each), each.required === true));
    return [`${kind}${isNeeded ? "" : "?"}: { ${lines.join("\n")} };`];
  });
  const fields = parameters.filter((each) => each.in === "header").map(({ name }) => JSON.stringify(name));
  const header = fields.length === 0 ? [] : [`header?: Pick<Fields, ${fields.join(" | ")}>;`];
  return [...named, ...header].join("\n");
}

function withDescription({ schema, description }: Parameter): Schema {
  return { ...schema, ...(description === undefined ? {} : { description }) };
}

function renderContent(content: Content): string {
  const lines = Object.entries(content).map(
    ([type, { schema }]) => `${JSON.stringify(type)}: ${renderType(schema ?? {})};`,
  );
  return `{ ${lines.join(" ")} }`;
}

function renderProperty(name: string, schema: Schema, isNeeded: boolean): string {
  const comment = schema.description === undefined ? "" : `/** ${schema.description.replaceAll("*/", "*\\/")} */\n`;
  return `${comment}${JSON.stringify(name)}${isNeeded ? "" : "?"}: ${renderType(schema)};`;
}

function renderType(schema: Schema): string {
  if (schema.$ref !== undefined) return `components["schemas"][${JSON.stringify(schema.$ref.split("/").at(-1))}]`;
  if (schema.anyOf !== undefined) return `(${schema.anyOf.map(renderType).join(" | ")})`;
  if (schema.enum !== undefined) return `(${schema.enum.map((each) => JSON.stringify(each)).join(" | ")})`;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  switch (schema.type) {
    case "string":
    case "boolean":
    case "null":
      return schema.type;
    case "number":
    case "integer":
      return "number";
    case "array":
      return `${renderType(schema.items ?? {})}[]`;
    case "object":
      return renderObject(schema);
    case undefined:
      return "unknown";
    default:
      throw new Error(`the types of the client know no schema of type ${schema.type}`);
  }
}

function renderObject({ properties = {}, required = [], additionalProperties }: Schema): string {
  const lines = Object.entries(properties).map(([name, each]) => renderProperty(name, each, required.includes(name)));
  if (typeof additionalProperties === "object") lines.push(`[name: string]: ${renderType(additionalProperties)};`);
  if (additionalProperties === true) lines.push("[name: string]: unknown;");
  return lines.length === 0 ? "Record<string, never>" : `{ ${lines.join("\n")} }`;
}

/** What a `$ref` of the document points to. */
function resolved(document: MadeDocument, part: { readonly $ref?: string }): unknown {
  if (part.$ref === undefined) return part;
  const [, , kind, name] = part.$ref.split("/") as [string, string, keyof MadeDocument["components"], string];
  return document.components[kind][name];
}
