import { isDeepStrictEqual } from "node:util";
import { jwtVerify } from "jose/jwt/verify";
import { LRUCache } from "lru-cache";
import type { Clock, Instant } from "../clock.ts";
import type { FileWatcher } from "../config/watched-files.ts";
import { digestOf } from "../digest.ts";
import { GatewayError } from "../errors.ts";
import type { Client, Identity, Tier } from "./client.ts";
import { keyFile, keyUrl } from "./key-source.ts";
import { KeySet, type KeySetLook } from "./key-set.ts";
import {
  BAD_CLAIMS,
  BUSY,
  EXPIRED,
  type IssuerConfig,
  MALFORMED,
  NO_KEYS,
  refusalOf,
  subjectOf,
  type TokenSubject,
  UNKNOWN_ISSUER,
  WRONG_CLAIMS,
  WRONG_SIGNATURE,
} from "./token-verdict.ts";
import { issuerOf, readToken, type TokenForm } from "./token-form.ts";
import type { VerificationKey } from "./verification-key.ts";

/** Tokens that are remembered, those that were verified and those that were refused apart. */
const REMEMBERED = 10_000;

/** How long a refused token is refused without another look: keys may change. */
const REFUSED_FOR = 10_000;

/** Tokens that are looked at at once, most of them waiting for an issuer's keys. */
const MAX_PENDING = 2_000;

/** Signatures that are checked at once: they take turns on a few threads that others need as well. */
const MAX_CHECKS = 256;

/** Characters of a whole digest. */
const WHOLE = 43;

/** Keys that are tried for one token: an issuer may change its key, and its tokens name none. */
const MAX_TRIES = 4;

/** Called with what happens to issuers' keys. */
export interface TokenObserver {
  /** An issuer's keys were read. */
  keysRead(issuer: NamedIssuer, look: KeySetLook): void;
  /** They are read no more: nothing is wrong with them then. */
  keysLeft(issuer: NamedIssuer): void;
}

export interface NamedIssuer {
  /** As tokens name it. */
  readonly issuer: string;
  /** What is shown of it: its host, or its name where that is no URL. Several may have the same. */
  readonly host: string;
}

export interface TokenParts {
  readonly issuers: readonly IssuerConfig[];
  readonly tiers: ReadonlyMap<string, Tier>;
  readonly clock: Clock;
  readonly files: FileWatcher;
  readonly observer: TokenObserver;
}

interface Issuer {
  readonly config: IssuerConfig;
  /** For labels: its host, where its name is a URL. */
  readonly host: string;
  readonly keys: KeySet;
}

/** A token whose signature and claims were found good. */
interface Verified {
  readonly client: Client;
  readonly issuer: Issuer;
  readonly key: VerificationKey;
  /** Milliseconds since the Unix epoch: `exp` and the issuer's tolerance. */
  readonly expiresAt: number;
}

interface Refused {
  readonly error: GatewayError;
  readonly until: Instant;
}

/**
 * The clients whose tokens issuers sign (RFC 7519). A token is verified once; then it is known by its digest until it
 * expires, or its key leaves the issuer's set.
 */
export class Tokens {
  private readonly parts: TokenParts;
  private readonly issuers: ReadonlyMap<string, Issuer>;
  private readonly known = new LRUCache<string, Verified>({ max: REMEMBERED });
  private readonly refused = new LRUCache<string, Refused>({ max: REMEMBERED });
  private readonly pending = new Map<string, Promise<Identity>>();
  private checks = 0;

  /** @param previous of the configuration before: keys and tokens of issuers that did not change stay known */
  constructor(parts: TokenParts, previous?: Tokens) {
    this.parts = parts;
    this.issuers = new Map(parts.issuers.map((config) => [config.issuer, this.openIssuer(config, previous)]));
    if (previous !== undefined) this.takeOver(previous);
  }

  /** The client of a token that was verified before, or the 401 for one that was refused a moment ago. */
  verified(token: string): Identity | undefined {
    return this.recall(digestOf(token, WHOLE));
  }

  /** Whom a token names, or why it is refused. Never rejects. */
  verify(token: string): Promise<Identity> {
    const digest = digestOf(token, WHOLE);
    const recalled = this.recall(digest);
    if (recalled !== undefined) return Promise.resolve(recalled);
    const running = this.pending.get(digest);
    if (running !== undefined) return running;
    if (this.pending.size >= MAX_PENDING) return Promise.resolve(BUSY);
    const verification = this.verifyAnew(token, digest).finally(() => this.pending.delete(digest));
    this.pending.set(digest, verification);
    return verification;
  }

  /** Whether a token says, unproved, that it is of one of the issuers. */
  claimsIssuer(token: string): boolean {
    const issuer = issuerOf(token);
    return issuer !== undefined && this.issuers.has(issuer);
  }

  /** Reads issuers' keys in the background from now on. */
  start(): void {
    for (const { keys } of this.issuers.values()) keys.join();
  }

  /** Ends that. Tokens that come all the same can still be verified. */
  stop(): void {
    for (const { config, host, keys } of this.issuers.values()) {
      keys.leave();
      this.parts.observer.keysLeft({ issuer: config.issuer, host });
    }
  }

  private openIssuer(config: IssuerConfig, previous: Tokens | undefined): Issuer {
    const { issuer, jwksUrl, jwksFile } = config;
    const before = previous?.issuers.get(issuer);
    const isSame = before?.config.jwksUrl === jwksUrl && before?.config.jwksFile === jwksFile;
    const { clock, files, observer } = this.parts;
    const keys =
      before !== undefined && isSame
        ? before.keys
        : new KeySet({
            source: jwksUrl === undefined ? keyFile(jwksFile!, files) : keyUrl(jwksUrl, clock),
            clock,
            onLook: (look) => observer.keysRead({ issuer, host: hostOf(issuer) }, look),
          });
    return { config, host: hostOf(issuer), keys };
  }

  /** Else every reload would have all clients' signatures checked at once. */
  private takeOver(previous: Tokens): void {
    for (const [digest, before] of [...previous.known.entries()].toReversed()) {
      const issuer = this.issuers.get(before.issuer.config.issuer);
      if (issuer === undefined || !isDeepStrictEqual(issuer.config, before.issuer.config)) continue;
      const tier = this.parts.tiers.get(before.client.tier.name);
      if (tier === undefined) continue;
      const client = tier === before.client.tier ? before.client : { ...before.client, tier };
      this.known.set(digest, { ...before, client, issuer });
    }
  }

  private recall(digest: string): Identity | undefined {
    const { clock } = this.parts;
    const known = this.known.get(digest);
    if (known !== undefined && clock.now() < known.key.usableUntil) {
      return clock.wallNow() < known.expiresAt ? known.client : EXPIRED;
    }
    const refused = this.refused.get(digest);
    return refused !== undefined && clock.now() < refused.until ? refused.error : undefined;
  }

  private async verifyAnew(token: string, digest: string): Promise<Identity> {
    const form = readToken(token);
    if (form === undefined) return MALFORMED;
    const issuer = this.issuers.get(form.issuer);
    if (issuer === undefined) return UNKNOWN_ISSUER;
    // The config's word, not the token's, says which algorithms there are (RFC 8725 §3.1).
    if (!issuer.config.algorithms.includes(form.algorithm)) return WRONG_SIGNATURE;
    const find = () => issuer.keys.find(form.algorithm, form.keyId).slice(0, MAX_TRIES);
    let keys = find();
    if (keys.length === 0) {
      await issuer.keys.lookAgain();
      keys = find();
    }
    if (keys.length === 0) return issuer.keys.isUsable ? WRONG_SIGNATURE : NO_KEYS;
    const identity = await this.check({ token, digest, form, issuer, keys });
    if (identity !== WRONG_SIGNATURE || form.keyId !== undefined) return identity;
    // Without a key's name only its use shows that the issuer has another one by now.
    await issuer.keys.lookAgain();
    const others = find().filter((key) => !keys.includes(key));
    return others.length === 0 ? identity : this.check({ token, digest, form, issuer, keys: others });
  }

  /** Takes one of the places for checks while it computes; what only waits for keys takes none from others. */
  private async check(shown: ShownToken): Promise<Identity> {
    if (this.checks >= MAX_CHECKS) return BUSY;
    this.checks += 1;
    try {
      return await this.tryKeys(shown);
    } finally {
      this.checks -= 1;
    }
  }

  private async tryKeys(shown: ShownToken): Promise<Identity> {
    const { token, digest, form, issuer } = shown;
    const { clockTolerance } = issuer.config;
    let error = WRONG_SIGNATURE;
    for (const key of shown.keys) {
      try {
        await jwtVerify(token, key.object, {
          algorithms: [form.algorithm],
          issuer: issuer.config.issuer,
          audience: issuer.config.audience,
          requiredClaims: ["exp"],
          clockTolerance: clockTolerance / 1_000,
          currentDate: new Date(this.parts.clock.wallNow()),
        });
      } catch (reason) {
        error = refusalOf(reason);
        if (error === WRONG_SIGNATURE) continue;
        break;
      }
      const expiresAt = Number(form.claims["exp"]) * 1_000 + clockTolerance;
      const subject = Number.isFinite(expiresAt) ? subjectOf(form.claims, issuer.config, this.parts.tiers) : BAD_CLAIMS;
      if (subject instanceof GatewayError) {
        error = subject;
        break;
      }
      const client = clientOf(subject, issuer);
      this.known.set(digest, { client, issuer, key, expiresAt });
      return client;
    }
    // One that is too early is in time a moment later.
    const until = this.parts.clock.now() + REFUSED_FOR;
    if (error !== WRONG_CLAIMS["nbf"]) this.refused.set(digest, { error, until });
    return error;
  }
}

function clientOf({ name, tier }: TokenSubject, { config, host }: Issuer): Client {
  return { kind: "token", name, tier, issuer: host, id: `token:${digestOf(config.issuer)}:${digestOf(name)}` };
}

interface ShownToken {
  readonly token: string;
  readonly digest: string;
  readonly form: TokenForm;
  readonly issuer: Issuer;
  readonly keys: readonly VerificationKey[];
}

function hostOf(issuer: string): string {
  return URL.canParse(issuer) ? new URL(issuer).host || issuer : issuer;
}
