import { isDeepStrictEqual } from "node:util";
import { answerProblem } from "../../spec/schemas.ts";
import { type Inspected, LIST } from "./checks.ts";
import { type Finding, Findings, isJsonType, nameOf } from "./finding.ts";
import type { Asked, RegistryClient } from "./registry-client.ts";

/** Pages that are read at most. */
const MOST_PAGES = 30;

interface Page {
  readonly instruments: readonly Readonly<Record<string, unknown>>[];
  readonly nextPageToken?: string | null;
}

export async function checkPagination(client: RegistryClient, inspected: Inspected): Promise<readonly Finding[]> {
  const findings = new Findings("pagination", "token-metadata-v1.yaml: GET /registry/metadata/v1/instruments");
  const first = await client.ask(LIST);
  const wrong = first.status === 200 ? answerProblem("instruments", first.json) : `it answers ${nameOf(first)}`;
  if (wrong !== undefined) {
    findings.add("error", `this is no page of instruments: ${wrong}`);
    return findings.list;
  }
  if (!isJsonType(first))
    findings.add("error", `the listing is sent as ${first.headers.get("content-type") ?? "no type"}`);
  const page = first.json as Page;
  inspected.instruments = page.instruments;
  const hasMore = isToken(page.nextPageToken);
  findings.add(
    "note",
    `without pageSize a page has ${page.instruments.length} instruments${hasMore ? "" : ": all of them"}`,
  );
  await checkSizes(client, findings, hasMore);
  if (hasMore) await walk(client, findings, page);
  return findings.list;
}

async function checkSizes(client: RegistryClient, findings: Findings, hasMore: boolean): Promise<void> {
  const ask = (size: number) => client.ask(`${LIST}?pageSize=${size}`);
  const one = await ask(1);
  const count = countOf(one);
  if (one.status === 200 && count !== undefined && count > 1)
    findings.add("warning", `pageSize=1 is ignored: ${count} come`);
  else if (one.status !== 200) findings.add("error", `pageSize=1 is ${nameOf(one)}`);
  const large = await ask(1_000);
  if (large.status === 200) findings.add("good", `pageSize=1000 gives ${countOf(large) ?? 0}`);
  else findings.add("warning", `pageSize=1000 is ${nameOf(large)}: a client that asks for it reads nothing`);
  const larger = hasMore ? await ask(100_000) : undefined;
  if (larger !== undefined && larger.status !== 200) findings.add("note", `pageSize=100000 is ${larger.status}`);
  const none = await ask(0);
  findings.add("note", `pageSize=0 is ${none.status === 200 ? "taken as no size" : none.status}`);
}

/** Follows tokens as clients do, and looks whether that ends. */
async function walk(client: RegistryClient, findings: Findings, first: Page): Promise<void> {
  const ids = new Set(first.instruments.map(({ id }) => id));
  const tokens = new Set<string>();
  let page = first;
  let doubled = 0;
  for (let count = 1; isToken(page.nextPageToken); count += 1) {
    const token = page.nextPageToken;
    if (tokens.has(token))
      return findings.add("error", "a page token comes back: a client that follows tokens never ends");
    if (count === MOST_PAGES) return findings.add("note", `${ids.size} instruments in ${count} pages, and more`);
    tokens.add(token);
    const asked = await client.ask(`${LIST}?pageToken=${encodeURIComponent(token)}`);
    const wrong = asked.status === 200 ? answerProblem("instruments", asked.json) : nameOf(asked);
    if (wrong !== undefined)
      return findings.add("error", `page ${count + 1}, by the token of the one before, is wrong: ${wrong}`);
    page = asked.json as Page;
    if (page.instruments.length === 0 && isToken(page.nextPageToken))
      findings.add("warning", "an empty page has a token");
    for (const { id } of page.instruments) {
      if (ids.has(id)) doubled += 1;
      ids.add(id);
    }
  }
  if (doubled > 0) findings.add("error", `${doubled} instruments are on two pages`);
  findings.add("good", `${ids.size} instruments in ${tokens.size + 1} pages`);
}

export async function checkInstruments(
  client: RegistryClient,
  { instruments }: Inspected,
): Promise<readonly Finding[]> {
  const findings = new Findings(
    "instruments",
    "token-metadata-v1.yaml: GET /registry/metadata/v1/instruments/{instrumentId}",
  );
  // The awkward ones show most: a slash, a space, another script.
  const id = (instruments.find((each) => !/^[\w.-]+$/.test(String(each.id))) ?? instruments[0])?.id;
  if (typeof id !== "string") {
    findings.add("note", "it lists no instrument");
    return findings.list;
  }
  const asked = await client.ask(`${LIST}/${encodeURIComponent(id)}`);
  const wrong = asked.status === 200 ? answerProblem("instrument", asked.json) : nameOf(asked);
  if (wrong !== undefined) {
    findings.add("error", `${JSON.stringify(id)}, which it lists, is wrong alone: ${wrong}`);
    return findings.list;
  }
  const listed = instruments.find((each) => each.id === id)!;
  const differing = Object.keys(listed).filter(
    (name) => !name.startsWith("totalSupply") && !isDeepStrictEqual(listed[name], (asked.json as typeof listed)[name]),
  );
  if (differing.length > 0)
    findings.add("warning", `${JSON.stringify(id)} differs from its listing: ${differing.join(", ")}`);
  else findings.add("good", `${JSON.stringify(id)} alone is what the listing says`);
  const coarse = instruments.filter(({ decimals }) => typeof decimals === "number" && (decimals < 0 || decimals > 10));
  if (coarse.length > 0)
    findings.add("warning", `decimals are not from 0 to 10, as of ${JSON.stringify(coarse[0]!.id)}`);
  return findings.list;
}

function countOf({ json }: Asked): number | undefined {
  const { instruments } = (json ?? {}) as Partial<Page>;
  return Array.isArray(instruments) ? instruments.length : undefined;
}

function isToken(token: unknown): token is string {
  return typeof token === "string" && token !== "";
}
