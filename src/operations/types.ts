import type { ClientReport } from "../clients/client.ts";
import type { CertificateEnd } from "../observe/certificates.ts";
import type { RequestLine } from "../observe/request-log.ts";
import type { ReloadState } from "../observe/state.ts";
import type { Totals, UpstreamTotals } from "../observe/totals.ts";
import type { RegistryExplanation } from "../registry/registry.ts";
import type { SharingStatus } from "../sharing/ports.ts";
import type { UpstreamStatus } from "../upstream/types.ts";

/** Answers of the operations listener, as JSON: the border of this folder. The console and the commands show them. */

/** `warning`: within a day. `page`: now. */
export type HealthLevel = "well" | "warning" | "page";

/** A line about one registry, or one part of the gateway; each has one line at most. */
export interface HealthLine {
  readonly subject: "registry" | "redis" | "replica" | "certificate" | "reload";
  /** A registry's alias, else the subject in words: `Redis`, `the certificate of listen.tls.certFile`. */
  readonly name: string;
  readonly level: HealthLevel;
  /** Printable, cause first, times in UTC: `bonds is down since 13:11: its only node refused the connection`. */
  readonly text: string;
  /** Effect that clients notice, one sentence; undefined: none. */
  readonly effect?: string;
  /** When it began, Unix ms; undefined: all is well, or it is not known. */
  readonly since?: number;
  /** Anchor of the section of `docs/runbooks.md` that says what to do; undefined: nothing, and `status` leaves the line out. */
  readonly runbook?: string;
}

/** Health of the gateway, from states alone: no rates. Nothing of it stays when the cause is gone. */
export interface Health {
  /** The worst of the lines. */
  readonly level: HealthLevel;
  /** The worst line, and how many more there are. */
  readonly sentence: string;
  /** Every registry, then what else is wrong; the worst first. */
  readonly lines: readonly HealthLine[];
}

/** `GET /status`. Times are Unix ms. */
export interface Status {
  readonly version: string;
  /** The machine's name and the operations listener's port: which replica this is. */
  readonly replica: string;
  /** `routing.prefix`: one registry is at `{prefix}/{name}` of the public listener. */
  readonly prefix: string;
  /** Twelve hex digits: two replicas that show the same ones have the same configuration. */
  readonly digest: string;
  /** When the process began. */
  readonly since: number;
  /** When this was said: readers count `ago` from it. */
  readonly now: number;
  readonly isReady: boolean;
  readonly isDraining: boolean;
  readonly health: Health;
  readonly redis: SharingStatus;
  readonly reload: ReloadState;
  readonly certificates: readonly CertificateEnd[];
  readonly cache: { readonly bytes: number; readonly entries: number; readonly maxBytes: number };
  /** Counted since the process began; two of them give rates. */
  readonly totals: Totals;
  readonly upstreams: readonly (UpstreamStatus & { readonly totals: UpstreamTotals })[];
}

/** `POST /purge`. With Redis away it is the 503 `purge_pending` instead. */
export interface PurgeAnswer {
  /** The upstream's name; null: everything. */
  readonly purged: string | null;
}

/** `GET /explain?path=…`: which registry a path means, and what the cache has and would do. */
export interface ExplainAnswer {
  readonly upstream: string;
  readonly admin?: string;
  readonly operation: string;
  /** Sentences about the next request, then about what is stored. */
  readonly text: readonly string[];
  /** Undefined: its answers are never kept. */
  readonly cache?: RegistryExplanation;
}

/** `GET /requests`: the last 500, the latest first. */
export interface RequestsAnswer {
  readonly requests: readonly RequestLine[];
}

/** `GET /clients`: who may call, and what each used since the process began. */
export interface ClientsAnswer {
  /** False: everybody may call, without limits, and nobody has a name. */
  readonly isConfigured: boolean;
  readonly clients: readonly ClientReport[];
}
