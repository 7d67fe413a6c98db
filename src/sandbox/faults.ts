import type { Duration } from "../clock.ts";
import type { Operation } from "../spec/operations.ts";
import type { Call } from "./call-log.ts";
import type { Random } from "./random.ts";

/** Faults that give a whole, well-formed HTTP answer, but the wrong one. */
export type SpoiledAnswer =
  | { kind: "status"; status: number; body?: string; contentType?: string; retryAfter?: string }
  | { kind: "html-404" }
  | { kind: "html-502" }
  | { kind: "429"; retryAfter?: string }
  /** 200 and JSON's content type, but no JSON. */
  | { kind: "not-json" }
  /** The right body as text/plain. */
  | { kind: "wrong-type" }
  | { kind: "redirect"; location?: string }
  /** Content-Encoding gzip, whatever the request accepts. */
  | { kind: "gzip" }
  /** A Content-Encoding that no client knows. */
  | { kind: "bad-coding" }
  /** Answers as the registry of another admin does. */
  | { kind: "wrong-admin"; admin?: string };

/** Faults in the connection or in HTTP itself. */
export type BrokenAnswer =
  /** The connection is reset instead of answered. */
  | { kind: "reset" }
  /** No answer, and the connection stays open. */
  | { kind: "hang" }
  /** The head of the right answer, then nothing. */
  | { kind: "hang-body" }
  /** Half of the right body, then the connection ends; `framing` says how a client can notice. */
  | { kind: "truncate"; framing?: "content-length" | "chunked" }
  /** Something that is not HTTP. */
  | { kind: "garbage" }
  /** A JSON body of `bytes` bytes; chunked unless its length is `announced`. */
  | { kind: "oversize"; bytes: number; announced?: boolean };

/** The right answer, late. */
interface SlowAnswer {
  kind: "slow";
  delay: Duration;
}

/** Which calls a fault befalls; by default all, always. */
export interface FaultScope {
  /** Share of the calls, 0 to 1, drawn from the registry's seed. */
  rate?: number;
  operations?: readonly Operation[];
  /** The number of calls after which the fault is gone. */
  times?: number;
}

export type CallFault = SpoiledAnswer | BrokenAnswer | SlowAnswer;

const BREAKING: ReadonlySet<CallFault["kind"]> = new Set<BrokenAnswer["kind"]>([
  "reset",
  "hang",
  "hang-body",
  "truncate",
  "garbage",
  "oversize",
]);

/** Whether the fault lies in the connection or in HTTP itself. */
export function isBreaking(fault: SpoiledAnswer | BrokenAnswer): fault is BrokenAnswer {
  return BREAKING.has(fault.kind);
}

/** Part of the API of version 2: clients wait and ask again. */
const BEING_REASSIGNED = '{"error":"The contract is being reassigned to another synchronizer. Try again later."}';

/** Faults that need no words, by the names that people give them. */
const NAMED: Readonly<Record<string, CallFault>> = {
  "409": { kind: "status", status: 409, body: BEING_REASSIGNED },
  "429": { kind: "429", retryAfter: "5" },
  "html-404": { kind: "html-404" },
  "html-502": { kind: "html-502" },
  "not-json": { kind: "not-json" },
  "wrong-type": { kind: "wrong-type" },
  redirect: { kind: "redirect" },
  gzip: { kind: "gzip" },
  "bad-coding": { kind: "bad-coding" },
  "wrong-admin": { kind: "wrong-admin" },
  reset: { kind: "reset" },
  hang: { kind: "hang" },
  "hang-body": { kind: "hang-body" },
  truncate: { kind: "truncate" },
  garbage: { kind: "garbage" },
  oversize: { kind: "oversize", bytes: 16 * 1024 * 1024 },
  slow: { kind: "slow", delay: 5_000 },
};

export const FAULT_NAMES: readonly string[] = Object.keys(NAMED);

/** The fault of this name, or an error of this status from 400 to 599; undefined where there is none. */
export function faultNamed(name: string): CallFault | undefined {
  if (Object.hasOwn(NAMED, name)) return NAMED[name];
  return /^[45][0-9]{2}$/.test(name) ? { kind: "status", status: Number(name) } : undefined;
}

/** What a request says to get a fault: `…/info?fault=429`. */
export const FAULT_QUERY = "fault";

/** An id of this name asks for a fault as well: `fault-429`. */
const FAULT_ID = /^fault-([a-z0-9-]{1,20})$/;
const FAULT_ID_IN_BODY = /"fault-([a-z0-9-]{1,20})"/;

/**
 * The fault that a request asks for: by its query, or by an id or page token in its path, query or body, since a gateway
 * in front drops queries but passes ids on.
 */
export function faultAskedFor(url: string, body: Buffer): CallFault | undefined {
  const [path = "", query = ""] = url.split("?", 2);
  const parameters = new URLSearchParams(query);
  const ids = [...path.split("/"), parameters.get("pageToken") ?? ""];
  const named = ids.map((each) => FAULT_ID.exec(each)?.[1]).find((name) => name !== undefined);
  const name = parameters.get(FAULT_QUERY) ?? named ?? FAULT_ID_IN_BODY.exec(body.toString("latin1"))?.[1];
  return name === undefined ? undefined : faultNamed(name);
}

/** `refuse`: the listener is closed and all connections with it. */
export type Fault = { kind: "refuse" } | (CallFault & FaultScope);

/** Of how many ids the faults are kept; the oldest goes. */
const MAX_IDS = 1_000;

/** Whether a request names `id`: as its endpoint, in its path or page token, or as a text in its body. */
function isNamedBy(id: string, { operation, url, body }: FaultyCall): boolean {
  if (operation === id) return true;
  const [path = "", query = ""] = url.split("?", 2);
  if (new URLSearchParams(query).get("pageToken") === id || body.includes(JSON.stringify(id))) return true;
  return path.split("/").some((segment) => decodeSegment(segment) === id);
}

/** As it is where it is no good encoding. */
function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** What of a call says whether a fault is meant for it. */
type FaultyCall = Pick<Call, "operation" | "url" | "body">;

interface ActiveFault {
  fault: CallFault & FaultScope;
  left: number;
}

/** Turns the listener off or on; resolves when it is so. */
export type SetListening = (isListening: boolean) => Promise<void>;

/** The faults that are in force at one registry. */
export class FaultKnobs {
  private readonly random: Random;
  private readonly setListening: SetListening;
  private active: ActiveFault[] = [];
  private readonly byId = new Map<string, ActiveFault>();
  private refuses = false;

  constructor(random: Random, setListening: SetListening) {
    this.random = random;
    this.setListening = setListening;
  }

  /**
   * Puts exactly these faults in force, at once except for `refuse`, which is in force when the promise resolves. Of
   * several, the first that befalls a call decides.
   */
  async set(...faults: readonly Fault[]): Promise<void> {
    this.active = faults
      .filter((fault) => fault.kind !== "refuse")
      .map((fault) => ({ fault, left: fault.times ?? Infinity }));
    const refuses = faults.some((fault) => fault.kind === "refuse");
    if (refuses === this.refuses) return;
    this.refuses = refuses;
    await this.setListening(!refuses);
  }

  /** Lets the next `times` calls that name `id` have this fault; 0 ends it. */
  failFor(id: string, fault: CallFault, times: number): void {
    this.byId.delete(id);
    if (times <= 0) return;
    this.byId.set(id, { fault, left: times });
    if (this.byId.size > MAX_IDS) this.byId.delete(this.byId.keys().next().value!);
  }

  /** Ends all faults. */
  async clear(): Promise<void> {
    this.byId.clear();
    await this.set();
  }

  /** The fault that befalls a call, if any: one for an id that it names before those for all. */
  draw(call: FaultyCall): CallFault | undefined {
    for (const [id, entry] of this.byId) {
      if (!isNamedBy(id, call)) continue;
      entry.left -= 1;
      if (entry.left === 0) this.byId.delete(id);
      return entry.fault;
    }
    const { operation } = call;
    for (const entry of this.active) {
      const { rate = 1, operations } = entry.fault;
      if (entry.left <= 0 || (operations !== undefined && !operations.includes(operation))) continue;
      if (rate < 1 && this.random() >= rate) continue;
      entry.left -= 1;
      return entry.fault;
    }
    return undefined;
  }
}
