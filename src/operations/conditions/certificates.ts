import { DAY } from "../../clock.ts";
import { BOUNDS, type Condition, type Facts, type Seen } from "./condition.ts";

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

const OF_A_CERTIFICATE = { subject: "gateway", isCause: true } as const;

/** Certificates that have ended, or are about to. */
export const CERTIFICATE_CONDITIONS = [
  {
    ...OF_A_CERTIFICATE,
    alert: "RegistryGatewayCertificateEnded",
    severity: "page",
    for: "0m",
    find: (facts) => ending(facts, 0),
  },
  {
    ...OF_A_CERTIFICATE,
    alert: "RegistryGatewayCertificateEnds",
    severity: "page",
    for: "15m",
    find: (facts) => ending(facts, BOUNDS.certificateEnds.days, 0),
  },
  {
    ...OF_A_CERTIFICATE,
    alert: "RegistryGatewayCertificateEndsSoon",
    severity: "warning",
    for: "15m",
    find: (facts) => ending(facts, BOUNDS.certificateEndsSoon.days, BOUNDS.certificateEnds.days),
  },
] as const satisfies readonly Condition[];
