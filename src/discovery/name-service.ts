import { normaliseNodeUrl } from "../config/urls.ts";
import { isObject, parseJson } from "../json.ts";
import { findListedUrlFault } from "./pin.ts";

/** What a server answered. */
export interface Answer {
  readonly status: number;
  readonly text: string;
}

/** What scans say where the registry of an admin is. */
export type Agreement =
  | { readonly urls: readonly string[] }
  /** Too few of them say the same; `problem` says what they do say. */
  | { readonly problem: string };

/** Both spellings are in use. */
const URL_KEYS = ["splice.lfdecentralizedtrust.org/registryUrls", "splice.lfdecentralizedtrust.org/registry-urls"];
const MAX_URLS = 64;

/** Where a scan has the name-service entry of a party. */
export function entryUrl(scan: string, party: string): string {
  return `${scan}/v0/ans-entries/by-party/${encodeURIComponent(party)}`;
}

/**
 * The registry URLs in a scan's answer, sorted; none where the party has no entry, or its entry names none.
 *
 * @throws Error when the answer says neither; the message is the rest of a sentence that begins with "it"
 */
export function readEntry({ status, text }: Answer): readonly string[] {
  if (status === 404 && isObject(parseJson(text))) return [];
  if (status !== 200) throw new Error(`answered ${status}`);
  const answer = parseJson(text);
  const entry = isObject(answer) ? answer.entry : undefined;
  if (!isObject(entry)) throw new Error("answered no name-service entry");
  const { description } = entry;
  // Entries of people hold text.
  const meta = typeof description === "string" ? metaOf(description) : {};
  const given = URL_KEYS.flatMap((key) => (typeof meta[key] === "string" ? meta[key].split(",") : []));
  return readRegistryUrls(given);
}

/** @throws Error for one that is no base URL; the message is the rest of a sentence that begins with "it" */
export function readRegistryUrls(given: readonly string[]): readonly string[] {
  const urls = given.map((url) => url.trim()).filter((url) => url !== "");
  const fault = urls.map(findListedUrlFault).find((each) => each !== undefined);
  if (fault !== undefined) throw new Error(`names a registry URL that ${fault}`);
  return [...new Set(urls.map(normaliseNodeUrl))].toSorted().slice(0, MAX_URLS);
}

/**
 * What `agree` of the scans say alike.
 *
 * @param answers of each scan: URLs, or undefined where it said nothing
 */
export function agreeOn(answers: readonly (readonly string[] | undefined)[], agree: number): Agreement {
  const counts = new Map<string, { count: number; urls: readonly string[] }>();
  for (const urls of answers) {
    if (urls === undefined) continue;
    const key = JSON.stringify(urls);
    const { count } = counts.get(key) ?? { count: 0 };
    counts.set(key, { count: count + 1, urls });
  }
  const winners = [...counts.values()].filter(({ count }) => count >= agree);
  const [winner] = winners;
  if (winners.length === 1) return { urls: winner!.urls };
  const silent = answers.filter((urls) => urls === undefined).length;
  const said = [...counts.values()].map(({ count }) => count).toSorted((one, other) => other - one);
  const groups = said.length === 0 ? "none of them answered" : `they say ${said.length} things (${said.join(" and ")})`;
  const rest = silent === 0 || said.length === 0 ? "" : `, and ${silent} did not answer`;
  return { problem: `${agree} of ${answers.length} scans have to say the same, and ${groups}${rest}` };
}

function metaOf(description: string): Readonly<Record<string, unknown>> {
  const json = parseJson(description);
  return isObject(json) && isObject(json.meta) ? json.meta : {};
}
