import { answerProblem } from "../../spec/schemas.ts";
import { type Finding, Findings, isErrorBody, isJsonType, nameOf } from "./finding.ts";
import type { Asked, RegistryClient } from "./registry-client.ts";

/** What later checks take from earlier ones. */
export interface Inspected {
  info?: { readonly adminId: string; readonly supportedApis: Readonly<Record<string, unknown>> };
  /** The path of a factory that it has. */
  factory?: string;
  /** Of the first page. */
  instruments: readonly Readonly<Record<string, unknown>>[];
}

export type Check = (client: RegistryClient, inspected: Inspected) => Promise<readonly Finding[]>;

export const INFO = "/registry/metadata/v1/info";
export const LIST = "/registry/metadata/v1/instruments";
const METADATA = "token-metadata-v1.yaml";

export async function checkInfo(client: RegistryClient, inspected: Inspected): Promise<readonly Finding[]> {
  const findings = new Findings("admin", `${METADATA}: GET ${INFO}`);
  const asked = await client.ask(INFO);
  const wrong = asked.status === 200 ? answerProblem("info", asked.json) : `it answers ${nameOf(asked)}`;
  if (wrong !== undefined) {
    findings.add("error", `this is no info of a registry: ${wrong}`);
    return findings.list;
  }
  if (!isJsonType(asked))
    findings.add("error", `the info is sent as ${asked.headers.get("content-type") ?? "no type"}`);
  inspected.info = asked.json as NonNullable<Inspected["info"]>;
  const { adminId } = inspected.info;
  findings.add("good", adminId);
  if (!/^[\w:\- ]+::1220[0-9a-f]{64}$/.test(adminId)) {
    findings.add(
      "warning",
      "the admin is no party id (name::1220 and 64 hex digits): wallets compare it with the ledger's",
    );
  }
  return findings.list;
}

/** The groups of calls, with a path that answers some way wherever the group is served. */
const GROUPS: readonly (readonly [api: string, path: string])[] = [
  ["transfer-instruction-v1", "transfer-instruction/v1/transfer-factory"],
  ["allocation-instruction-v1", "allocation-instruction/v1/allocation-factory"],
  ["allocation-v1", "allocations/v1/00/choice-contexts/cancel"],
  ["transfer-instruction-v2", "transfer-instruction/v2/transfer-factory"],
  ["allocation-instruction-v2", "allocation-instruction/v2/allocation-factory"],
  ["allocation-v2", "allocation/v2/settlement-factory"],
];

export async function checkVersions(client: RegistryClient, inspected: Inspected): Promise<readonly Finding[]> {
  const findings = new Findings("versions", `${METADATA}: GetRegistryInfoResponse.supportedApis`);
  const apis = inspected.info?.supportedApis ?? {};
  const names = Object.keys(apis);
  findings.add(
    names.length === 0 ? "warning" : "good",
    names.length === 0 ? "supportedApis names no API" : names.join(", "),
  );
  for (const [name, version] of Object.entries(apis)) {
    if (version === 1) continue;
    findings.add(
      "warning",
      `${name} is ${JSON.stringify(version)}: the official client counts a capability only when its number is exactly 1`,
    );
  }
  for (const [api, path] of GROUPS) {
    const name = `splice-api-token-${api}`;
    const isServed = isServedBy(
      await client.ask(`/registry/${path}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: "{}",
      }),
    );
    const isNamed = Object.hasOwn(apis, name);
    if (path.endsWith("-factory") && (isServed ?? isNamed)) inspected.factory ??= `/registry/${path}`;
    if (isNamed && isServed === false) findings.add("error", `${name} is named, and /registry/${path} is 404`);
    if (!isNamed && isServed === true) {
      findings.add("warning", `${name} is served and not named: clients that look will not use it`);
    }
  }
  return findings.list;
}

/** A 404 in the registry's own words may be about the contract; undefined where that cannot be known. */
function isServedBy(asked: Asked): boolean | undefined {
  if (asked.status === 405 || asked.status === 501) return false;
  if (asked.status !== 404) return asked.status < 500 && asked.status !== 429 ? true : undefined;
  return isErrorBody(asked) && /contract|instruction|allocation/i.test(asked.text) ? undefined : false;
}

/** Often the words of a framework: no client asks for it. */
const UNKNOWN_PATH = "a path that there is not";

export async function checkErrors(client: RegistryClient, { factory }: Inspected): Promise<readonly Finding[]> {
  const findings = new Findings("errors", `${METADATA}: ErrorResponse.error`);
  const json = { "content-type": "application/json" };
  const cases: [what: string, expected: readonly number[], asked: Asked][] = [
    ["an unknown instrument", [404], await client.ask(`${LIST}/no-such-instrument-here`)],
    [UNKNOWN_PATH, [404], await client.ask("/registry/metadata/v1/no-such-path")],
  ];
  if (factory !== undefined) {
    const asked = await client.ask(factory, { method: "POST", headers: json, body: "{" });
    cases.push(["a body that is no JSON", [400, 415, 422], asked]);
  }
  for (const [what, expected, asked] of cases) {
    if (asked.status === 429) continue;
    const isPath = what === UNKNOWN_PATH;
    if (!expected.includes(asked.status)) {
      findings.add("error", `${what} is ${nameOf(asked)}, not ${expected.join(" or ")}`);
    } else if (!isErrorBody(asked)) {
      findings.add(isPath ? "note" : "warning", `${what} is ${nameOf(asked)}, without {"error": text}`);
    }
  }
  if (findings.list.every(({ severity }) => severity === "note")) {
    findings.add("good", 'errors are JSON, {"error": text}');
  }
  return findings.list;
}

export async function checkFreshness(client: RegistryClient): Promise<readonly Finding[]> {
  const findings = new Findings("freshness", "RFC 9111 §5.2.2, RFC 9110 §13.1");
  for (const [name, path] of [
    ["info", INFO],
    ["listing", LIST],
  ] as const) {
    const { headers } = await client.ask(path);
    const control = headers.get("cache-control") ?? headers.get("expires");
    const tag = headers.get("etag");
    const modified = headers.get("last-modified");
    findings.add(
      "note",
      control === null ? `the ${name} says nothing of how long it is fresh` : `the ${name}: ${control}`,
    );
    if (tag === null && modified === null) {
      findings.add("note", `the ${name} has no ETag and no Last-Modified: each refresh reads all of it`);
      continue;
    }
    const asks = tag === null ? { "if-modified-since": modified! } : { "if-none-match": tag };
    const { status } = await client.ask(path, { headers: asks });
    if (status === 304) findings.add("good", `the ${name} answers 304 to its own ${tag === null ? "date" : "tag"}`);
    else findings.add("warning", `the ${name} has a validator and answers ${status} to it, not 304`);
  }
  return findings.list;
}

export async function checkCors(client: RegistryClient, { factory }: Inspected): Promise<readonly Finding[]> {
  const findings = new Findings("CORS", "Fetch §3.2: wallets in browsers call registries directly");
  const origin = "https://wallet.example";
  const asks = { origin, "access-control-request-method": "POST", "access-control-request-headers": "content-type" };
  const plain = await client.ask(INFO, { headers: { origin } });
  const failed = await client.ask(`${LIST}/no-such-instrument-here`, { headers: { origin } });
  const isAllowed = ({ headers }: Asked) => ["*", origin].includes(headers.get("access-control-allow-origin") ?? "");
  if (!isAllowed(plain)) {
    findings.add("warning", "pages of other origins cannot read its answers");
    return findings.list;
  }
  if (factory === undefined) {
    findings.add("good", "pages of any origin may read it");
  } else {
    const preflight = await client.ask(factory, { method: "OPTIONS", headers: asks });
    const allowed = preflight.headers.get("access-control-allow-headers") ?? "";
    const isGranted = isAllowed(preflight) && preflight.status < 300 && /\*|content-type/i.test(allowed);
    if (isGranted) findings.add("good", "pages of any origin may call it");
    else findings.add("warning", `a preflight for a POST with content-type is not granted (${preflight.status})`);
  }
  if (!isAllowed(failed)) findings.add("warning", "pages cannot read its errors: they see a network failure");
  return findings.list;
}
