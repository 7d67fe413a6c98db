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

/** Members that make a key, by its type, each a base64url text; in the order of RFC 7638. */
const MEMBERS: Readonly<Record<string, readonly string[]>> = {
  RSA: ["e", "n"],
  EC: ["x", "y"],
  OKP: ["x"],
};

/** Bytes of a coordinate: neither more nor fewer (RFC 7518 §6.2.1.2). */
const COORDINATE: Readonly<Record<string, number>> = { "P-256": 32, "P-384": 48, "P-521": 66, Ed25519: 32 };

/** Bits. Shorter moduli can be factored, longer ones cost too much time for each token. */
const RSA_BITS = { least: 2048, most: 8192 };

/** Largest exponent of an RSA key. With 1, everybody can sign; a long one makes checks slow. */
const MAX_EXPONENT = 2n ** 32n;

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

/** Algorithms that tokens can be signed with: with public keys only. */
const TOKEN_ALGORITHMS: readonly string[] = Object.keys(REQUIRED);

/**
 * Reads a key of a set (RFC 7517 §4).
 * @returns why it cannot be used, as the rest of a sentence; undefined for a key that is for something else
 */
export function readVerificationKey(jwk: unknown): VerificationKey | string | undefined {
  if (!isObject(jwk)) return "is no object";
  const { kty, crv, use, key_ops: operations, alg, kid } = jwk;
  if (typeof kty !== "string") return "has no kty";
  const names = Object.hasOwn(MEMBERS, kty) ? MEMBERS[kty] : undefined;
  // Keys of other types, and those for encryption, may stand in a set beside ours (RFC 7517 §5).
  if (names === undefined || !isForSignatures(use, operations)) return undefined;
  if (kid !== undefined && typeof kid !== "string") return "has a kid that is no text";
  if (alg !== undefined && typeof alg !== "string") return "has an alg that is no text";
  if (Object.hasOwn(jwk, "d")) return "is a private key: whoever can read the set can sign tokens";
  const curve = kty !== "RSA" && typeof crv === "string" ? crv : undefined;
  if (kty !== "RSA" && curve === undefined) return "has no crv";
  const members = names.map((name) => jwk[name]);
  if (!members.every(isBase64Url)) return `has no ${names.join(" and ")} in base64url`;
  const algorithms = TOKEN_ALGORITHMS.filter(
    (name) => REQUIRED[name]!.kty === kty && REQUIRED[name]!.crv === curve && (alg === undefined || alg === name),
  );
  if (algorithms.length === 0) return undefined;
  const object = toKeyObject({ kty, curve, members: Object.fromEntries(names.map((name, i) => [name, members[i]!])) });
  if (typeof object === "string") return object;
  return {
    fingerprint: JSON.stringify([kty, curve ?? null, kid ?? null, algorithms, members]),
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

function isBase64Url(value: unknown): value is string {
  return typeof value === "string" && value !== "" && Buffer.from(value, "base64url").toString("base64url") === value;
}

interface KeyText {
  readonly kty: string;
  /** Undefined for RSA. */
  readonly curve: string | undefined;
  readonly members: Readonly<Record<string, string>>;
}

function toKeyObject({ kty, curve, members }: KeyText): KeyObject | string {
  const size = curve === undefined ? undefined : COORDINATE[curve];
  const lengths = Object.values(members).map((text) => Buffer.from(text, "base64url").length);
  if (curve !== undefined && lengths.some((length) => length !== size))
    return `has coordinates of another length than ${curve}`;
  try {
    const jwk = curve === undefined ? { kty, ...members } : { kty, crv: curve, ...members };
    const object = createPublicKey({ key: jwk, format: "jwk" });
    return (kty === "RSA" ? faultOfRsa(object) : undefined) ?? object;
  } catch {
    return "is not on its curve, or cannot be read";
  }
}

function faultOfRsa(key: KeyObject): string | undefined {
  const { modulusLength = 0, publicExponent = 0n } = key.asymmetricKeyDetails ?? {};
  if (modulusLength < RSA_BITS.least) return `has ${modulusLength} bits: ${RSA_BITS.least} are the least`;
  if (modulusLength > RSA_BITS.most) return `has ${modulusLength} bits: ${RSA_BITS.most} are the most`;
  const isSound = publicExponent >= 3n && publicExponent <= MAX_EXPONENT && publicExponent % 2n === 1n;
  return isSound ? undefined : "has an exponent that makes it unsafe";
}
