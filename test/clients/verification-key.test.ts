import { createPublicKey } from "node:crypto";
import { readFileSync } from "node:fs";
import { compactVerify } from "jose";
import { describe, expect, test } from "vitest";
import { readVerificationKey, type VerificationKey } from "../../src/clients/verification-key.ts";
import { makeKey } from "../support/token-issuer.ts";

const ALGORITHMS = "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519".split(" ");

function keyOf(jwk: unknown): VerificationKey {
  const key = readVerificationKey(jwk);
  if (typeof key !== "object") throw new Error(String(key));
  return key;
}

const fitsOf = (jwk: unknown) => ALGORITHMS.filter((name) => keyOf(jwk).fits(name));

interface Samples {
  readonly payload: string;
  readonly vectors: readonly { readonly key: string; readonly jws: string }[];
}
const samples = JSON.parse(
  readFileSync(`${import.meta.dirname}/../fixtures/jws/nimbus-samples.json`, "utf8"),
) as Samples;

describe("signatures that another library made", () => {
  test.each(samples.vectors.map(({ key, jws }) => [headerOf(jws).alg, key, jws] as const))(
    "%s",
    async (algorithm, spki, jws) => {
      const key = keyOf(
        createPublicKey({ key: Buffer.from(spki, "base64"), format: "der", type: "spki" }).export({ format: "jwk" }),
      );
      expect(key.fits(algorithm)).toBe(true);
      const verify = (text: string) => compactVerify(text, key.object, { algorithms: [algorithm] });
      expect(Buffer.from((await verify(jws)).payload).toString()).toBe(samples.payload);
      const [header, payload, signature] = jws.split(".") as [string, string, string];
      const bytes = Buffer.from(signature, "base64url");
      for (const at of [0, bytes.length / 2, bytes.length - 1].map(Math.floor)) {
        const changed = Buffer.from(bytes);
        changed[at]! ^= 1;
        await expect(verify(`${header}.${payload}.${changed.toString("base64url")}`)).rejects.toThrow();
      }
      const others = ALGORITHMS.filter((name) => name !== algorithm && key.fits(name));
      for (const alg of others) {
        const text = `${Buffer.from(JSON.stringify({ alg })).toString("base64url")}.${payload}.${signature}`;
        await expect(compactVerify(text, key.object, { algorithms: [alg] })).rejects.toThrow();
      }
    },
  );
});

describe("a key of a set", () => {
  test("fits the algorithms of its type and curve, or the one that it names", () => {
    expect(fitsOf(makeKey("RS256").jwk)).toEqual(ALGORITHMS.slice(0, 6));
    expect(fitsOf({ ...makeKey("RS256").jwk, alg: "PS384" })).toEqual(["PS384"]);
    expect(fitsOf(makeKey("ES256").jwk)).toEqual(["ES256"]);
    expect(fitsOf(makeKey("ES384").jwk)).toEqual(["ES384"]);
    expect(fitsOf(makeKey("ES512").jwk)).toEqual(["ES512"]);
    expect(fitsOf(makeKey("EdDSA").jwk)).toEqual(["EdDSA", "Ed25519"]);
    expect(fitsOf({ ...makeKey("ES256").jwk, use: "sig", key_ops: ["verify"] })).toEqual(["ES256"]);
  });

  test("is passed over when it is for something else", () => {
    const ec = makeKey("ES256").jwk;
    const others = [
      { ...ec, use: "enc" },
      { ...ec, key_ops: ["encrypt"] },
      { ...ec, key_ops: "verify" },
      { ...ec, alg: "ECDH-ES" },
      { ...ec, alg: "HS256" },
      { ...ec, alg: "RS256" },
      { ...ec, crv: "secp256k1" },
      { ...makeKey("EdDSA").jwk, crv: "X25519" },
      { kty: "oct", k: "AAAA", alg: "HS256" },
      { kty: "AKP", alg: "ML-DSA-44", pub: "AA" },
      { kty: "constructor" },
      { crv: "P-256" },
      { ...ec, crv: 7 },
      { ...ec, alg: ["ES256"] },
    ];
    for (const jwk of others) expect(readVerificationKey(jwk), JSON.stringify(jwk)).toBeUndefined();
  });

  test("is refused when it is unsafe or broken", () => {
    const ec = makeKey("ES256").jwk;
    const ed = makeKey("EdDSA").jwk;
    const rsa = makeKey("RS256").jwk;
    const text = (bytes: Buffer) => bytes.toString("base64url");
    const y = Buffer.from(String(ec["y"]), "base64url");
    y[31]! ^= 1;
    const bad: [jwk: unknown, fault: string][] = [
      [makeKey("RS256", undefined, 1024).jwk, "has 1024 bits"],
      [makeKey("RS256", undefined, 2040).jwk, "has 2040 bits"],
      [{ ...rsa, e: "AQ" }, "exponent"],
      [{ ...rsa, n: "" }, "has 0 bits"],
      [{ ...rsa, n: undefined }, "cannot be read"],
      [{ ...rsa, d: "AQAB" }, "private key"],
      [{ ...ec, d: "AQAB" }, "private key"],
      [{ ...ec, y: text(y) }, "not on its curve"],
      [{ ...ec, x: text(Buffer.alloc(32)), y: text(Buffer.alloc(32)) }, "not on its curve"],
      [{ ...ec, crv: "P-384" }, "cannot be read"],
      [{ ...ec, x: 7 }, "cannot be read"],
      [{ ...ec, kid: 7 }, "kid"],
      [{ ...ed, x: text(Buffer.alloc(31)) }, "cannot be read"],
      ["x", "no object"],
      [null, "no object"],
      [[ec], "no object"],
    ];
    for (const [jwk, fault] of bad) expect(readVerificationKey(jwk), JSON.stringify(jwk)).toContain(fault);
  });
});

function headerOf(jws: string): { readonly alg: string } {
  return JSON.parse(Buffer.from(jws.split(".")[0]!, "base64url").toString()) as { alg: string };
}
