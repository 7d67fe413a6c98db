import type { ErrorMeaning, OPERATOR_ERRORS } from "../src/errors.ts";

/** What the errors of the operations listener mean, and what whoever meets one does about it. */
export const OPERATOR_ERROR_MEANINGS = {
  unauthenticated: {
    means: "No credential came, or a bad one.",
    remedy: "Send the credential that the text asks for.",
  },
  forbidden: {
    means: "This may not be asked from there.",
    remedy: "Report it to the gateway's operator.",
  },
  unknown_upstream: {
    means: "The configuration has no upstream of this name.",
    remedy: "See `/status` for the names.",
  },
  unknown_node: {
    means: "The upstream has no node at this place.",
    remedy: "See `/status` for its nodes: the first is 0.",
  },
  unknown_registry: {
    means: "Discovery has found no registry of this admin.",
    remedy: "See `GET /discovery` for those it has found.",
  },
  node_moved: {
    means: "At this place of the upstream is another node than the one that was meant: its `urls` changed meanwhile.",
    remedy: "See `/status` for where it is now.",
  },
  last_node: {
    means: "No other node of the upstream could take the calls of the one that was to be cordoned.",
    remedy: 'Add `"force": true` to cordon it all the same.',
  },
  nothing_waits: {
    means: "Nothing about this registry waits for a decision: an operator decided already, or its list changed.",
    remedy: "See `GET /discovery` for what waits.",
  },
  registry_unproved: {
    means: "None of the URLs that are listed for the registry has proved its admin, so that nothing could be used.",
    remedy: "Approve it when `GET /discovery` says that it is proved, or have the list corrected.",
  },
  too_many_actions: {
    means: "As many actions of operators are in force as there may be.",
    remedy: "Undo one of those that `/status` names.",
  },
  misdirected_request: {
    means: "The operations listener does not answer to this `Host`.",
    remedy: "Use `localhost`, an IP address, or a name in `operations.hosts`.",
  },
  too_many_sign_ins: {
    means: "Several sign-ins to the operators' console from this address failed.",
    remedy: "Wait for `Retry-After`, and sign in with the operations token.",
  },
  redis_away: {
    means: "A purge or an operator's action was done on this replica alone, because Redis is away.",
    remedy: "It is written to Redis when that is back: a purge before it is read again.",
  },
} as const satisfies Readonly<Record<keyof typeof OPERATOR_ERRORS, ErrorMeaning>>;
