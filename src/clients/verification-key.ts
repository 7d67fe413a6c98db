import { createPublicKey, type KeyObject } from "node:crypto";
import type { Instant } from "../clock.ts";
import { isObject } from "../json.ts";

/** What a key must be for an algorithm (RFC 7518 §3.1, RFC 8037 §3.1, RFC 9864 §2.2). */
const REQUIRED: Readonly<Record<string, { readonly kty: string; readonly crv?: string }>> = {
  RS256: { kty: "RSA" },
  RS384: { kty: "RSA" },
  RS512: { kty: "RSA" },
  PS256: { kty: "RSA" },
  PS384: { kty: "RSA" },
  PS512: { kty: "RSA" },
  ES256: { kty: "EC", crv: "P-256" },
  ES384: { kty: "EC", crv: "P-384" },
  ES512: { kty: "EC", crv: "P-521" },
  EdDSA: { kty: "OKP", crv: "Ed25519" },
  Ed25519: { kty: "OKP", crv: "Ed25519" },
};

/** Bits. Shorter moduli can be factored, longer ones cost too much time for each token. */
const RSA_BITS = { least: 2048, most: 8192 };

/** A public key of an issuer. The same object as long as the issuer has it in its set. */
export interface VerificationKey {
  /** Distinguishes this key from all others. */
  readonly fingerprint: string;
  readonly id: string | undefined;
  readonly object: KeyObject;
  /** Whether signatures of this algorithm are checked with it. */
  fits(algorithm: string): boolean;
  /** Until then it counts; moved on whenever the issuer's set is read and still has it. */
  usableUntil: Instant;
}

/**
 * Reads a key of a set (RFC 7517 §4).
 * @returns why it cannot be used, as the rest of a sentence; undefined for a key that is for something else
 */
export function readVerificationKey(jwk: unknown): VerificationKey | string | undefined {
  if (!isObject(jwk)) return "is no object";
  const { kty, crv, use, key_ops: operations, alg, kid } = jwk;
  const algorithms = Object.entries(REQUIRED)
    .filter(([name, needed]) => needed.kty === kty && needed.crv === crv && (alg === undefined || alg === name))
    .map(([name]) => name);
  // Keys of other types, and those for encryption, may stand in a set beside ours (RFC 7517 §5).
  if (algorithms.length === 0 || !isForSignatures(use, operations)) return undefined;
  if (kid !== undefined && typeof kid !== "string") return "has a kid that is no text";
  if (Object.hasOwn(jwk, "d")) return "is a private key: any reader of the set can sign tokens";
  let object: KeyObject;
  try {
    object = createPublicKey({ key: jwk, format: "jwk" });
  } catch {
    return "cannot be read, or is not on its curve";
  }
  const { modulusLength: bits = RSA_BITS.least, publicExponent = 3n } = object.asymmetricKeyDetails ?? {};
  if (bits < RSA_BITS.least || bits > RSA_BITS.most) {
    return `has ${bits} bits: RSA keys have ${RSA_BITS.least} to ${RSA_BITS.most}`;
  }
  // With 1, everybody can sign.
  if (publicExponent < 3n) return "has an exponent that makes it unsafe";
  return {
    fingerprint: JSON.stringify([kid ?? null, algorithms, object.export({ format: "jwk" })]),
    id: kid,
    object,
    fits: (algorithm) => algorithms.includes(algorithm),
    usableUntil: -Infinity,
  };
}

function isForSignatures(use: unknown, operations: unknown): boolean {
  if (use !== undefined && use !== "sig") return false;
  return operations === undefined || (Array.isArray(operations) && operations.includes("verify"));
}
