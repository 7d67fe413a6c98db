import type { Clock, Duration } from "../clock.ts";
import { type DiscoveryObserver, REGISTRY_STATES } from "../discovery/report.ts";
import { Recurrence } from "../recurrence.ts";
import type { Logger } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import { hashId, withoutSecrets } from "./redaction.ts";

/** The same about the same registry is logged no more often: lists that go back and forth do not fill the log. */
const REMINDER: Duration = 3_600_000;
const MOST_REMEMBERED = 4_000;

/** Counts what discovery does, and logs each thing once. Parties are named by hashes; addresses only where one was mended, which is public. */
export function createDiscoveryObserver(metrics: Metrics, log: Logger, clock: Clock): DiscoveryObserver {
  const now = () => clock.wallNow() / 1000;
  const recurrence = new Recurrence(clock, { every: REMINDER, most: MOST_REMEMBERED });
  /** Sources whose fault was logged, and is not over. */
  const faulty = new Set<string>();
  return {
    ran: (outcome) => metrics.discoveryRuns.inc({ outcome }),
    sources(names, every) {
      metrics.discoveryEvery.set(every / 1000);
      metrics.discoverySourceSuccess.reset();
      for (const source of names) metrics.discoverySourceSuccess.set({ source }, now());
    },
    ended() {
      metrics.discoveryEvery.set(0);
      metrics.discoverySourceSuccess.reset();
      metrics.discoveryRegistries.reset();
      metrics.discoveryPinFileUnusable.set(0);
      recurrence.end();
      faulty.clear();
    },
    sourceRead(source, fault) {
      if (fault === undefined) {
        metrics.discoverySourceSuccess.set({ source }, now());
        if (faulty.delete(source)) log.info({ source }, "discovery source can be read again");
      } else if (!faulty.has(source) && recurrence.isDue(`fault ${source}`)) {
        faulty.add(source);
        log.warn({ source, reason: withoutSecrets(fault) }, "discovery source fails");
      }
    },
    sourceShrank(source, before, after) {
      if (!recurrence.isDue(`shrank ${source}`)) return;
      log.warn({ source, before, after }, "discovery source lists fewer registries");
    },
    registries(counts) {
      for (const state of REGISTRY_STATES) metrics.discoveryRegistries.set({ state }, counts[state]);
    },
    ...registryReports(log, recurrence),
    pinFile(fault) {
      metrics.discoveryPinFileUnusable.set(fault === undefined ? 0 : 1);
      if (fault === undefined) log.info({}, "pin file can be used again");
      else log.error({ reason: withoutSecrets(`the file ${fault}`) }, "pin file cannot be used");
    },
    pinsBegunAnew: (fromRedis) => log.warn({ fromRedis }, "pin file is not there"),
    failed: (why) => log.error({ reason: withoutSecrets(why) }, "found registries cannot be used"),
  };
}

type RegistryReports = Pick<
  DiscoveryObserver,
  "pinned" | "mended" | "waiting" | "stranger" | "unproved" | "unasked" | "tooMany"
>;

/** What is logged of the registries that are listed, each thing once in a while. */
function registryReports(log: Logger, recurrence: Recurrence): RegistryReports {
  return {
    pinned({ name, admin, ...listed }, digest) {
      if (!recurrence.isDue(`pinned ${admin} ${digest}`)) return;
      log.info({ upstream: name, admin: hashId(admin), ...listed }, "registry pinned");
    },
    mended({ name, admin }, { from, to }) {
      if (recurrence.isDue(`mended ${admin} ${from}`)) log.warn({ upstream: name, from, to }, "registry URL mended");
    },
    waiting({ name, admin, ...listed }) {
      if (!recurrence.isDue(`waiting ${admin}`)) return;
      log.warn({ upstream: name, admin: hashId(admin), ...listed }, "registry waits for approval");
    },
    stranger({ name, admin }, named) {
      if (!recurrence.isDue(`stranger ${admin}`)) return;
      log.warn({ upstream: name, named: hashId(named) }, "listed URL is another registry");
    },
    unproved({ name, admin }, why) {
      if (!recurrence.isDue(`unproved ${admin}`)) return;
      log.warn({ upstream: name, reason: withoutSecrets(why) }, "listed registry is not proved");
    },
    unasked(urls) {
      if (recurrence.isDue("unasked")) log.warn({ urls }, "listed registries are asked later");
    },
    tooMany(max, listed) {
      if (recurrence.isDue("surplus")) log.warn({ max, listed }, "more registries are listed than discovery.max");
    },
  };
}
