import type { Instant } from "../clock.ts";
import { isObject, parseJson } from "../json.ts";
import type { SharedEntry } from "../sharing/ports.ts";
import { usableUntil } from "./entry.ts";
import type { Condition, Entry } from "./types.ts";

/** An entry's head in Redis. Instants are told in ms before the end of the entry's use: no wall clock takes part. */
interface Head {
  readonly status: number;
  readonly fields: readonly string[];
  readonly etag: string;
  readonly validators: Condition | null;
  readonly clientTtl: number;
  readonly born: number;
  readonly fresh: number;
  readonly refresh: number;
  readonly error: number;
  readonly epoch: number;
  readonly generation: number;
  /** Length of the body. */
  readonly bytes: number;
}

/** Writes an entry for Redis; undefined where its use is over already. */
export function toShared(entry: Entry, now: Instant): SharedEntry | undefined {
  const end = usableUntil(entry);
  if (end <= now) return undefined;
  const head: Head = {
    status: entry.status,
    fields: entry.fields,
    etag: entry.etag,
    validators: entry.validators ?? null,
    clientTtl: entry.clientTtl,
    born: end - entry.bornAt,
    fresh: end - entry.freshUntil,
    refresh: end - entry.refreshUntil,
    error: end - entry.errorUntil,
    epoch: entry.epoch,
    generation: entry.generation,
    bytes: entry.body.length,
  };
  return { head: JSON.stringify(head), body: entry.body, remaining: end - now };
}

/** Reads an entry out of Redis; undefined where it is none, or was cut off. The body is not parsed. */
export function fromShared({ head: text, body, remaining }: SharedEntry, now: Instant): Entry | undefined {
  const head = parseJson(text);
  if (!isHead(head) || head.bytes !== body.length || remaining <= 0) return undefined;
  const end = now + remaining;
  return {
    status: head.status,
    fields: head.fields,
    body,
    etag: head.etag,
    validators: head.validators ?? undefined,
    clientTtl: head.clientTtl,
    bornAt: end - head.born,
    freshUntil: end - head.fresh,
    refreshUntil: end - head.refresh,
    errorUntil: end - head.error,
    epoch: head.epoch,
    generation: head.generation,
  };
}

const NUMBERS = ["status", "clientTtl", "born", "fresh", "refresh", "error", "epoch", "generation", "bytes"] as const;

function isHead(head: unknown): head is Head {
  if (!isObject(head)) return false;
  return (
    NUMBERS.every((name) => typeof head[name] === "number") &&
    typeof head["etag"] === "string" &&
    isFields(head["fields"]) &&
    (head["validators"] === null || isCondition(head["validators"]))
  );
}

function isCondition(value: unknown): boolean {
  return isObject(value) && typeof value["node"] === "string" && isFields(value["fields"]);
}

function isFields(value: unknown): boolean {
  return Array.isArray(value) && value.length % 2 === 0 && value.every((text) => typeof text === "string");
}
