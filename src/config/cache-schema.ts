import { Type } from "typebox";
import { forEachCached } from "../spec/operations.ts";
import { choice, flag, scalar, group } from "./keys.ts";

const ttl = group("How long an answer is fresh where the upstream says nothing. 0s: not stored then.", {
  ...forEachCached((record) => scalar("duration", { default: record.ttl, description: `Of ${record.entries}.` })),
  notFound: scalar("duration", { default: "5s", description: "Of the 404 of an instrument." }),
});

const maxTtl = group(
  "Bounds what the upstream says.",
  forEachCached((record) => scalar("duration", { default: record.maxTtl, description: `Of ${record.entries}.` })),
);

/** The keys of `cache` that an upstream can override: all but `memory`. */
const cacheKeys = {
  ttl,
  maxTtl,
  honorUpstream: flag(true, "Explicit freshness from the upstream (RFC 9111, RFC 9213) goes before ttl."),
  errors: choice(["never", "honor"], {
    default: "never",
    description:
      "never: only 200 and the 404 of an instrument are stored. honor: any final status with explicit freshness.",
  }),
  honorClient: flag(
    false,
    "Request Cache-Control may ask for a fresher answer: one refresh per cache key and clientFloor.",
  ),
  clientFloor: scalar("duration", {
    default: "5s",
    description: "How often clients may cause a refresh of one cache key (honorClient).",
  }),
  clientTtl: scalar("duration", {
    default: "0s",
    description: "What clients may keep where the upstream sent no Cache-Control. 0s: no-cache.",
  }),
  staleWhileRevalidate: scalar("duration", {
    default: "30s",
    description: "How long after its expiry an answer is served while one refresh runs; an upstream may ask for less.",
  }),
  staleIfError: scalar("duration", {
    default: "10m",
    description:
      "How long after its expiry an answer is served while the upstream fails; an upstream may ask for less.",
  }),
  forwardRequestHeaders: Type.Unsafe<"*" | string[]>({
    anyOf: [
      { const: "*" },
      { type: "array", items: scalar("fieldName", { description: "The name of a request header." }), maxItems: 32 },
    ],
    default: [],
    expected: 'a list of header names, or "*"',
    description:
      'Request headers sent upstream on cached routes and part of the cache key. "*": all end-to-end headers, keyed by Vary alone (only where clients are trusted).',
  }),
  forwardResponseHeaders: Type.Unsafe<"*" | string[]>({
    anyOf: [
      { const: "*" },
      { type: "array", items: scalar("fieldName", { description: "The name of an answer field." }), maxItems: 32 },
    ],
    default: [],
    expected: 'a list of field names, or "*"',
    description:
      'Further answer fields that clients get. "*": all end-to-end fields but those that are the gateway\'s, act on its origin or steer a server in front (only where registries are trusted).',
  }),
  warmUp: flag(false, "Fetch info and all pages at start."),
};

const memory = group("The cache in the memory of this machine.", {
  maxBytes: scalar("size", { default: "64MiB", least: 1, description: "Of each process." }),
  maxObject: scalar("size", { default: "4MiB", least: 1, description: "The largest answer that is stored." }),
});

export const cacheSchema = group("Answers to the metadata endpoints.", { memory, ...cacheKeys });

export const cacheOverridesSchema = group("Any key of cache but memory, for this upstream.", cacheKeys, {
  default: {},
  inherits: true,
});
