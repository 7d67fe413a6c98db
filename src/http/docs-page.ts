import type { ApiDocument } from "../spec/openapi.ts";
import { escape, type HtmlPage, renderPage } from "./html.ts";

interface Shown {
  readonly summary: string;
  readonly description?: string;
  readonly parameters: readonly (ShownParameter | Reference)[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, ShownResponse | Reference>>;
}

interface ShownParameter {
  readonly name: string;
  readonly in: string;
  readonly description: string;
}

interface ShownResponse {
  readonly description: string;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly content?: Content;
}

/** To one of the document's `components`. */
interface Reference {
  readonly $ref: string;
}

type Content = Readonly<Record<string, { readonly schema?: unknown }>>;

type Components = ApiDocument["components"];

const METHODS = ["get", "post"];

/** Renders an API's description as HTML without scripts and without anything from elsewhere. */
export function renderDocs(document: ApiDocument): HtmlPage {
  const { info, paths, components } = document;
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method] !== undefined).map((method) =>
      renderOperation({ method, path }, item[method] as Shown, components),
    ),
  );
  const schemas = Object.entries(components.schemas).map(
    ([name, schema]) => `<section id="${escape(name)}"><h3>${escape(name)}</h3>${renderSchema(schema)}</section>`,
  );
  return renderPage(
    info.title,
    `<h1>${escape(info.title)} ${escape(info.version)}</h1>
<p>${escape(info.description)}</p>
<p>As OpenAPI 3.1: <a href="/openapi.json">/openapi.json</a></p>
<h2>Base URLs</h2>
<ul>${document.servers.map(renderServer).join("")}</ul>
<h2>Operations</h2>
${operations.join("\n")}
<h2>Schemas</h2>
${schemas.join("\n")}`,
  );
}

function renderServer(server: object): string {
  const { url, description } = server as { readonly url: string; readonly description: string };
  return `<li><code>${escape(url)}</code> ${escape(description)}</li>`;
}

function renderOperation(
  { method, path }: { readonly method: string; readonly path: string },
  operation: Shown,
  components: Components,
): string {
  const { summary, description, requestBody } = operation;
  const parameters = operation.parameters.map((each) => {
    const { name, in: place, description } = resolve(each, components);
    return `<tr><td><code>${escape(name)}</code></td><td>${escape(place)}</td><td>${escape(description)}</td></tr>`;
  });
  const answers = Object.entries(operation.responses).map(([status, each]) => {
    const { description, headers = {}, content = {} } = resolve(each, components);
    const fields = Object.keys(headers).map((name) => `<code>${escape(name)}</code>`);
    return `<tr><td><code>${escape(status)}</code></td><td>${escape(description)}</td><td>${renderContent(content)}</td><td>${fields.join(" ")}</td></tr>`;
  });
  return `<section><h3><b>${method}</b> <code>${escape(path)}</code></h3><p>${escape(summary)}.</p>
${description === undefined ? "" : `<p>${escape(description)}</p>`}
<table><tr><th>Parameter<th>In<th>Meaning</tr>${parameters.join("")}</table>
${requestBody === undefined ? "" : `<p>Body: ${renderContent(requestBody.content)}</p>`}
<table><tr><th>Status<th>Meaning<th>Body<th>Header fields</tr>${answers.join("")}</table></section>`;
}

/** What a reference stands for; anything else is itself. */
function resolve<Value extends object>(value: Value | Reference, components: Components): Value {
  if (!("$ref" in value)) return value;
  const [, , kind, name] = value.$ref.split("/") as [string, string, keyof Components, string];
  return components[kind][name] as Value;
}

function renderContent(content: Content): string {
  return Object.entries(content)
    .map(([type, { schema }]) => (schema === undefined ? escape(type) : renderSchemaName(schema)))
    .join(", ");
}

/** Links of the named schemas in it. */
function renderSchemaName(schema: unknown): string {
  const { $ref, anyOf } = schema as { readonly $ref?: string; readonly anyOf?: readonly unknown[] };
  if (anyOf !== undefined) return anyOf.map(renderSchemaName).join(" or ");
  if ($ref === undefined) return "JSON";
  const name = $ref.slice($ref.lastIndexOf("/") + 1);
  return `<a href="#${escape(name)}">${escape(name)}</a>`;
}

function renderSchema(schema: unknown): string {
  return `<pre>${escape(JSON.stringify(schema, null, 2))}</pre>`;
}
