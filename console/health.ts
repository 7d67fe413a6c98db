import type { StatusAnswer } from "../src/operations/answers.ts";

/** How bad something is; each has its colour, its sign and its word. */
export type Tone = "good" | "warn" | "bad" | "off";

type Finding = StatusAnswer["health"]["findings"][number];
type Upstream = StatusAnswer["upstreams"][number];

/** Of a finding; what is good has none. */
export const SEVERITY_TONES: Readonly<Record<Finding["severity"], Tone>> = {
  page: "bad",
  warning: "warn",
  info: "off",
};

const UPSTREAM_TONES: Readonly<Record<Upstream["state"], Tone>> = {
  up: "good",
  unproved: "warn",
  degraded: "warn",
  failing: "bad",
  "wrong-admin": "bad",
  disabled: "off",
};

const NODE_TONES: Readonly<Record<Upstream["nodes"][number]["state"], Tone>> = {
  up: "good",
  unproved: "warn",
  ejected: "bad",
  "wrong-admin": "bad",
};

const SEVERITY: readonly Tone[] = ["bad", "warn", "off", "good"];

/** A gateway of another version may have states that this page does not know. */
export function upstreamTone(state: string): Tone {
  return (UPSTREAM_TONES as Readonly<Record<string, Tone>>)[state] ?? "warn";
}

export function nodeTone(state: string): Tone {
  return (NODE_TONES as Readonly<Record<string, Tone>>)[state] ?? "warn";
}

/** For sorting: the worst first. */
export function severity(tone: Tone): number {
  return SEVERITY.indexOf(tone);
}
