import { REGISTRY_STATES, RUN_OUTCOMES } from "../../discovery/report.ts";
import { counter, gauge } from "./definition.ts";
import { SOURCE } from "./labels.ts";

/** Registries that are found. */
export const DISCOVERY = {
  discoveryRegistries: gauge("discovery_registries", {
    help: "Registries that are listed or used: found (listed, not proved), pinned (used), waiting (for an operator), gone (used, and listed no more).",
    labels: { state: REGISTRY_STATES },
  }),
  discoveryRuns: counter("discovery_runs", {
    help: "Readings of all sources: success, partial (a source failed, or a registry did not prove its admin), or failure.",
    labels: { outcome: RUN_OUTCOMES },
  }),
  discoverySourceSuccess: gauge("discovery_source_last_success_timestamp_seconds", {
    help: "When a source was last read without a fault, as Unix time; when it was configured, before the first time.",
    labels: { source: SOURCE },
  }),
  discoveryEvery: gauge("discovery_every_seconds", {
    help: "How often the sources are read, as the configuration says.",
  }),
  discoveryPinFileUnusable: gauge("discovery_pin_file_unusable", {
    help: "1 while the file of the pins cannot be read or written: what is pinned does not outlive the process.",
  }),
} as const;
