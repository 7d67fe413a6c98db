/**
 * What the operations listener answers, as JSON: for the console, which imports nothing else of the gateway. Types alone.
 */
import type { PurgeReach } from "../sharing/ports.ts";
import type { ReplicaReport, ReplicasReached } from "../sharing/replicas.ts";
import type { KeptKind } from "../registry/metadata-key.ts";
import type { DiscoveryDecision, DiscoveryReport } from "../discovery/report.ts";
import type { HistoryReport } from "../observe/history.ts";
import type { RequestsReport } from "../observe/request-log.ts";
import type { ActResult } from "./actions.ts";
import type { AuditPage } from "./audit.ts";
import type { ClientsReport } from "./clients-report.ts";
import type { Health } from "./conditions/health.ts";
import type { ConfigReport } from "./config-report.ts";
import type { PathExplanation } from "./explain.ts";
import type { PurgeResult } from "./purge.ts";
import type { ReplicasReport } from "./replicas.ts";
import type { ProcessStatus } from "./status.ts";

/** A value of which every key is there: what is undefined is null. */
type Nulled<Value> = Value extends undefined
  ? null
  : Value extends readonly (infer Item)[]
    ? readonly Nulled<Item>[]
    : Value extends object
      ? { readonly [Key in keyof Value]: Nulled<Value[Key]> }
      : Value;

/** `GET /status` */
export type StatusAnswer = Nulled<ProcessStatus> & {
  readonly version: string;
  readonly uptimeSeconds: number;
  /** The one that answers; `GET /replicas` has it among the others. */
  readonly replica: ReplicaReport;
  /** The same list of conditions that the alerts come from. */
  readonly health: Health;
};

/** `GET /history?since=<milliseconds since the Unix epoch>` */
export type HistoryAnswer = HistoryReport;

/** `GET /requests?limit=&since=<cursor>&outcome=&code=&upstream=&client=` */
export type RequestsAnswer = RequestsReport;

/** `GET /audit?before=&limit=` */
export type AuditAnswer = AuditPage;

/** `GET /replicas` */
export type ReplicasAnswer = ReplicasReport;

/** `GET /clients` */
export type ClientsAnswer = ClientsReport;

/** `GET /config` */
export type ConfigAnswer = ConfigReport;

/** `GET /explain?path=` */
export type ExplainAnswer = PathExplanation;

/** Entries of the memory tier. */
export interface EntryCount {
  /** Variants count each for itself. */
  readonly entries: number;
  /** Bodies, compressed copies included, and fields. */
  readonly bytes: number;
}

/** `notFound`: what an upstream said is not there, and errors that were stored as it asked. */
export type CachedKind = KeptKind | "notFound";

/** Entries of one kind of one registry. */
export interface CacheGroup extends EntryCount {
  /** Null: of registries that are configured no more, or not known to this process. */
  readonly upstream: string | null;
  readonly kind: CachedKind;
  /** Of them, those past their freshness. */
  readonly stale: number;
  /** How old the oldest is, for how long it is or was fresh from its birth, and for how long it may still be served. */
  readonly oldest: { readonly ageMs: number; readonly lifetimeMs: number; readonly usableForMs: number } | null;
}

/** `GET /cache`; with `upstream`, `endpoint` and `instrument` as `POST /purge` takes them, or `all=true`, what that would take. */
export interface CacheContents {
  /** Variants that can still be used, by registry and kind. */
  readonly groups: readonly CacheGroup[];
  /** What was purged and has not been overwritten or evicted yet. */
  readonly purged: EntryCount;
  /** What the purge that the query names would take from memory; null where it names none. */
  readonly selected: EntryCount | null;
  /** The tier behind the memory: its entries are not counted. */
  readonly behind: "redis" | null;
}

/** `GET`, `POST` and `DELETE /session` */
export interface SessionAnswer {
  /** Everything else is answered: there is a session, or none is needed. */
  readonly signedIn: boolean;
  /** There is an operations token. */
  readonly tokenNeeded: boolean;
  /** Who signed in, of `operations.tokens`; null: no sign-in, or one with the token that has no name. */
  readonly operator: string | null;
  /** `operations.readonly`, or of this operator's token: nothing can be done from here. */
  readonly readonly: boolean;
  readonly version: string;
  /** When the session ends (RFC 3339); null: there is none. */
  readonly expiresAt: string | null;
}

/** Where what an operator did has effect: in the answer to each `POST` with 200. */
interface Reached {
  readonly scope: PurgeReach;
  readonly replicas: ReplicasReached;
}

/** `POST /purge` */
export interface PurgeAnswer extends Reached, Pick<PurgeResult, "purged"> {}

/** `POST /nodes` and `POST /upstreams` */
export interface ActAnswer extends Reached, Pick<ActResult, "action"> {}

/** `GET /discovery` */
export type DiscoveryAnswer = DiscoveryReport;

/** `POST /discovery` */
export interface DiscoveryDecisionAnswer extends Reached, Pick<DiscoveryDecision, "registry"> {}

/** Every refusal. Its code is in the header `Registry-Gateway-Error`. */
export interface ErrorAnswer {
  readonly error: string;
}
