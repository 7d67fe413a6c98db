import { gzip } from "node:zlib";
import { fieldValue } from "../fields.ts";
import { directivesOf } from "./freshness.ts";
import type { Entry } from "./types.ts";

/** Smaller bodies gain nothing: one packet either way. */
const MIN_BYTES = 1_024;
/** A coded form that is not half as long is not kept: memory counts half a body for it beforehand. */
const MOST_SHARE = 0.5;
/** At once: threads of the pool, which look up names, too. */
const MAX_RUNNING = 2;
/** Beyond it an entry is not coded now, but when it is next asked for. */
const MAX_WAITING = 200;

/** `asked`: once; what is served once is not worth coding. `never`: it may not be, or it gains nothing. */
type State = "asked" | "waiting" | "never" | Buffer;

const states = new WeakMap<Entry, State>();
const waiting: Entry[] = [];
let running = 0;

/** Whether an entry has, or may get, a coded form (RFC 9111 §5.2.2.6: not under `no-transform`). */
export function isCodable({ status, body, fields }: Entry): boolean {
  if (status !== 200 || body.length < MIN_BYTES) return false;
  return !directivesOf(fieldValue(fields, "cache-control") ?? "").has("no-transform");
}

/** Bytes of memory that an entry's coded form may take. */
export function codedBytes({ body }: Entry): number {
  return body.length < MIN_BYTES ? 0 : body.length * MOST_SHARE;
}

/** An entry's body in gzip, made once in the background from the second time on that it is asked for; undefined: not there yet. */
export function gzipOf(entry: Entry): Buffer | undefined {
  const state = states.get(entry);
  if (typeof state === "object") return state;
  if (state === undefined) states.set(entry, isCodable(entry) ? "asked" : "never");
  if (state !== "asked" || waiting.length >= MAX_WAITING) return undefined;
  states.set(entry, "waiting");
  waiting.push(entry);
  next();
  return undefined;
}

function next(): void {
  if (running >= MAX_RUNNING) return;
  const entry = waiting.shift();
  if (entry === undefined) return;
  running += 1;
  gzip(entry.body, (error, coded) => {
    running -= 1;
    const isWorth = error === null && coded.length <= entry.body.length * MOST_SHARE;
    states.set(entry, isWorth ? coded : "never");
    next();
  });
}
