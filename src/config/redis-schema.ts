import { Type } from "typebox";
import { scalar, group, off, text, tlsKeys } from "./keys.ts";

/** A user and a password; Redis before ACLs knows a password only. */
function loginKeys(where: string) {
  return {
    username: off(text({ examples: ["gateway"], description: `User${where}.` })),
    password: off(scalar("secret", { examples: ["${REDIS_PASSWORD}"], description: `Password${where}.` })),
    passwordFile: off(
      scalar("secretFile", { examples: ["/run/secrets/redis"], description: `File with the password${where}.` }),
    ),
  };
}

function login(description: string) {
  return off(group(description, loginKeys(""), { oneOf: [["password", "passwordFile"]] }));
}

/** Where the shared cache is. */
export const redisSchema = group(
  "The cache and the coordination shared by replicas. Off: memory only. Exactly one of url, urlFile, cluster, sentinel.",
  {
    url: off(
      scalar("redisUrl", {
        examples: ["redis://redis.example:6379"],
        description: "A single server, redis:// or rediss:// (TLS); may hold user and password.",
      }),
    ),
    urlFile: off(scalar("redisUrlFile", { examples: ["/run/secrets/redis-url"], description: "File with that URL." })),
    cluster: off(
      group("A Redis Cluster.", {
        nodes: Type.Array(scalar("redisUrl", { description: "URL of one node." }), {
          minItems: 1,
          maxItems: 1_000,
          examples: [["redis://redis-1.example:6379", "redis://redis-2.example:6379"]],
          expected: "a list of Redis URLs",
          description: "Some nodes to begin with.",
        }),
      }),
    ),
    sentinel: off(
      group("A master watched by Redis Sentinel.", {
        name: text({ examples: ["mymaster"], description: "Name of the master." }),
        nodes: Type.Array(scalar("hostPort", { description: "host:port of one sentinel." }), {
          minItems: 1,
          maxItems: 1_000,
          examples: [["sentinel-1.example:26379", "sentinel-2.example:26379"]],
          expected: "a list of host:port",
          description: "The sentinels.",
        }),
        sentinelAuth: login("Login to the sentinels themselves."),
      }),
    ),
    ...loginKeys(
      " of the server, where no URL holds a login; with sentinel, of the master and of the replica that becomes it",
    ),
    keyPrefix: text({
      // Braces would take the place of the hash tags that keep a partition in one slot of a cluster.
      pattern: String.raw`^[^\s{}]{1,64}$`,
      expected: "1 to 64 characters without spaces and braces",
      default: "rg:",
      description: "Begins every key. Gateways that share a Redis but no cache take different ones.",
    }),
    sealKeyFile: off(
      scalar("sealKeyFile", {
        examples: ["/run/secrets/seal-key"],
        description:
          "File with 32 random bytes in base64, the same for all replicas; what is in Redis carries an HMAC, and what does not verify counts as absent. Read again when it changes; two lines while the key changes: the first seals, both open.",
      }),
    ),
    tls: off(
      group("TLS to Redis.", {
        ...tlsKeys,
        servername: off(text({ examples: ["redis.example"], description: "Name the server's certificate must have." })),
      }),
    ),
  },
  { restart: true, oneOf: [["url", "urlFile", "cluster", "sentinel"]] },
);
