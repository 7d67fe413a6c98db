import { sayCount } from "../../words/quantity.ts";
import { because, type Condition, ofAll } from "./condition.ts";

/** What is wrong with registries that are found, and where they are listed. */
export const DISCOVERY_CONDITIONS = [
  {
    alert: "RegistryGatewayRegistryWaitsForApproval",
    severity: "warning",
    subject: "gateway",
    isCause: true,
    for: "10m",
    find: ofAll(({ discovery }) => {
      const waiting = discovery.registries.filter(({ state }) => state === "waiting").length;
      if (waiting === 0) return undefined;
      return `${sayCount(waiting, "found registry waits", "found registries wait")} for approval`;
    }),
  },
  {
    alert: "RegistryGatewayDiscoverySourceFails",
    severity: "warning",
    subject: "gateway",
    isCause: true,
    for: "5m",
    find: ofAll(({ discovery }) =>
      discovery.sources
        .filter(({ lastError }) => lastError !== null)
        .map(({ name, lastError }) => `the source ${name} cannot be read${because(lastError)}`),
    ),
  },
  {
    alert: "RegistryGatewayRegistriesGoneFromList",
    severity: "warning",
    subject: "gateway",
    isCause: true,
    for: "1h",
    find: ofAll(({ discovery }) => {
      const gone = discovery.registries.filter(({ state }) => state === "gone").length;
      if (gone === 0) return undefined;
      return `${sayCount(gone, "registry is", "registries are")} used and no source lists them`;
    }),
  },
  {
    alert: "RegistryGatewayPinFileUnusable",
    severity: "warning",
    subject: "replica",
    isCause: true,
    for: "5m",
    find: ofAll(({ discovery: { pinFileError } }) =>
      pinFileError === null ? undefined : `discovery.pinFile cannot be used${because(pinFileError)}`,
    ),
  },
] as const satisfies readonly Condition[];
