import { gzip } from "node:zlib";
import { fieldValue } from "../fields.ts";
import { directivesOf } from "./freshness.ts";
import type { Entry } from "./types.ts";

/** Bodies that are smaller gain nothing: one packet either way. */
const MIN_BYTES = 1_024;
/** Share of a body that its coded form may have: a longer one is not kept. Memory counts it beforehand. */
const MAX_SHARE = 0.5;
/** Threads that code at once: they are of the pool that looks up names, too. */
const MAX_RUNNING = 2;
/** Entries that wait to be coded. Beyond it an entry is not coded now, but when it is next asked for. */
const MAX_WAITING = 200;

/** `asked`: served once, which is not worth coding. `never`: it may not be coded, or gains nothing. Else the coded form. */
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
  return body.length < MIN_BYTES ? 0 : body.length * MAX_SHARE;
}

/** Gives an entry's body in gzip, which is made in the background when it is asked for twice; undefined: it is not there. */
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
    const isWorth = error === null && coded.length <= entry.body.length * MAX_SHARE;
    states.set(entry, isWorth ? coded : "never");
    next();
  });
}
