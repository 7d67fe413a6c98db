import { createHash } from "node:crypto";
import type { ApiDocument } from "../spec/openapi.ts";

/** A page to read, complete in itself, and the policy under which a browser may show it. */
export interface HtmlPage {
  readonly html: string;
  readonly contentSecurityPolicy: string;
}

const STYLE = `
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 0.875rem/1.4 ui-monospace, monospace; }
pre { overflow: auto; background: var(--soft); padding: 0.75rem; border-radius: 0.25rem; }
section { border-top: 1px solid var(--line); margin-top: 1.5rem; padding-top: 0.5rem; }
h3 code { font-size: 1rem; } h3 b { text-transform: uppercase; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; vertical-align: top; padding: 0.25rem 0.75rem 0.25rem 0; }
`;

/** Nothing runs, nothing is loaded, and only the style above applies. */
const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash("sha256").update(STYLE).digest("base64")}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** A page without scripts and without anything from elsewhere. `title` is text, `body` is HTML. */
function renderPage(title: string, body: string): HtmlPage {
  const html = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escape(title)}</title><style>${STYLE}</style></head>
<body>${body}
</body></html>
`;
  return { html, contentSecurityPolicy: POLICY };
}

/** The fields of an answer that is such a page. */
export function pageFields({ contentSecurityPolicy }: HtmlPage): readonly string[] {
  return [
    "content-type",
    "text/html; charset=utf-8",
    "content-security-policy",
    contentSecurityPolicy,
    "referrer-policy",
    "no-referrer",
  ];
}

/** Text as it stands in HTML, in attributes too. */
function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}

/** What a gateway has, for a reader who knows no more than its host. */
export interface Home {
  readonly name: "registry-gateway";
  readonly docs?: string;
  readonly openapi?: string;
  readonly catalog?: { readonly registries: string; readonly instruments: string };
  readonly registries: readonly { readonly name: string; readonly basePath: string }[];
}

/** The page at `/`. */
export function renderHome({ docs, openapi, catalog, registries }: Home): HtmlPage {
  const pages = [
    [docs, "what this gateway answers"],
    [openapi, "the same as OpenAPI 3.1"],
    [catalog?.registries, "its registries: admins, health, supported APIs"],
    [catalog?.instruments, "the instruments of all registries, searchable"],
  ] as const;
  const links = pages.flatMap(([path, about]) => (path === undefined ? [] : [`<li>${link(path)}: ${about}</li>`]));
  const rows = registries.map(
    ({ name, basePath }) =>
      `<tr><td>${escape(name)}</td><td><code>${escape(basePath)}</code></td>` +
      `<td>${link(`${basePath}/registry/metadata/v1/info`, "info")}</td></tr>`,
  );
  return renderPage(
    "Registry Gateway",
    `<h1>Registry Gateway</h1>
<p>Token registries behind one address. Give a wallet the base URL of a registry: this host and the path below.</p>
<ul>${links.join("")}</ul>
<h2>Registries</h2>
<table><tr><th>Name<th>Base path<th></tr>${rows.join("\n")}</table>`,
  );
}

function link(path: string, text = path): string {
  return `<a href="${escape(path)}">${escape(text)}</a>`;
}

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
    const { name, in: where, description } = resolve(each, components);
    return `<tr><td><code>${escape(name)}</code></td><td>${escape(where)}</td><td>${escape(description)}</td></tr>`;
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
