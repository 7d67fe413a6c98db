import { DAY } from "../../clock.ts";
import { aggregate } from "../../observe/metrics/promql.ts";
import type { Condition, Facts, Seen } from "./condition.ts";
import { q, UPSTREAM } from "./recording.ts";

/** Certificates that end within these days, as a sentence each. */
function ending({ certificates, upstreams, wallNow }: Facts, within: number, from = -Infinity): readonly Seen[] {
  const own = certificates.map((each) => ({ ...each, whose: "the gateway's", upstream: undefined }));
  const theirs = upstreams.flatMap(({ name, certificates: list }) =>
    list.map((each) => ({ ...each, whose: `${name}'s`, upstream: name })),
  );
  return [...own, ...theirs].flatMap(({ role, expiresAt, whose, upstream }) => {
    const left = Date.parse(expiresAt) - wallNow;
    if (!(left < within * DAY) || left < from * DAY) return [];
    const text = `${whose} certificate (${role.replaceAll("_", " ")}) ${left < 0 ? "ended" : "ends"} on ${expiresAt}`;
    return [{ text, ...(upstream !== undefined && { upstream }) }];
  });
}

/** What certificates that end within these days have in common; 0: those that have ended. */
function endsWithin(days: number) {
  const value = aggregate("min", [...UPSTREAM, "role"], q.series("certificateExpiry"));
  return {
    subject: "gateway",
    isCause: true,
    conditions: [{ value, is: "<", bound: days * 86_400 }],
    for: days === 0 ? "0m" : "15m",
    summary: `A certificate ${days === 0 ? "has ended" : `ends within ${days} days`}: {{ $labels.role }}, upstream {{ $labels.upstream }}`,
    runbook: {
      means:
        "Once it has ended, no connection is made with it: listener, clients cannot connect; client_authority, clients by certificate cannot; client, the registry refuses the gateway; node and authority, the gateway refuses the registry; redis, replicas no longer share.",
      look: "GET /status: certificates, and those of each upstream, with their ends.",
      act: "Put a new file in the place of the old one: those of listen.tls and of upstreams are read again within seconds, those of redis at the next start. node: ask the registry's operator.",
    },
  } as const;
}

/** Certificates that have ended, or are about to. */
export const CERTIFICATE_CONDITIONS: readonly Condition[] = [
  {
    ...endsWithin(0),
    alert: "RegistryGatewayCertificateEnded",
    severity: "page",
    find: (facts) => ending(facts, 0),
  },
  {
    ...endsWithin(3),
    alert: "RegistryGatewayCertificateEnds",
    severity: "page",
    find: (facts) => ending(facts, 3, 0),
  },
  {
    ...endsWithin(14),
    alert: "RegistryGatewayCertificateEndsSoon",
    severity: "warning",
    find: (facts) => ending(facts, 14, 3),
  },
];
