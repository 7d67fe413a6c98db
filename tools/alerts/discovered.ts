import type { DISCOVERY_CONDITIONS } from "../../src/operations/conditions/discovered.ts";
import { aggregate } from "../promql.ts";
import { JOB, q } from "../recording.ts";
import { above0, type AlertsOf } from "./alert.ts";

const SINCE_READ = `(time() - ${aggregate("max", [...JOB, "source"], q.series("discoverySourceSuccess"))})`;

/** Of registries that are found, and where they are listed. */
export const DISCOVERY_ALERTS: AlertsOf<typeof DISCOVERY_CONDITIONS> = {
  RegistryGatewayRegistryWaitsForApproval: {
    conditions: above0(aggregate("max", JOB, q.over("5m").highest("discoveryRegistries", { state: "waiting" }))),
    summary: "{{ $value }} registries are listed anew or elsewhere, and wait for an operator",
    runbook: {
      means:
        "Clients notice nothing of a registry that moved while its old URLs answer; one that is new is 404 to them. A party that wants to answer in a registry's place may also have altered the list.",
      look: "registry-gateway discovery, or GET /discovery: what is used, what is proposed, since when and by which source.",
      act: "Ask the registry's operator whether the URLs are theirs, by another way than the list. Then registry-gateway discovery approve ADMIN, or refuse ADMIN.",
    },
  },
  RegistryGatewayDiscoverySourceFails: {
    conditions: [
      { value: SINCE_READ, is: ">", bound: 7_200 },
      // One that is read twice a day is well for half a day.
      {
        value: `${SINCE_READ} / on (job) group_left () ${aggregate("max", JOB, q.series("discoveryEvery"))}`,
        is: ">",
        bound: 3,
      },
    ],
    summary: "The source {{ $labels.source }} was not read without a fault for {{ $value | humanizeDuration }}",
    runbook: {
      means:
        "Registries that were found go on being used. Registries that are new in the list, or have moved, are not known.",
      look: 'registry-gateway discovery says what is wrong with it; so does the log: "discovery source fails".',
      act: "Fetch the URL from the gateway's machine. A list has at most 4 MiB, is JSON, and is not redirected; at least discovery.sources[].agree scans have to answer alike. check --live reads the sources without changing anything.",
    },
  },
  RegistryGatewayRegistriesGoneFromList: {
    conditions: above0(aggregate("max", JOB, q.over("5m").highest("discoveryRegistries", { state: "gone" }))),
    summary: "{{ $value }} registries are used and no source lists them any more",
    runbook: {
      means:
        "Clients notice nothing while the registries answer. A registry may have been closed, or its list be broken.",
      look: "registry-gateway discovery names those with the state gone.",
      act: "A list that lost many at once is broken: report it to its publisher. A registry that is closed is taken away by registry-gateway discovery approve ADMIN.",
    },
  },
  RegistryGatewayPinFileUnusable: {
    conditions: above0(aggregate("max", JOB, q.over("5m").highest("discoveryPinFileUnusable"))),
    summary: "discovery.pinFile cannot be read or written",
    runbook: {
      means:
        "Pinned registries go on being used by this process, and by replicas with Redis. After a restart without Redis it is not known where a registry was found first. While the file is broken, new registries wait for approval.",
      look: 'The log: "pin file cannot be used" says why.',
      act: "Give the gateway's user the right to write the file and its folder. Put a broken file back from a backup, or take it away where all that the lists say now can be trusted; it is read again at the next reading of the sources.",
    },
  },
};
