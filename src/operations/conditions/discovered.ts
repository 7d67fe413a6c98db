import { sayCount } from "../../words/quantity.ts";
import { because, type Condition } from "./condition.ts";

/** What is wrong with registries that are found, and where they are listed. */
export const DISCOVERY_CONDITIONS = [
  {
    alert: "RegistryGatewayRegistryWaitsForApproval",
    severity: "warning",
    subject: "gateway",
    isCause: true,
    for: "10m",
    find: ({ discovery }) => {
      const waiting = discovery.registries.filter(({ state }) => state === "waiting").length;
      return waiting === 0
        ? []
        : [{ text: `${sayCount(waiting, "found registry waits", "found registries wait")} for approval` }];
    },
  },
  {
    alert: "RegistryGatewayDiscoverySourceFails",
    severity: "warning",
    subject: "gateway",
    isCause: true,
    for: "5m",
    find: ({ discovery }) =>
      discovery.sources.flatMap(({ name, lastError }) =>
        lastError === null ? [] : [{ text: `the source ${name} cannot be read${because(lastError)}` }],
      ),
  },
  {
    alert: "RegistryGatewayRegistriesGoneFromList",
    severity: "warning",
    subject: "gateway",
    isCause: true,
    for: "1h",
    find: ({ discovery }) => {
      const gone = discovery.registries.filter(({ state }) => state === "gone").length;
      return gone === 0
        ? []
        : [{ text: `${sayCount(gone, "registry is", "registries are")} used and no source lists them` }];
    },
  },
  {
    alert: "RegistryGatewayPinFileUnusable",
    severity: "warning",
    subject: "replica",
    isCause: true,
    for: "5m",
    find: ({ discovery: { pinFileError } }) =>
      pinFileError === null ? [] : [{ text: `discovery.pinFile cannot be used${because(pinFileError)}` }],
  },
] as const satisfies readonly Condition[];
