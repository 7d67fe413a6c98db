import { GatewayError } from "../errors.ts";
import { quote } from "../json.ts";
import { queryOf } from "./url.ts";

/**
 * The values of some query parameters, percent-encoded as they were sent; all else is dropped.
 *
 * @throws GatewayError 400 for one of them that is empty, given twice, or not percent-encoded UTF-8
 */
export function queryValues<Name extends string>(url: string, names: readonly Name[]): Partial<Record<Name, string>> {
  const values: Partial<Record<Name, string>> = {};
  const query = queryOf(url).slice(1);
  if (query === "") return values;
  for (const pair of query.split("&")) {
    const at = pair.indexOf("=");
    const raw = at === -1 ? pair : pair.slice(0, at);
    const name = names.find((each) => each === raw || each === formText(raw));
    if (name === undefined) continue;
    const value = at === -1 ? "" : pair.slice(at + 1);
    if (value === "") throw invalid(`${name} is empty; leave it out, or give it a value`);
    if (formText(value) === undefined) throw invalid(`${name} is not percent-encoded UTF-8`);
    if (values[name] !== undefined) throw invalid(`${name} is given twice; give it once`);
    values[name] = value;
  }
  return values;
}

/** The text that a value of a query stands for, as forms encode it; undefined where it is not well encoded. */
export function formText(value: string): string | undefined {
  try {
    return decodeURIComponent(value.replaceAll("+", " "));
  } catch {
    return undefined;
  }
}

/** The page of a listing that is asked for, in one way of writing: equal pages have equal texts. */
interface PageQuery {
  readonly pageSize?: string;
  /** Percent-encoded; a `+` stays what the client sent, for servers read it differently. */
  readonly pageToken?: string;
}

/** @throws GatewayError 400 as {@link queryValues} does, and for a size that is no integer from 1 to 2^31-1 */
export function pageQueryOf(url: string): PageQuery {
  if (!url.includes("?")) return {};
  const { pageSize, pageToken } = queryValues(url, ["pageSize", "pageToken"]);
  return {
    ...(pageSize !== undefined && { pageSize: sizeOf(formText(pageSize)!) }),
    ...(pageToken !== undefined && { pageToken: canonical(pageToken) }),
  };
}

function sizeOf(text: string): string {
  const size = /^[0-9]{1,10}$/.test(text) ? Number(text) : 0;
  if (size < 1 || size > 0x7fff_ffff)
    throw invalid(`pageSize must be an integer from 1 to 2147483647, not ${quote(text)}`);
  return String(size);
}

function canonical(token: string): string {
  return token
    .split("+")
    .map((part) => encodeURIComponent(decodeURIComponent(part)))
    .join("+");
}

/** Whether `?partial=true`: what is made of several registries does without those that fail. */
export function isPartial(url: string): boolean {
  if (!url.includes("?")) return false;
  const { partial } = queryValues(url, ["partial"]);
  if (partial === undefined || partial === "false") return false;
  if (partial === "true") return true;
  throw invalid("partial must be true or false");
}

function invalid(text: string): GatewayError {
  return new GatewayError("invalid_query", text);
}
