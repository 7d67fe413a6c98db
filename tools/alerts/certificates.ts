import { BOUNDS } from "../../src/operations/conditions/condition.ts";
import type { CERTIFICATE_CONDITIONS } from "../../src/operations/conditions/certificates.ts";
import { aggregate } from "../promql.ts";
import { q, UPSTREAM } from "../recording.ts";
import type { Alert, AlertsOf } from "./alert.ts";

/** Of certificates that end within these days; 0: of those that have ended. */
function endsWithin(days: number): Alert {
  const value = aggregate("min", [...UPSTREAM, "role"], q.series("certificateExpiry"));
  return {
    conditions: [{ value, is: "<", bound: days * 86_400 }],
    summary: `A certificate ${days === 0 ? "has ended" : `ends within ${days} days`}: {{ $labels.role }}, upstream {{ $labels.upstream }}`,
    runbook: {
      means:
        "Once it has ended, no connection is made with it: listener, clients cannot connect; client_authority, clients by certificate cannot; client, the registry refuses the gateway; node and authority, the gateway refuses the registry; redis, replicas no longer share.",
      look: "GET /status: certificates, and those of each upstream, with their ends.",
      act: "Put a new file in the place of the old one: those of listen.tls and of upstreams are read again within seconds, those of redis at the next start. node: ask the registry's operator.",
    },
  };
}

/** Of certificates that have ended, or are about to. */
export const CERTIFICATE_ALERTS: AlertsOf<typeof CERTIFICATE_CONDITIONS> = {
  RegistryGatewayCertificateEnded: endsWithin(0),
  RegistryGatewayCertificateEnds: endsWithin(BOUNDS.certificateEnds.days),
  RegistryGatewayCertificateEndsSoon: endsWithin(BOUNDS.certificateEndsSoon.days),
};
