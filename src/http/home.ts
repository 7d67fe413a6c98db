import { basePathOf, registriesOf } from "./aggregate.ts";
import { CATALOGUE_INSTRUMENTS, CATALOGUE_REGISTRIES } from "./catalogue.ts";
import { escape, type HtmlPage, renderPage } from "./html.ts";
import { isAggregate } from "./plain.ts";
import type { Runtime } from "./context.ts";

export const HOME = "/";
export const OPENAPI = "/openapi.json";
export const DOCS = "/docs";

/** What a gateway has, for those who know no more than its host. */
interface Home {
  readonly name: "registry-gateway";
  readonly docs?: string;
  readonly openapi?: string;
  readonly catalog?: { readonly registries: string; readonly instruments: string };
  readonly registries: readonly { readonly name: string; readonly basePath: string }[];
}

/** What `/` answers: names and paths, nothing that changes but with the configuration. */
export function describeHome(runtime: Runtime): Home {
  const catalog = { registries: CATALOGUE_REGISTRIES, instruments: CATALOGUE_INSTRUMENTS };
  return {
    name: "registry-gateway",
    ...(runtime.config.docs ? { docs: DOCS, openapi: OPENAPI } : {}),
    ...(isAggregate(runtime) ? { catalog } : {}),
    registries: registriesOf(runtime).map((registry) => ({
      name: registry.upstream.name,
      basePath: basePathOf(runtime, registry),
    })),
  };
}

/** The same for people. */
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
