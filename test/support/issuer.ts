import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from "jose";
import { atEnd } from "./closing.ts";

type PrivateKey = Awaited<ReturnType<typeof generateKeyPair>>["privateKey"];

/** An issuer of tokens with one key, and the server of its key set. */
export class Issuer {
  readonly issuer = "https://login.example";
  readonly audience = "gateway";
  jwksUrl = "";
  /** How often its key set was asked for. */
  asked = 0;
  /** Answers in place of the key set. */
  answer: RequestListener | undefined;
  private readonly keys: JWK[];
  private readonly privateKey: PrivateKey;

  private constructor(jwk: JWK, privateKey: PrivateKey) {
    this.keys = [jwk];
    this.privateKey = privateKey;
  }

  static async start(): Promise<Issuer> {
    const { publicKey, privateKey } = await generateKeyPair("ES256");
    const issuer = new Issuer({ ...(await exportJWK(publicKey)), kid: "one", alg: "ES256", use: "sig" }, privateKey);
    const server = createServer((request, response) => {
      issuer.asked += 1;
      if (issuer.answer !== undefined) return issuer.answer(request, response);
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ keys: issuer.keys }));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    issuer.jwksUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks.json`;
    atEnd(() => {
      server.closeAllConnections();
      server.close();
    });
    return issuer;
  }

  /** The entry of `clients.jwt`. */
  entry(keys: object = {}): object {
    return { issuer: this.issuer, jwksUrl: this.jwksUrl, audience: this.audience, ...keys };
  }

  /** A token that is good for ten minutes, unless its claims say otherwise; `exp` counts in seconds from now. */
  token(claims: JWTPayload = {}, key = this.privateKey): Promise<string> {
    const now = Math.floor(Date.now() / 1_000);
    const { exp = 600, ...others } = claims;
    const all = { iss: this.issuer, aud: this.audience, sub: "wallet-t", tier: "wallet", exp: now + exp, ...others };
    return new SignJWT(all).setProtectedHeader({ alg: "ES256", kid: "one" }).sign(key);
  }

  /** The same, signed by a key that is not the issuer's. */
  async forged(claims: JWTPayload = {}): Promise<string> {
    return this.token(claims, (await generateKeyPair("ES256")).privateKey);
  }
}
