import { DAY } from "../clock.ts";
import { Type } from "typebox";
import { burst, choice, count, flag, scalar, group, named, off, text } from "./keys.ts";

/** Free of dots, so that a tier can stand in the path of a key. */
export const TIER_NAME = "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$";

const TIER_WORDS = "1 to 64 letters, digits, dashes or underscores, beginning with a letter or digit";

const LARGEST_RATE = 100_000_000;

function tierName(description: string) {
  return text({
    pattern: TIER_NAME,
    expected: `the name of a tier, ${TIER_WORDS}`,
    examples: ["anonymous"],
    description,
  });
}

const requests = { minimum: 1, maximum: LARGEST_RATE };

function per(what: string) {
  return scalar("duration", { default: "1m", least: 1, most: DAY, description: `The window of ${what}.` });
}

const tier = group("A tier: what its clients may do. Each part may be left out: there is no limit then.", {
  requests: off(count({ ...requests, examples: [600], description: "Requests of one client in any window of per." })),
  per: per("requests"),
  burst: burst("requests", { most: LARGEST_RATE, requests: 150 }),
  posts: off(
    group("POSTs apart; they count as requests, too.", {
      requests: count({ ...requests, examples: [60], description: "POSTs of one client in any window of per." }),
      per: per("POSTs"),
    }),
  ),
  concurrency: off(
    count({ minimum: 1, maximum: 1_000_000, examples: [16], description: "Requests of one client at the same time." }),
  ),
  upstreams: Type.Array(text({ description: 'The name of an upstream, or "*".' }), {
    default: ["*"],
    minItems: 1,
    maxItems: 1_000,
    expected: 'a list of names of upstreams, or ["*"]',
    description: 'Upstreams that its clients may use and see. ["*"]: all of them.',
  }),
  enforce: flag(
    true,
    "Refuse what is over a limit. false: it is let in, and counted, shown and logged as over the limit.",
  ),
});

const issuer = group(
  "An issuer of tokens.",
  {
    issuer: text({
      examples: ["https://login.example"],
      description: "The claim iss of its tokens, letter by letter.",
    }),
    jwksUrl: off(
      scalar("jwksUrl", {
        examples: ["https://login.example/.well-known/jwks.json"],
        description: "Where its public keys are. Exactly one of jwksUrl, jwksFile.",
      }),
    ),
    jwksFile: off(
      scalar("jwksFile", {
        examples: ["/etc/registry-gateway/jwks.json"],
        description: "File with its public keys; read again when it changes.",
      }),
    ),
    audience: text({ examples: ["registry-gateway"], description: "What the claim aud must be or hold." }),
    algorithms: Type.Array(
      scalar("algorithm", { description: "The name of a signature algorithm (RFC 7518, RFC 8037)." }),
      {
        default: ["RS256", "ES256", "EdDSA"],
        minItems: 1,
        maxItems: 16,
        expected: "a list of signature algorithms",
        description: "Algorithms that its tokens may be signed with. With public keys only: never none or HS256.",
      },
    ),
    clientClaim: text({ default: "sub", description: "Claim that names the client." }),
    tierClaim: text({ default: "tier", description: "Claim that names the client's tier." }),
    tier: off(tierName("The tier of a token that names none. Off: such a token is refused.")),
    clockTolerance: scalar("duration", {
      default: "30s",
      most: 600_000,
      description: "How far the issuer's clock may be off.",
    }),
  },
  { oneOf: [["jwksUrl", "jwksFile"]] },
);

/** Who may call, from which tier, how much. */
export const clientsSchema = group("Who may call, and how much. Off: everybody may call, without limits.", {
  anonymous: Type.Unsafe<string | false>({
    anyOf: [
      { type: "boolean", const: false },
      { type: "string", pattern: TIER_NAME },
    ],
    default: "anonymous",
    expected: "the name of a tier, or false",
    description: "The tier of those who show no credential, counted by client address. false: they are refused (401).",
  }),
  keysFile: off(
    scalar("keysFile", {
      examples: ["/etc/registry-gateway/clients.jsonl"],
      description:
        "One JSON object a line, {name, tier, digest, expires}, as `clients new` prints it; read again when it changes. A broken one is refused with its line, and the last good one stays.",
    }),
  ),
  jwt: Type.Array(issuer, {
    default: [],
    maxItems: 32,
    expected: "a list of issuers",
    description: "Issuers of tokens.",
  }),
  certificates: off(
    group("Clients that show a certificate. Needs listen.tls.clientAuth.", {
      tier: tierName("Their tier."),
      name: choice(["cn", "san"], {
        default: "cn",
        description: "What names the client: the common name of the subject, or the first subject alternative name.",
      }),
    }),
  ),
  tiers: named(tier, {
    pattern: TIER_NAME,
    expected: TIER_WORDS,
    example: "wallet",
    maxProperties: 1_000,
    description:
      "Tiers by name. The tier anonymous is there without being written: 600 requests a minute, 150 of them in 5 s, 60 POSTs of them, 16 at the same time.",
  }),
});

/** What the tier `anonymous` is where the file has none. */
export const ANONYMOUS_TIER = {
  requests: 600,
  per: 60_000,
  burst: { requests: 150, per: 5_000 },
  posts: { requests: 60, per: 60_000 },
  concurrency: 16,
  upstreams: ["*"],
  enforce: true,
};

/** TLS of the public listener. */
export const listenTlsSchema = group(
  "TLS to clients, 1.2 at least, under HTTP/1.1. The files are read again when they change.",
  {
    certFile: scalar("certificateFile", {
      examples: ["/etc/ssl/gateway.pem"],
      expected: "given",
      description: "Certificate and those between it and its authority (PEM).",
    }),
    keyFile: scalar("keyFile", {
      examples: ["/etc/ssl/gateway.key"],
      expected: "given",
      description: "Key of the certificate (PEM).",
    }),
    clientCaFile: off(
      scalar("certificateFile", {
        examples: ["/etc/ssl/clients-ca.pem"],
        description: "Certificates of the authorities whose client certificates are trusted (PEM).",
      }),
    ),
    clientAuth: choice(["none", "request", "require"], {
      default: "none",
      description: "Whether clients are asked for a certificate. require: without a good one there is no connection.",
    }),
  },
);

export const trustedProxiesSchema = Type.Array(scalar("cidr", { description: "An address, or a range of them." }), {
  default: [],
  maxItems: 1_000,
  examples: [["10.0.0.0/8", "fd00::/8"]],
  expected: "a list of address ranges such as 10.0.0.0/8",
  description:
    "Proxies that may say who the client is. Forwarded, or else X-Forwarded-For, is read from the right, past these; from anywhere else it means nothing.",
});
