import { DAY } from "../clock.ts";
import { Type } from "typebox";
import { choice, count, flag, scalar, group, off, text } from "./keys.ts";
import { upstreamDefaultsSchema } from "./upstream-schema.ts";

const scans = (description: string) =>
  off(
    Type.Array(scalar("nodeUrl", { description: "Base URL of one scan." }), {
      minItems: 1,
      maxItems: 32,
      examples: [["https://scan-1.example", "https://scan-2.example", "https://scan-3.example"]],
      expected: "a list of URLs",
      description,
    }),
  );

const source = group(
  "Where registries are listed.",
  {
    url: off(scalar("listUrl", { examples: ["https://lists.example/assets.json"], description: "A published list." })),
    file: off(scalar("path", { examples: ["assets.json"], description: "The same as a file; read again each time." })),
    network: off(
      text({ examples: ["MainNet"], description: "Which network of the list; needed where it has several." }),
    ),
    cns: scans("Scans whose name-service entries say where a party's registry is."),
    credentials: scans(
      "Scans whose credentials, published by a party about itself, say where its registry is: a draft of the standard.",
    ),
    admins: off(
      Type.Array(
        text({
          pattern: String.raw`^[\w:\- ]+::1220[0-9a-fA-F]*$`,
          expected: "a party id such as DSO::1220…",
          description: "A party id.",
        }),
        {
          minItems: 1,
          maxItems: 1_000,
          examples: [["DSO::1220ab0c"]],
          expected: "a list of party ids",
          description: "With cns and credentials: the admins whose records are read.",
        },
      ),
    ),
    agree: off(
      count({
        minimum: 1,
        maximum: 32,
        examples: [2],
        description: "With cns and credentials: how many scans must say the same. Off: more than half of them.",
      }),
    ),
  },
  { oneOf: [["url", "file", "cns", "credentials"]] },
);

/** How registries are found that the file does not write. */
export const discoverySchema = group(
  "Registries that are found rather than written. One that is written under upstreams with the same admin wins.",
  {
    every: scalar("duration", {
      default: "10m",
      least: 1_000,
      most: DAY,
      description: "How often the sources are read. Sooner where one fails or a registry has not proved itself yet.",
    }),
    sources: Type.Array(source, {
      minItems: 1,
      maxItems: 16,
      examples: [[{ url: "https://lists.example/assets.json", network: "MainNet" }]],
      expected: "a list of sources",
      description:
        "Each has url, file, or cns or credentials with admins. Where several name an admin, the one counts that it was found by, else the first.",
    }),
    pinFile: scalar("path", {
      default: "/var/lib/registry-gateway/pins.json",
      description:
        "Where is written what an admin was found at first; replicas with Redis share it besides. A later change waits for approval.",
    }),
    approve: choice(["new", "none", "all"], {
      default: "new",
      description:
        "new: a new admin that proves itself is used at once, a changed URL waits for POST /discovery. none: both wait. all: both are used.",
    }),
    defaults: upstreamDefaultsSchema,
    allowPrivate: flag(false, "Sources and registries may be at addresses that are not public, and without TLS."),
    max: count({ default: 200, minimum: 1, maximum: 1_000, description: "Registries that are found at most." }),
  },
);
