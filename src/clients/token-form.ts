import { readUnrepeatedObject } from "../json.ts";

/** Characters of the longest token. */
const MAX_TOKEN = 8 * 1024;

/** Characters of the longest `kid`: it is only looked up. */
const MAX_KEY_ID = 512;

/** `typ` of tokens that say who calls (RFC 7519 §5.1, RFC 9068 §2.1). Others mean something else: a logout, a proof. */
const TYPES: ReadonlySet<string> = new Set(["jwt", "at+jwt", "application/jwt", "application/at+jwt"]);

/**
 * Header parameters that change what the rest means: extensions that must be understood and payloads that are not what
 * they look like (RFC 7515 §4.1.11, RFC 7797), compression, encryption and tokens in tokens (RFC 7516, RFC 7519 §5.2).
 */
const REFUSED = ["crit", "b64", "zip", "enc", "cty"];

/** A token that is well formed. Nothing of it is verified. */
export interface TokenForm {
  readonly algorithm: string;
  readonly keyId: string | undefined;
  readonly issuer: string;
  readonly claims: Readonly<Record<string, unknown>>;
}

/**
 * Reads a JSON Web Token in its compact form (RFC 7515 §7.1, RFC 7519 §7.2). There must be one way to read it: three parts
 * in the one base64url each has, header and claims as JSON objects without repeated keys. What a header says of keys
 * (`jwk`, `jku`, `x5u`, `x5c`) is not looked at.
 *
 * @returns undefined where the text is something else
 */
export function readToken(token: string): TokenForm | undefined {
  if (token.length > MAX_TOKEN) return undefined;
  const parts = token.split(".");
  if (parts.length !== 3) return undefined;
  const [header, payload, signature] = parts.map(decodePart);
  if (header === undefined || payload === undefined || signature === undefined) return undefined;
  const parameters = readHeader(header);
  const claims = parameters === undefined ? undefined : readUnrepeatedObject(payload);
  if (parameters === undefined || claims === undefined || typeof claims["iss"] !== "string") return undefined;
  return { ...parameters, issuer: claims["iss"], claims };
}

/** The issuer that a token names, however long it is, and however badly formed otherwise. */
export function issuerOf(token: string): string | undefined {
  const payload = token.split(".", 2)[1];
  const issuer = payload === undefined ? undefined : readUnrepeatedObject(Buffer.from(payload, "base64url"))?.["iss"];
  return typeof issuer === "string" ? issuer : undefined;
}

function decodePart(part: string): Buffer | undefined {
  const bytes = Buffer.from(part, "base64url");
  // Node reads padding, white space, both alphabets and bits beyond the last byte: only one writing is accepted.
  return bytes.length > 0 && bytes.toString("base64url") === part ? bytes : undefined;
}

function readHeader(bytes: Buffer): Pick<TokenForm, "algorithm" | "keyId"> | undefined {
  const header = readUnrepeatedObject(bytes);
  if (header === undefined || REFUSED.some((name) => Object.hasOwn(header, name))) return undefined;
  const { alg, kid, typ } = header;
  if (typeof alg !== "string") return undefined;
  if (kid !== undefined && (typeof kid !== "string" || kid.length > MAX_KEY_ID)) return undefined;
  if (typ !== undefined && (typeof typ !== "string" || !TYPES.has(typ.toLowerCase()))) return undefined;
  return { algorithm: alg, keyId: kid };
}
