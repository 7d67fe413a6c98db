import type { Clock } from "../clock.ts";
import type { DiscoveryObserver } from "../discovery/events.ts";
import { REGISTRY_STATES } from "../discovery/report.ts";
import type { Logger } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import { hashId, withoutSecrets } from "./redaction.ts";

/** Counts and logs what discovery does. Parties are named by hashes; addresses only where one was mended, which is public. */
export function createDiscoveryObserver(metrics: Metrics, log: Logger, clock: Clock): DiscoveryObserver {
  const now = () => clock.wallNow() / 1000;
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
    },
    sourceRead(source, { fault, isNew }) {
      if (fault === undefined) metrics.discoverySourceSuccess.set({ source }, now());
      if (!isNew) return;
      if (fault === undefined) log.info({ source }, "discovery source can be read again");
      else log.warn({ source, reason: withoutSecrets(fault) }, "discovery source fails");
    },
    sourceShrank: (source, before, after) =>
      log.warn({ source, before, after }, "discovery source lists fewer registries"),
    registries(counts) {
      for (const state of REGISTRY_STATES) metrics.discoveryRegistries.set({ state }, counts[state]);
    },
    pinned: ({ name, admin, ...event }) =>
      log.info({ upstream: name, admin: hashId(admin), ...event }, "registry pinned"),
    mended: (upstream, { from, to }) => log.warn({ upstream, from, to }, "registry URL mended"),
    waiting: ({ name, admin, ...event }) =>
      log.warn({ upstream: name, admin: hashId(admin), ...event }, "registry waits for approval"),
    stranger: (upstream, named) => log.warn({ upstream, named: hashId(named) }, "listed URL is another registry"),
    unproved: (upstream, why) => log.warn({ upstream, reason: withoutSecrets(why) }, "listed registry is not proved"),
    unasked: (urls) => log.warn({ urls }, "listed registries are asked later"),
    tooMany: (max, listed) => log.warn({ max, listed }, "more registries are listed than discovery.max"),
    pinFile(fault) {
      metrics.discoveryPinFileUnusable.set(fault === undefined ? 0 : 1);
      if (fault === undefined) log.info({}, "pin file can be used again");
      else log.error({ reason: withoutSecrets(`the file ${fault}`) }, "pin file cannot be used");
    },
    pinsBegunAnew: (fromRedis) => log.warn({ fromRedis }, "pin file is not there"),
    failed: (why) => log.error({ reason: withoutSecrets(why) }, "found registries cannot be used"),
  };
}
