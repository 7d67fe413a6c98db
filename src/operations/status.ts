import { hostname } from "node:os";
import type { GatewayState } from "../observe/state.ts";
import type { TotalsCounter } from "../observe/totals.ts";
import { version } from "../version.ts";
import { healthOf } from "./health.ts";
import type { Status } from "./types.ts";

interface StatusOptions {
  /** Port of the operations listener: replicas of one machine differ by it. */
  readonly port: number;
  readonly prefix: string;
  /** When the process began, Unix ms. */
  readonly since: number;
  readonly isReady: boolean;
  readonly isDraining: boolean;
  readonly totals: Pick<TotalsCounter, "all" | "of">;
}

/** Makes the answer to `GET /status`. */
export function statusOf(
  state: GatewayState,
  { port, prefix, since, isReady, isDraining, totals }: StatusOptions,
): Status {
  return {
    version,
    replica: `${hostname()}:${port}`,
    prefix,
    digest: state.digest,
    since,
    now: state.now,
    isReady,
    isDraining,
    health: healthOf(state),
    redis: state.redis,
    reload: state.reload,
    certificates: state.certificates,
    cache: state.cache,
    totals: totals.all,
    upstreams: state.upstreams.map((upstream) => ({ ...upstream, totals: totals.of(upstream.name) })),
  };
}
