import type { Clock, Duration } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import { isObject, membersAt, parseJson, quote } from "../json.ts";
import type { Logger } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { Sharing } from "../sharing/ports.ts";
import type { Upstreams } from "../upstream/upstreams.ts";
import type { PurgeAnswer } from "./types.ts";

/** Longest wait for a registry to name its admin, under which its entries are kept. */
const LONGEST_WAIT: Duration = 1_000;

/** Name and address of the operator who purges: for the log. */
interface PurgedBy {
  readonly by: string;
  readonly from: string;
}

interface PurgeOptions {
  readonly sharing: Pick<Sharing, "purges">;
  readonly metrics: Pick<Metrics, "purged">;
  readonly log: Logger;
  readonly clock: Clock;
  readonly upstreams: () => Upstreams;
}

/**
 * Purges everything, or what is stored of one registry. One line of the log says who did so.
 *
 * @param body as it came: `{}` or `{"upstream": name}`
 * @throws GatewayError 400 for another body, 404 for a name that no upstream has, 503 `admin_not_known_yet`, and 503
 * `purge_pending` where it holds here and Redis is away
 */
export async function purge(body: string, { by, from }: PurgedBy, options: PurgeOptions): Promise<PurgeAnswer> {
  const upstream = upstreamOf(body);
  const party = upstream === undefined ? undefined : await partyOf(upstream, options);
  const outcome = await options.sharing.purges.purge(party);
  options.metrics.purged(outcome);
  options.log.info({ upstream: upstream ?? "all", by, from, outcome }, "purged");
  if (outcome === "done") return { purged: upstream ?? null };
  const text =
    "purged in this replica alone: Redis is away, and the others learn of it when Redis is back; where it must hold now, purge " +
    "each of them";
  throw new GatewayError("purge_pending", text);
}

/** The name of the upstream that a purge means; undefined: everything. */
function upstreamOf(body: string): string | undefined {
  const parsed = parseJson(body);
  const keys = isObject(parsed) ? [...membersAt(body, 0)].map(({ key }) => key) : undefined;
  const isPurge = keys !== undefined && keys.length <= 1 && keys.every((key) => key === "upstream");
  const upstream = isPurge ? (parsed as { readonly upstream?: unknown }).upstream : undefined;
  if (isPurge && (keys.length === 0 || typeof upstream === "string")) return upstream as string | undefined;
  const text = 'a purge is {} for everything, or {"upstream": "NAME"}, and nothing else; each key once';
  throw new GatewayError("invalid_request", text);
}

async function partyOf(name: string, { upstreams, clock }: PurgeOptions): Promise<string> {
  const upstream = upstreams().byName(name);
  if (upstream === undefined) {
    throw new GatewayError("unknown_upstream", `no enabled upstream has the name ${quote(name)}; see /status for them`);
  }
  // A registry that is not used has one, too.
  if (upstream.admin !== undefined) return upstream.admin;
  try {
    return await upstream.learnAdmin({ deadline: clock.now() + LONGEST_WAIT });
  } catch (cause) {
    const text = `${quote(name)} has not named its admin yet, so nothing was purged; try again, or purge everything: {}`;
    throw new GatewayError("admin_not_known_yet", text, { cause });
  }
}
