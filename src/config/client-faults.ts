import { isIPv4, isIPv6 } from "node:net";
import { isObject, parseJson } from "../json.ts";
import { suggest } from "./problem.ts";

// Why a text of `clients`, `listen.trustedProxies` or a keys file is not of its form, as the rest of a sentence that begins with it;
// undefined when it is good.

/** An address, or a range of them (RFC 4632, RFC 4291 §2.3). */
export function findCidrFault(text: string): string | undefined {
  const [address = "", length, ...rest] = text.split("/");
  const longest = isIPv4(address) ? 32 : isIPv6(address) && !address.includes("%") ? 128 : undefined;
  if (longest === undefined || rest.length > 0) return "is not an address or a range such as 10.0.0.0/8 or fd00::/8";
  if (length === undefined) return undefined;
  const isLength = /^(0|[1-9][0-9]{0,2})$/.test(length) && Number(length) <= longest;
  return isLength ? undefined : `has a prefix length that is not from 0 to ${longest}`;
}

const ALGORITHMS = "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA".split(" ");

/** A signature algorithm with a key pair (RFC 8725 §3.1, §3.2). */
export function findAlgorithmFault(text: string): string | undefined {
  if (ALGORITHMS.includes(text)) return undefined;
  if (/^none$/i.test(text)) return "takes tokens without a signature, which everybody can write";
  if (/^HS\d+$/i.test(text)) {
    return "signs with a secret: with an issuer's public keys as that secret, everybody could sign. Take an algorithm with a key pair, such as ES256";
  }
  return `is no signature algorithm that is known here: take ${ALGORITHMS.join(", ")}${suggest(text, ALGORITHMS)}`;
}

/** Public keys of an issuer (RFC 7517 §5). */
export function findJwksFault(text: string): string | undefined {
  const set = parseJson(text);
  if (set === undefined) return "is not JSON";
  const keys = isObject(set) ? set.keys : undefined;
  if (!Array.isArray(keys) || !keys.every(isObject)) return 'is no JSON Web Key Set: {"keys": […]}';
  if (keys.length === 0) return "holds no key";
  if (keys.some((key) => "d" in key || key.kty === "oct"))
    return "holds a private or secret key: only public ones belong here";
  return undefined;
}

/** The digest of an API key. */
export function findDigestFault(text: string): string | undefined {
  if (text.startsWith("rgk_"))
    return "is a key: the file holds digests alone. Take the entry that clients new printed, and a new key";
  return /^sha256:[0-9A-Fa-f]{64}$/.test(text) ? undefined : "is not sha256: and 64 hex digits";
}

const TIME = /^(\d{4})-(\d{2})-(\d{2})T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/;

/** A point in time (RFC 3339 §5.6). */
export function findTimeFault(text: string): string | undefined {
  const [, year, month, day] = TIME.exec(text) ?? [];
  if (year === undefined) return "is not a time such as 2027-01-31T00:00:00Z";
  // Date.parse makes March of the 30th of February.
  const days = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate();
  const isTime = !Number.isNaN(Date.parse(text)) && Number(day) <= days;
  return isTime ? undefined : "is no time that there is";
}
