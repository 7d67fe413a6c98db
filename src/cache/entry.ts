import { fieldValue, filterFields, passedFields } from "../fields.ts";
import { conditionOf, entityTagOf, makeEntityTag } from "./conditional.ts";
import { directivesFor, type Freshness, type FreshnessContext, freshnessOf } from "./freshness.ts";
import type { CachePolicy, Entry, Fetched } from "./types.ts";

/** Bytes besides its own that a body may keep in memory, as a share of its length. */
const MAX_SLACK = 0.25;

/** All that an answer is judged by besides itself. */
interface JudgeContext extends Omit<FreshnessContext, "directives"> {
  /** Epoch in which it was asked for. */
  readonly epoch: number;
  readonly generation: number;
}

/** An answer as an entry, whether or not it may be stored. */
interface Judged {
  readonly entry: Entry;
  /** Why it is not stored, in one token; undefined: it is. */
  readonly unstored: string | undefined;
}

/** Fields that an entry has elsewhere, or that the cache writes at each answer. */
const NOT_KEPT: ReadonlySet<string> = new Set(["age", "content-type", "etag"]);

/** Makes an entry of a complete answer, and says whether it may be stored (RFC 9111 §3). */
export function judge(fetched: Fetched, context: JudgeContext): Judged {
  const { policy, epoch, generation } = context;
  const { status, body } = fetched;
  const directives = directivesFor(fetched, policy);
  const { isKnown, ...instants } = freshnessOf(fetched, { ...context, directives });
  const passed = passedFields(fetched.fields, policy.forwardResponseHeaders);
  const entry: Entry = {
    status,
    // Clients read JSON whatever type the registry gave it; one of them crashes otherwise.
    fields: [...filterFields(passed, (name) => !NOT_KEPT.has(name)), "content-type", "application/json"],
    body: ownBytes(body),
    etag: entityTagOf(fetched.fields) ?? (status === 200 ? makeEntityTag(body) : ""),
    validators: status === 200 ? conditionOf(fetched) : undefined,
    clientTtl: policy.clientTtl,
    ...instants,
    epoch,
    generation: fetched.generation ?? generation,
  };
  const forbidden = ["no-store", "private"].find((directive) => directives.has(directive));
  const unstored = whyNotKept(fetched, policy) ?? forbidden ?? whyUseless(fetched, entry, isKnown);
  return { entry, unstored };
}

/** Whether a status is one that takes the place of what is stored: a 200, and the 404 of what may be absent. */
export function isKeptStatus(status: number, { notFoundTtl }: CachePolicy): boolean {
  return status === 200 || (status === 404 && notFoundTtl !== undefined);
}

function whyNotKept({ status, fields, unstorable }: Fetched, policy: CachePolicy): string | undefined {
  if (!isKeptStatus(status, policy)) return "status";
  if (unstorable !== undefined) return unstorable;
  const varies = fieldValue(fields, "vary")?.split(",") ?? [];
  return varies.some((name) => name.trim() === "*") ? "vary" : undefined;
}

function whyUseless({ receivedAt }: Fetched, entry: Entry, isKnown: Freshness["isKnown"]): string | undefined {
  if (!isKnown) return "ttl";
  return usableUntil(entry) <= receivedAt && entry.validators === undefined ? "old-on-arrival" : undefined;
}

/** The instant from which on an entry is never served; its validators may still be of use. */
export function usableUntil({ freshUntil, refreshUntil, errorUntil }: Entry): number {
  return Math.max(freshUntil, refreshUntil, errorUntil);
}

/** Copies a body that is a small part of a larger buffer, which would be kept with it. */
function ownBytes(body: Buffer): Buffer {
  if (body.buffer.byteLength - body.length <= body.length * MAX_SLACK) return body;
  const copy = Buffer.allocUnsafeSlow(body.length);
  body.copy(copy);
  return copy;
}
