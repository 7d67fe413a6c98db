import type { IncomingMessage } from "node:http";
import { GatewayError } from "../errors.ts";

/** How every API key begins. */
const KEY_PREFIX = "rgk_";

/** Characters: a token may be as long, a key is much shorter. */
const MAX_CREDENTIAL = 8 * 1024;

/** A key wherever it stands in a text. */
const KEY_ANYWHERE = /rgk_[A-Za-z0-9_-]{43}_[0-9A-Fa-f]{8}/;

/** Query parameters by which other APIs take keys and tokens (RFC 6750 §2.3). */
const QUERY_NAMES: ReadonlySet<string> = new Set(["api_key", "apikey", "api-key", "x-api-key", "access_token"]);

/** RFC 6750 §2.1; a scheme is read without regard to case (RFC 9110 §11.1). */
const BEARER = /^bearer(?: +|(?=\t)|$)/i;
const TOKEN = /^[A-Za-z0-9._~+/-]+=*$/;

// Made once: they say nothing of a request, and a flood of bad credentials is to cost little.
const MISSING = new GatewayError(
  "credential_missing",
  "this gateway serves known clients alone: send an API key in the header x-api-key, or a token as " +
    "authorization: Bearer TOKEN; its operator gives them out",
);
const MISSING_BESIDE = new GatewayError(
  "credential_missing",
  "this gateway serves known clients alone, and the header authorization shows no key or token of this gateway, but " +
    "perhaps one of a ledger or registry: send an API key in the header x-api-key beside it; the gateway's operator gives " +
    "them out",
);
const IN_URL = new GatewayError(
  "credential_invalid",
  "API keys and tokens do not belong in URLs, which end up in logs: send yours in the header x-api-key or " +
    "authorization, and have this one replaced",
);
const MALFORMED = new GatewayError(
  "credential_invalid",
  "the header x-api-key or authorization holds no API key and no token: send exactly one, without quotes and spaces",
);
const TOO_LONG = new GatewayError("credential_invalid", "the token is longer than 8 KiB: get one with fewer claims");
const TWICE = new GatewayError(
  "credentials_differ",
  "the request shows credentials that differ: send one API key or token, in x-api-key or in authorization, once",
);

/** What distinguishes the gateway's own credentials from those of ledgers and registries. */
export interface CredentialRules {
  /** Whether a token says that it is of an issuer whose tokens name clients here. */
  isOurToken(token: string): boolean;
}

/** What of a request may carry a credential. */
type CarryingRequest = Pick<IncomingMessage, "headers" | "rawHeaders">;

/** Whether a credential is an API key, or wants to be one. */
export function looksLikeKey(credential: string): boolean {
  return credential.startsWith(KEY_PREFIX);
}

/**
 * The 401 for a request without a credential of ours where one is needed.
 *
 * @param showsOther it shows another one
 */
export function credentialMissing(showsOther: boolean): GatewayError {
  return showsOther ? MISSING_BESIDE : MISSING;
}

/** The 401 for credentials that name different clients. */
export function credentialsDiffer(): GatewayError {
  return TWICE;
}

/**
 * Takes the key or token out of a request: it is read from `X-API-Key` and `Authorization: Bearer`, and what was read is
 * gone from the header fields, so that no registry, cache key or log line can get it. `X-API-Key` is for ours alone.
 * `Authorization` holds ours where it has the form of our keys, or is a token of one of our issuers; wallets send their
 * ledger's token to every registry, which names nobody here and stays where it is. Names are compared as they were sent:
 * `X_API_Key` is another header. Trailers are not looked at.
 *
 * @returns the credential, undefined where there is none of ours, or the 401 for one that could be read in two ways
 */
export function takeCredential(request: CarryingRequest, rules: CredentialRules): string | undefined | GatewayError {
  const { headers } = request;
  const isInKeyHeader = headers["x-api-key"] !== undefined;
  if (!isInKeyHeader && headers.authorization === undefined) return undefined;
  const key = isInKeyHeader ? keyIn(request) : undefined;
  if (key instanceof GatewayError) return key;
  const bearer = headers.authorization === undefined ? undefined : bearerIn(request, rules);
  if (bearer instanceof GatewayError) return bearer;
  if (key !== undefined && bearer !== undefined && key !== bearer) return TWICE;
  headers["x-api-key"] = undefined;
  if (bearer !== undefined) headers.authorization = undefined;
  return key ?? bearer;
}

function keyIn({ headers, rawHeaders }: CarryingRequest): string | GatewayError {
  // Node joins the lines of one name.
  const text = headers["x-api-key"] as string;
  const value = text.includes(",") ? onlyValue(rawHeaders, "x-api-key") : text;
  if (value === undefined) return TWICE;
  if (value.length > MAX_CREDENTIAL) return TOO_LONG;
  return TOKEN.test(value) ? value : MALFORMED;
}

/** The key or token of ours; undefined for any other credential, which is for registries. One of ours is never for them. */
function bearerIn({ rawHeaders }: CarryingRequest, rules: CredentialRules): string | undefined | GatewayError {
  // Of several lines Node keeps the first alone.
  const value = onlyValue(rawHeaders, "authorization");
  if (value === undefined) return TWICE;
  const text = BEARER.test(value) ? value.replace(BEARER, "") : undefined;
  if (text !== undefined && TOKEN.test(text) && (looksLikeKey(text) || rules.isOurToken(text))) {
    return text.length > MAX_CREDENTIAL ? TOO_LONG : text;
  }
  return looksLikeKey(text ?? value) || shows(value, rules) || shows(unpacked(value), rules) ? MALFORMED : undefined;
}

/** The value of all lines of the name; undefined where they differ. */
function onlyValue(rawHeaders: readonly string[], name: string): string | undefined {
  let value: string | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]!.length !== name.length || rawHeaders[i]!.toLowerCase() !== name) continue;
    if (value !== undefined && value !== rawHeaders[i + 1]!) return undefined;
    value = rawHeaders[i + 1]!;
  }
  return value;
}

/** What may be a token, wherever it stands in a text. Looked for at the beginnings of words alone: else its time is quadratic. */
const TOKEN_ANYWHERE = /(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]*/g;
/** Texts that are looked at; nobody sends more by accident. */
const MOST_LOOKED_AT = 4;

/** Whether a text holds a key, or a token of an issuer whose tokens name clients here. */
function shows(text: string, rules: CredentialRules): boolean {
  if (KEY_ANYWHERE.test(text)) return true;
  return (text.match(TOKEN_ANYWHERE) ?? []).slice(0, MOST_LOOKED_AT).some((each) => rules.isOurToken(each));
}

/** What the scheme Basic holds (RFC 7617). */
function unpacked(value: string): string {
  const packed = /^basic +([A-Za-z0-9+/_=-]+)$/i.exec(value)?.[1] ?? "";
  return Buffer.from(packed, "base64").toString("latin1");
}

/** Times that a URL is decoded to look into it: what is encoded more often is nothing that a registry would read. */
const MOST_DECODINGS = 3;

/** The 401 for a URL that shows a key or a token, as it is or percent-encoded. */
export function credentialInUrl(url: string, rules: CredentialRules): GatewayError | undefined {
  const mark = url.indexOf("?");
  let text = url;
  for (let i = 0; i <= MOST_DECODINGS; i += 1) {
    if (shows(text, rules)) return IN_URL;
    if (!text.includes("%")) break;
    text = decoded(text);
  }
  if (mark === -1) return undefined;
  for (const pair of url.slice(mark + 1).split("&")) {
    const at = pair.indexOf("=");
    const name = decoded(at === -1 ? pair : pair.slice(0, at)).toLowerCase();
    if (QUERY_NAMES.has(name) || (at !== -1 && looksLikeKey(decoded(pair.slice(at + 1))))) return IN_URL;
  }
  return undefined;
}

function decoded(text: string): string {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    // A part that cannot be decoded hides none that can.
    return text.replaceAll(/%[0-7][0-9A-Fa-f]/g, (each) => String.fromCharCode(Number.parseInt(each.slice(1), 16)));
  }
}
