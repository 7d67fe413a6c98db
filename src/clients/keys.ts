import type { ClientKey } from "../config/loaded.ts";
import { GatewayError } from "../errors.ts";
import type { Client } from "./client.ts";
import { digestOf, invalid, isWholeKey } from "./credential.ts";

const MISTYPED = invalid("the API key is mistyped or cut off, for its checksum does not fit; copy it again, whole");
const UNKNOWN = invalid("the API key is not, or no longer, known here; ask the gateway's operator for a new one");
const EXPIRED = new GatewayError(
  "credential_expired",
  "the API key has expired; ask the gateway's operator for a new one",
);

/** Clients by their keys, of which nothing but digests is known. */
export class Keys {
  private readonly byDigest: ReadonlyMap<string, { readonly client: Client; readonly expires: number }>;

  /** @param clientOf makes the client of a name and a tier */
  constructor(keys: readonly ClientKey[], clientOf: (name: string, tier: string) => Client) {
    this.byDigest = new Map(
      keys.map(({ name, tier, digest, expires = Infinity }) => [digest, { client: clientOf(name, tier), expires }]),
    );
  }

  /** The client of a key at `wallNow` (Unix ms). @throws GatewayError 401 for one that is not whole, not known, or expired */
  find(key: string, wallNow: number): Client {
    if (!isWholeKey(key)) throw MISTYPED;
    const known = this.byDigest.get(digestOf(key));
    if (known === undefined) throw UNKNOWN;
    if (wallNow >= known.expires) throw EXPIRED;
    return known.client;
  }
}
