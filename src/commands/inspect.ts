import { isObject, printable } from "../json.ts";
import { endpointPath, type EndpointName } from "../spec/operations.ts";
import { askTls } from "./certificates.ts";
import * as questions from "./questions.ts";
import { type Asked, askPage, fieldOf, type Finding, finding, nameOf, type RegistryClient } from "./questions.ts";
import { EXIT, print, printJson, sayFailure, tableLines } from "./terminal.ts";

type Findings = AsyncGenerator<Finding, void>;

/** `inspect URL`: prints what a registry is like; 1 where something breaks the standard. */
export async function inspect(url: string, { json }: { readonly json?: true }): Promise<number> {
  const client = new questions.RegistryClient(url);
  const findings: Finding[] = [];
  for await (const each of inspectRegistry(client)) findings.push(each);
  if (json === true) printJson({ url, isGateway: client.isGateway, findings });
  else print(tableLines(findings.map(({ about, severity, text }) => [about, severity, text])).join("\n"));
  return findings.some(({ severity }) => severity === "error") ? EXIT.failure : EXIT.ok;
}

/** Describes a registry for those who build wallets or registries, in some forty questions. Never throws. */
async function* inspectRegistry(client: RegistryClient): Findings {
  try {
    yield await askTls(client.url);
    const info = await questions.askInfo(client);
    if (typeof info === "string") return yield finding("error", "admin", info);
    const admin = printable(info.adminId);
    const isParty = /^[^\s/]+::1220[0-9a-f]{64}$/i.test(info.adminId.slice(0, 300));
    yield isParty ? finding("good", "admin", admin) : finding("warning", "admin", `${admin} is no party id`);
    if (client.isGateway) yield finding("note", "gateway", "a registry-gateway: some of what follows is its own");
    for (const ask of [askApis, askPages, askErrors, askFreshness, askCors]) yield* ask(client, info);
    yield* sayLoad(client);
  } catch (error) {
    yield finding("error", "answers", sayFailure(error));
  }
}

/** APIs, each with an endpoint that answers some way wherever it is served. */
const APIS: Readonly<Record<string, EndpointName>> = {
  "transfer-instruction-v1": "transfer_factory",
  "allocation-instruction-v1": "allocation_factory",
  "allocation-v1": "allocation_cancel",
  "transfer-instruction-v2": "transfer_factory_v2",
  "allocation-instruction-v2": "allocation_factory_v2",
  "allocation-v2": "settlement_factory_v2",
};
const JSON_TYPE = { "content-type": "application/json" };

async function* askApis(client: RegistryClient, { supportedApis }: questions.Info): Findings {
  yield finding("note", "APIs named", printable(Object.keys(supportedApis).join(", ") || "none", 2_000));
  const odd = Object.keys(supportedApis).filter((name) => supportedApis[name] !== 1);
  if (odd.length > 0) yield finding("warning", "APIs named", `clients count 1 alone: ${printable(odd.join())}`);
  const served: string[] = [];
  for (const [api, operation] of Object.entries(APIS)) {
    const isNamed = Object.hasOwn(supportedApis, `splice-api-token-${api}`);
    const path = endpointPath(operation, "00");
    const isServed = isServedBy(await client.ask(path, { method: "POST", fields: JSON_TYPE, body: "{}" }));
    if (isServed === true) served.push(api);
    if (isNamed && isServed === false) yield finding("error", "APIs served", `${api} is named, not served`);
    if (!isNamed && isServed === true) yield finding("warning", "APIs served", `${api} is served, not named`);
  }
  yield finding("note", "APIs served", served.join(", ") || "none");
}

/** A 404 in the registry's own words may be about the contract; undefined where it cannot be known. */
function isServedBy(asked: Asked): boolean | undefined {
  if (asked.status === 404) return isErrorBody(asked) && /not found\.?"/.test(asked.text);
  if (asked.status === 405 || asked.status === 501) return false;
  return asked.status >= 500 || asked.status === 429 ? undefined : true;
}

function isErrorBody({ json }: Asked): boolean {
  return isObject(json) && typeof json["error"] === "string";
}

const MOST_PAGES = 50;

async function* askPages(client: RegistryClient): Findings {
  yield await questions.askPageSize(client);
  const none = await client.ask(`${endpointPath("instruments")}?pageSize=0`);
  yield finding("note", "page size", `pageSize=0 is ${none.status === 200 ? "taken" : nameOf(none)}`);
  yield await walk(client);
}

/** Follows page tokens as clients do, and looks whether that ends. */
async function walk(client: RegistryClient): Promise<Finding> {
  const ids = new Set<string>();
  const tokens = new Set<string>();
  let listed = 0;
  for (let query = ""; ;) {
    const page = await askPage(client, query);
    if (typeof page === "string") return finding("error", "paging", `page ${tokens.size + 1} is ${page}`);
    for (const { id } of page.instruments) ids.add(id);
    listed += page.instruments.length;
    const token = page.nextPageToken ?? "";
    const text = `without pageSize ${ids.size} instruments in ${tokens.size + 1} pages`;
    if (token === "" && listed > ids.size)
      return finding("warning", "paging", `${text}, ${listed - ids.size} of them twice`);
    if (token === "") return finding("good", "paging", `${text}, to the end`);
    if (tokens.has(token)) return finding("error", "paging", `${text}, then a token comes back: it never ends`);
    if (tokens.size === MOST_PAGES) return finding("note", "paging", `${text}, and more`);
    tokens.add(token);
    query = `?pageToken=${encodeURIComponent(token)}`;
  }
}

async function* askErrors(client: RegistryClient): Findings {
  const unknown = await client.ask(endpointPath("instrument", "no-such-instrument"));
  const broken = await client.ask(endpointPath("transfer_factory"), { method: "POST", fields: JSON_TYPE, body: "{" });
  for (const [what, asked] of [
    ["an unknown instrument", unknown],
    ["a broken body", broken],
  ] as const) {
    const isGood = asked.status >= 400 && asked.status < 500 && isErrorBody(asked);
    const wanted = isGood ? "" : ', not 4xx with {"error": text}';
    yield finding(isGood ? "good" : "warning", "errors", `${what} is ${nameOf(asked)}${wanted}`);
  }
}

async function* askFreshness(client: RegistryClient): Findings {
  for (const operation of ["info", "instruments"] as const) {
    const asked = await client.ask(endpointPath(operation));
    const names = ["cache-control", "expires", "etag", "last-modified"].filter(
      (name) => asked.fields[name] !== undefined,
    );
    const said = names.map((name) => `${name}: ${fieldOf(asked, name)}`).join(", ");
    yield finding("note", "freshness", `${operation}: ${said || "says nothing"}`);
  }
}

async function* askCors(client: RegistryClient): Findings {
  const origin = "https://wallet.example";
  const allows = (asked: Asked): boolean => ["*", origin].includes(fieldOf(asked, "access-control-allow-origin") ?? "");
  const fields = { origin, "access-control-request-method": "POST", "access-control-request-headers": "content-type" };
  const preflight = await client.ask(endpointPath("transfer_factory"), { method: "OPTIONS", fields });
  const failed = await client.ask(endpointPath("instrument", "no-such-instrument"), { fields: { origin } });
  if (allows(preflight) && preflight.status < 300) yield finding("good", "CORS", "pages of other origins may call it");
  else yield finding("warning", "CORS", `a preflight is not granted: ${preflight.status}`);
  if (!allows(failed)) yield finding("warning", "CORS", "pages of other origins cannot read its errors");
}

async function* sayLoad({ times, refusals }: RegistryClient): Findings {
  const sorted = times.toSorted((one, other) => one - other).map(Math.round);
  const [median, slowest] = [sorted[sorted.length >> 1], sorted.at(-1)];
  yield finding("note", "latency", `median ${median} ms, slowest ${slowest} ms, of ${times.length} answers`);
  if (refusals.length === 0) return yield finding("note", "rate limit", "none was met");
  const after = refusals[0] === "" ? "without Retry-After" : `Retry-After: ${refusals[0]}`;
  yield finding("warning", "rate limit", `${refusals.length} of ${times.length} answers were 429, ${after}`);
}
