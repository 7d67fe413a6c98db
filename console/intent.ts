import type { CachedOperation } from "../src/spec/operations.ts";
import { type Reached, sayReached } from "../src/words/reached.ts";

/** Something an operator wants done, before it is confirmed. */
export type Intent =
  | {
      readonly kind: "cordon" | "activate" | "weigh";
      readonly upstream: string;
      readonly node: number;
      readonly url: string;
      readonly weight?: number;
      readonly isCordoned?: boolean;
      /** What goes with it, where that is known. */
      readonly undoes?: "cordon" | "weight";
    }
  | { readonly kind: "cache-only" | "normal"; readonly upstream: string }
  | {
      readonly kind: "approve" | "refuse";
      readonly admin: string;
      readonly name: string;
      readonly urls: readonly string[];
    }
  | { readonly kind: "drop"; readonly admin: string; readonly name: string }
  | { readonly kind: "purge"; readonly upstream: string | undefined; readonly soft: boolean };

/** What the operator fills in. */
export interface Answers {
  /** A duration such as `30m`; empty: until it is undone. */
  readonly lasts: string;
  readonly reason: string;
  readonly weight: string;
  readonly force: boolean;
  readonly scope: PurgeScope;
}

/** What a purge takes; `instrument` names one. */
export interface PurgeScope {
  readonly endpoint: "" | CachedOperation;
  readonly instrument: string;
}

export interface Explained {
  readonly title: string;
  /** What happens, sentence by sentence. */
  readonly effects: readonly string[];
  readonly button: string;
  /** It has effect until it is undone or for a while, with a reason: so it can be asked for both. */
  readonly lasts: boolean;
  readonly isDangerous: boolean;
}

const EVERYWHERE = "It has effect on every replica within two seconds.";

/** What the dialog says, before anything is done. */
export function explainIntent(intent: Intent): Explained {
  switch (intent.kind) {
    case "cordon":
      return {
        title: `Cordon node ${intent.node} of ${intent.upstream}?`,
        effects: [
          `${intent.url} gets no new call, retry or hedge. Calls that run end normally, and it goes on being checked.`,
          "Another weight of it ends.",
          EVERYWHERE,
        ],
        button: "Cordon",
        lasts: true,
        isDangerous: true,
      };
    case "activate":
      if (intent.undoes === "weight") {
        return {
          title: `Give node ${intent.node} of ${intent.upstream} its configured weight again?`,
          effects: [`${intent.url} gets its configured share of the calls.`, EVERYWHERE],
          button: "Undo the weight",
          lasts: false,
          isDangerous: false,
        };
      }
      return {
        title: `Let node ${intent.node} of ${intent.upstream} have calls again?`,
        effects: [
          `${intent.url} gets its configured share of the calls. Another weight or cordon of it ends.`,
          EVERYWHERE,
        ],
        button: "Activate",
        lasts: false,
        isDangerous: false,
      };
    case "weigh":
      return {
        title: `Give node ${intent.node} of ${intent.upstream} another weight?`,
        effects: [
          "Each node gets calls in proportion to its weight, from 0 to 100. At 0 it is used only when no other node can be.",
          ...(intent.isCordoned === true ? ["Its cordon ends."] : []),
          EVERYWHERE,
        ],
        button: "Set weight",
        lasts: true,
        isDangerous: false,
      };
    case "cache-only":
      return {
        title: `Put ${intent.upstream} into cache-only mode?`,
        effects: [
          "Nothing is asked of the registry: no call, no refresh, no check of its nodes.",
          "Metadata is served from the cache however stale. Everything else, transfers and allocations included, is refused with 503 and your reason.",
          EVERYWHERE,
        ],
        button: "Cache only",
        lasts: true,
        isDangerous: true,
      };
    case "normal":
      return {
        title: `Ask ${intent.upstream} again?`,
        effects: ["Cache-only mode ends. Each node proves its admin before it gets another call.", EVERYWHERE],
        button: "Back to normal",
        lasts: false,
        isDangerous: false,
      };
    case "approve":
      return {
        title: `Use ${intent.name} where it is listed now?`,
        effects: [
          `Requests for ${intent.admin} go to ${intent.urls.join(", ")}, once each has proved that admin.`,
          "Make sure that the registry's operator announced it: the server at that URL answers your clients.",
          EVERYWHERE,
        ],
        button: "Approve",
        lasts: false,
        isDangerous: true,
      };
    case "drop":
      return {
        title: `Take ${intent.name} away?`,
        effects: [`No source lists it any more. Requests for ${intent.admin} are 404 from then on.`, EVERYWHERE],
        button: "Take away",
        lasts: false,
        isDangerous: true,
      };
    case "refuse":
      return {
        title: `Refuse what is listed of ${intent.name} now?`,
        effects: [`Nothing is asked of ${intent.urls.join(", ")}. What was in use before stays in use.`, EVERYWHERE],
        button: "Refuse",
        lasts: false,
        isDangerous: false,
      };
    case "purge":
      return explainPurge(intent.upstream, intent.soft);
  }
}

function explainPurge(upstream: string | undefined, soft: boolean): Explained {
  const whose = upstream ?? "every registry";
  return soft
    ? {
        title: `Make what is cached of ${whose} stale?`,
        effects: [
          "Entries stay, and count as stale: each is refreshed when it is asked for next, and served meanwhile within the configured windows. A registry that is down costs nothing.",
          EVERYWHERE,
        ],
        button: "Soft purge",
        lasts: false,
        isDangerous: false,
      }
    : {
        title: `Purge what is cached of ${whose}?`,
        effects: [
          "Nothing that was asked for before is served again. Each entry has to be fetched anew, and while the registry is down there is nothing to serve.",
          EVERYWHERE,
        ],
        button: "Purge",
        lasts: false,
        isDangerous: true,
      };
}

/** What is sent for it. */
export function requestOf(intent: Intent, answers: Answers): { readonly path: string; readonly body: object } {
  const { lasts, reason, weight, force, scope } = answers;
  const terms = { ...(lasts !== "" && { for: lasts }), ...(reason.trim() !== "" && { reason: reason.trim() }) };
  switch (intent.kind) {
    case "cordon": {
      const { upstream, node, url } = intent;
      return { path: "nodes", body: { upstream, node, url, state: "cordoned", ...terms, ...(force && { force }) } };
    }
    case "activate": {
      const { upstream, node, url } = intent;
      return { path: "nodes", body: { upstream, node, url, state: "active" } };
    }
    case "weigh": {
      const { upstream, node, url } = intent;
      return { path: "nodes", body: { upstream, node, url, state: "active", weight: Number(weight), ...terms } };
    }
    case "cache-only":
      return { path: "upstreams", body: { upstream: intent.upstream, mode: "cache-only", ...terms } };
    case "normal":
      return { path: "upstreams", body: { upstream: intent.upstream, mode: "normal" } };
    case "approve":
    case "refuse":
      return {
        path: "discovery",
        body: { admin: intent.admin, approve: intent.kind === "approve", urls: intent.urls },
      };
    case "drop":
      return { path: "discovery", body: { admin: intent.admin, approve: true, urls: [] } };
    case "purge": {
      const selected = purgeSelection(intent.upstream, scope);
      return { path: "purge", body: { ...selected, ...(intent.soft && { soft: true }) } };
    }
  }
}

/** The keys of `POST /purge`, which `GET /cache` takes too, to say what would go. */
export function purgeSelection(
  upstream: string | undefined,
  { endpoint, instrument }: PurgeScope,
): Record<string, string> {
  if (upstream === undefined) return {};
  if (endpoint === "") return { upstream };
  return endpoint === "instrument" ? { upstream, endpoint, instrument } : { upstream, endpoint };
}

/** The same scope as `POST /purge` means it: what was done, in the past. */
export function doneText(intent: Intent, replicas: Reached): string {
  const where = sayReached(replicas);
  switch (intent.kind) {
    case "cordon":
      return `Node ${intent.node} of ${intent.upstream} is cordoned ${where}.`;
    case "activate":
      return `Node ${intent.node} of ${intent.upstream} has calls again ${where}.`;
    case "weigh":
      return `Node ${intent.node} of ${intent.upstream} has another weight ${where}.`;
    case "cache-only":
      return `${intent.upstream} is in cache-only mode ${where}.`;
    case "normal":
      return `${intent.upstream} is asked again ${where}.`;
    case "approve":
      return `${intent.name} is approved ${where}.`;
    case "drop":
      return `${intent.name} is taken away ${where}.`;
    case "refuse":
      return `${intent.name} is refused ${where}.`;
    case "purge":
      return `${intent.soft ? "Softly purged" : "Purged"} ${intent.upstream ?? "everything"} ${where}.`;
  }
}
