import { CLIENT_ERRORS } from "../errors.ts";
import type { ApiDocument } from "../spec/openapi.ts";
import { escape, type Home, type HtmlPage, renderPage } from "./html.ts";

interface Shown {
  readonly operationId: string;
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

type Content = Readonly<
  Record<
    string,
    {
      readonly schema?: unknown;
      readonly example?: unknown;
      readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
    }
  >
>;

type Components = ApiDocument["components"];

const METHODS = ["get", "post"];

/** Renders the API's description, with what this gateway has, for who writes a wallet. */
export function renderDocs(document: ApiDocument, registries: Home["registries"]): HtmlPage {
  const { info, paths, components } = document;
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method] !== undefined).map((method) => ({
      method,
      path,
      operation: item[method] as Shown,
    })),
  );
  const base = registries[0]?.basePath ?? "";
  const schemas = Object.entries(components.schemas).map(
    ([name, schema]) => `<section id="${escape(name)}"><h3>${escape(name)}</h3>${renderJson(schema)}</section>`,
  );
  return renderPage(
    info.title,
    `<h1>${escape(info.title)} ${escape(info.version)}</h1>
<p>${escape(info.description)}</p>
<p>As OpenAPI 3.1: <a href="/openapi.json">/openapi.json</a></p>
<nav><h2>Contents</h2>
<ul>${CHAPTERS.map(([id, title]) => `<li><a href="#${id}">${title}</a></li>`).join("")}</ul></nav>
<h2 id="registries">Registries</h2>
${renderRegistries(registries)}
<h2 id="client">A client</h2>
<p>The official client, <code>@canton-network/core-token-standard</code>, takes a base URL as it is; <code>GATEWAY</code> stands for this page's host, here and in every line below:</p>
<pre>const registry = new TokenStandardClient(\`\${GATEWAY}${escape(base)}\`, logger, accessTokenProvider);</pre>
<p>A wallet that knows several registries by one base URL names the admin in the header of each request.</p>
<h2 id="versions">Two versions</h2>
<p>Prefer version 2 of a path where <code>supportedApis</code> of the registry's info names it, and fall back to version 1
on <b>404</b>: a registry without version 2 is answered so, whatever its own web server says. <b>409</b> says that a contract
is on its way to another synchronizer: ask again in some seconds, of the same registry. Both are the registry's own answers,
and come with its words. A contract id is known in both versions.</p>
<h2 id="request-headers">Header fields of requests</h2>
${renderRequestHeaders(operations, components)}
<h2 id="headers">Header fields of answers</h2>
${renderHeaders(components.headers)}
<h2 id="operations">Operations</h2>
<ul>${operations.map(({ operation }) => `<li><a href="#${escape(operation.operationId)}">${escape(operation.operationId)}</a>: ${escape(operation.summary)}</li>`).join("")}</ul>
${operations.map((each) => renderOperation(each, components, base)).join("\n")}
<h2 id="errors">Errors</h2>
<p>Every error of this gateway is <code>{"error": "registry-gateway: …", "code": "…", "requestId": "…"}</code>: a sentence
for people, a code for programs, and an id for the gateway's operator. The field
<code>Registry-Gateway-Error</code> has its code, which does not change. An error without it is the registry's own, in the
registry's words: a 4xx is about the request, a 429 or 5xx may pass.</p>
${renderErrors()}
<h2 id="schemas">Schemas</h2>
${schemas.join("\n")}`,
  );
}

const CHAPTERS = [
  ["registries", "Registries of this gateway"],
  ["client", "A client"],
  ["versions", "Two versions of the standard"],
  ["request-headers", "Header fields of requests"],
  ["headers", "Header fields of answers"],
  ["operations", "Operations"],
  ["errors", "Errors"],
  ["schemas", "Schemas"],
] as const;

function renderRegistries(registries: Home["registries"]): string {
  const rows = registries.map(
    ({ name, admin, basePath }) =>
      `<tr><td>${escape(name)}</td><td><code>${escape(admin ?? "not known yet")}</code></td>` +
      `<td><code>${escape(basePath)}</code></td></tr>`,
  );
  return `<table><tr><th>Name<th>Admin<th>Base URL, below this page's host</tr>${rows.join("")}</table>`;
}

function renderHeaders(headers: Components["headers"]): string {
  const rows = Object.entries(headers).map(([name, each]) => {
    const { description, example } = each as { readonly description: string; readonly example: string | number };
    return `<tr><td><code>${escape(name)}</code></td><td>${escape(description)}</td><td><code>${escape(String(example))}</code></td></tr>`;
  });
  return `<table><tr><th>Field<th>Meaning<th>Example</tr>${rows.join("")}</table>`;
}

/** Those that any operation takes. */
function renderRequestHeaders(operations: readonly Place[], components: Components): string {
  const fields = new Map<string, string>();
  for (const { operation } of operations) {
    for (const each of operation.parameters) {
      const { name, in: where, description } = resolve(each, components);
      if (where === "header") fields.set(name, description);
    }
  }
  const rows = [...fields].map(
    ([name, description]) => `<tr><td><code>${escape(name)}</code></td><td>${escape(description)}</td></tr>`,
  );
  return `<table><tr><th>Field<th>Meaning</tr>${rows.join("")}</table>`;
}

function renderErrors(): string {
  const rows = Object.entries(CLIENT_ERRORS)
    .filter(([code]) => code !== "client_gone")
    .map(
      ([code, { status, means, remedy }]) =>
        `<tr id="${code}"><td><code>${code}</code></td><td>${status}</td><td>${escape(means)}</td><td>${escape(remedy)}</td></tr>`,
    );
  return `<table><tr><th>Code<th>Status<th>Meaning<th>What to do</tr>${rows.join("")}</table>`;
}

interface Place {
  readonly method: string;
  readonly path: string;
  readonly operation: Shown;
}

function renderOperation({ method, path, operation }: Place, components: Components, base: string): string {
  const { operationId, summary, description, requestBody } = operation;
  const parameters = operation.parameters.map((each) => {
    const { name, in: where, description } = resolve(each, components);
    return `<tr><td><code>${escape(name)}</code></td><td>${escape(where)}</td><td>${escape(description)}</td></tr>`;
  });
  const answers = Object.entries(operation.responses).map(([status, each]) => {
    const { description, headers = {}, content = {} } = resolve(each, components);
    const fields = Object.keys(headers).map((name) => `<code>${escape(name)}</code>`);
    return `<tr><td><code>${escape(status)}</code></td><td>${escape(description)}</td><td>${renderContent(content)}</td><td>${fields.join(" ")}</td></tr>`;
  });
  return `<section id="${escape(operationId)}"><h3><b>${method}</b> <code>${escape(path)}</code></h3><p>${escape(summary)}.</p>
${description === undefined ? "" : `<p>${escape(description)}</p>`}
<table><tr><th>Parameter<th>In<th>Meaning</tr>${parameters.join("")}</table>
${requestBody === undefined ? "" : `<p>Body: ${renderContent(requestBody.content)}</p>`}
<table><tr><th>Status<th>Meaning<th>Body<th>Header fields</tr>${answers.join("")}</table>
${renderExample({ method, path, operation }, base)}</section>`;
}

/** What to copy, and what comes of it; nothing for an operation without an example. */
function renderExample({ method, path, operation }: Place, base: string): string {
  const { requestBody, responses } = operation;
  const ok = responses["200"] as ShownResponse | undefined;
  const shown = Object.entries(ok?.content?.["application/json"]?.examples ?? {});
  const body = requestBody?.content["application/json"]?.example;
  if (shown.length === 0) return "";
  const url = `$GATEWAY${path.startsWith("/registry/") ? base : ""}${path.replace(/\{\w+Id\}/, EXAMPLE_IDS[operation.operationId] ?? "CONTRACT-ID")}`;
  const data = body === undefined ? "" : ` \\\n  -H 'content-type: application/json' -d '${JSON.stringify(body)}'`;
  const line = `curl -s${method === "post" ? " -X POST" : ""} "${url}"${data}`;
  const answers = shown.map(
    ([name, { value }]) => `<p>Answer (${escape(name.replaceAll("-", " "))}):</p>${renderJson(value)}`,
  );
  return `<details><summary>Example</summary><pre>${escape(line)}</pre>${answers.join("")}</details>`;
}

const EXAMPLE_IDS: Readonly<Record<string, string>> = { instrument: "Amulet" };

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

function renderJson(json: unknown): string {
  return `<pre>${escape(JSON.stringify(json, null, 2))}</pre>`;
}
