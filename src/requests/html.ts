import { createHash } from "node:crypto";
import { CLIENT_ERRORS } from "../errors.ts";
import type { ApiDocument } from "../spec/openapi.ts";

/** A page to read, complete in itself, and the policy under which a browser may show it. */
export interface HtmlPage {
  readonly html: string;
  readonly contentSecurityPolicy: string;
}

const STYLE = `
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 0.875rem/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
pre { overflow: auto; background: var(--soft); padding: 0.75rem; border-radius: 0.25rem; }
section { border-top: 1px solid var(--line); margin-top: 1.5rem; padding-top: 0.5rem; }
h3 code { font-size: 1rem; } h3 b { text-transform: uppercase; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; vertical-align: top; padding: 0.25rem 0.75rem 0.25rem 0; }
@media (max-width: 40rem) { .list :is(tr, td) { display: block; } .list tr { padding: 0.5rem 0; } .list td { padding: 0; } .list th { display: none; } }
`;

const STYLE_DIGEST = `'sha256-${createHash("sha256").update(STYLE).digest("base64")}'`;

/** Nothing runs, nothing is loaded, and only the style above applies. */
const NOTHING_LOADED = { head: "", policy: ["style-src"] };

/**
 * A page with nothing from elsewhere. `title` is text, `body` is HTML.
 *
 * @param loaded what it loads from here, and what allows that
 */
function renderPage(title: string, body: string, { head, policy } = NOTHING_LOADED): HtmlPage {
  const html = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escape(title)}</title><style>${STYLE}</style>${head}</head>
<body>${body}
</body></html>
`;
  const allowed = policy.map((each) => (each.startsWith("style-src") ? `${each} ${STYLE_DIGEST}` : each));
  const ends = ["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"];
  return { html, contentSecurityPolicy: ["default-src 'none'", ...allowed, ...ends].join("; ") };
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
  readonly catalog?: { readonly registries: string; readonly instruments: string; readonly changes: string };
  readonly registries: readonly {
    readonly name: string;
    /** Null while it is not known yet. */
    readonly admin: string | null;
    readonly basePath: string;
  }[];
}

/** The page at `/`. */
export function renderHome({ docs, openapi, catalog, registries }: Home): HtmlPage {
  const pages = [
    [docs, "what this gateway answers"],
    [openapi, "the same as OpenAPI 3.1"],
    [catalog?.registries, "its registries: admins, health, supported APIs"],
    [catalog?.instruments, "the instruments of all registries, searchable"],
    // A browser would show a stream without an end.
    [catalog && `${catalog.changes}?since=`, "what changes, since an id or as it comes"],
  ] as const;
  const links = pages.flatMap(([path, about]) => (path === undefined ? [] : [`<li>${link(path)}: ${about}</li>`]));
  const rows = registries.map(
    ({ name, admin, basePath }) =>
      `<tr><td>${escape(name)}</td><td><code>${escape(admin ?? "not known yet")}</code></td>` +
      `<td><code>${escape(basePath)}</code></td>` +
      `<td>${link(`${basePath}/registry/metadata/v1/info`, "info")}</td></tr>`,
  );
  return renderPage(
    "Registry Gateway",
    `<h1>Registry Gateway</h1>
<p>Token registries behind one address. Give a wallet the base URL of a registry: this host and the path below.</p>
<ul>${links.join("")}</ul>
<h2>Registries</h2>
<table class="list"><tr><th>Name<th>Admin<th>Base path<th></tr>${rows.join("\n")}</table>`,
  );
}

function link(path: string, text = path): string {
  return `<a href="${escape(path)}">${escape(text)}</a>`;
}

/** What Swagger UI is shown with: the two files that the build makes, and nothing else runs or styles. */
const VIEWER = {
  head: '<link rel="icon" href="data:,"><link rel="stylesheet" href="docs/viewer.css"><script type="module" src="docs/viewer.js"></script>',
  policy: ["script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'"],
};

/** Shows the API's description by Swagger UI, with the registries of this gateway, to developers of wallets. */
export function renderDocs({ info }: Pick<ApiDocument, "info">, registries: Home["registries"]): HtmlPage {
  const base = registries[0]?.basePath ?? "";
  return renderPage(
    info.title,
    `<h1>${escape(info.title)} ${escape(info.version)}</h1>
<p>The description of the API below as OpenAPI 3.1: <a href="openapi.json">/openapi.json</a>. <a href="#errors">Errors by code</a></p>
<h2 id="registries">Registries</h2>
${registries.map(renderRegistry).join("")}
<h2 id="client">A client</h2>
<p>The official client, <code>@canton-network/core-token-standard</code>, takes a base URL as it is; <code>GATEWAY</code> stands for this page's host:</p>
<pre>const registry = new TokenStandardClient(\`\${GATEWAY}${escape(base)}\`, logger, accessTokenProvider);</pre>
<p>A wallet that knows several registries by one base URL names the admin in the header of each request.</p>
<h2 id="versions">Two versions</h2>
<p>Prefer version 2 of a path where <code>supportedApis</code> of the registry's info names it, and fall back to version 1
on <b>404</b>: a registry without version 2 is answered so, whatever its own web server says. <b>409</b> says that a contract
is on its way to another synchronizer: ask again in some seconds, of the same registry. Both are the registry's own answers,
and come with its words. A contract id is known in both versions.</p>
<h2>The API</h2>
<div id="viewer"><p>Without scripts, <a href="openapi.json">/openapi.json</a> has it.</p></div>
<h2 id="errors">Errors</h2>
<p>Every error of this gateway is <code>{"error": "registry-gateway: …", "code": "…", "requestId": "…"}</code>: a sentence
for people, a code for programs, and an id for the gateway's operator. The field
<code>Registry-Gateway-Error</code> has its code, which does not change. An error without it is the registry's own, in the
registry's words: a 4xx is about the request, a 429 or 5xx may pass.</p>
${renderErrors()}`,
    VIEWER,
  );
}

function renderRegistry({ name, admin, basePath }: Home["registries"][number]): string {
  const shown = admin === null ? "not known yet" : copied(admin);
  return `<section class="registry"><h3>${escape(name)}</h3><p>Admin: ${shown}</p><p>Base URL, below this page's host: ${copied(basePath)}</p></section>
`;
}

/** The button is shown by the script that gives it its work. */
function copied(text: string): string {
  return `<code>${escape(text)}</code><button class="copy" type="button" hidden aria-label="Copy ${escape(text)}">Copy</button>`;
}

function renderErrors(): string {
  const rows = Object.entries(CLIENT_ERRORS)
    .filter(([code]) => code !== "client_gone")
    .map(
      ([code, { status, means, remedy }]) =>
        `<tr id="${code}"><td><code>${code}</code></td><td>${status}</td><td>${escape(means)}</td><td>${escape(remedy)}</td></tr>`,
    );
  return `<table class="list"><tr><th>Code<th>Status<th>Meaning<th>What to do</tr>${rows.join("")}</table>`;
}
