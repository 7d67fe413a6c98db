import { CLIENT_ERRORS } from "../errors.ts";
import type { ApiDocument } from "../spec/openapi.ts";
import { escape, type Home, type HtmlPage, renderPage } from "./html.ts";

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
