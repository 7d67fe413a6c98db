import type { KeyChanges, KeysObserver } from "../clients/client-keys.ts";
import type { TokenObserver } from "../clients/tokens.ts";
import type { Logger } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import { CLIENT_KEYS } from "./metrics/labels.ts";
import { withoutSecrets } from "./redaction.ts";
import { whenChanged } from "../recurrence.ts";

/** Is notified of what becomes of what names clients. */
export interface ClientsObserver {
  readonly keys: KeysObserver;
  readonly tokens: TokenObserver;
}

/** Names in one line of the log. */
const MOST_NAMED = 20;

/** Counts and logs what becomes of the keys of clients: every change of them is a line. */
export function createClientsObserver(metrics: Metrics, log: Logger): ClientsObserver {
  for (const source of CLIENT_KEYS) metrics.clientKeysUnusable.set({ source }, 0);
  const note = (isFaulty: boolean): void => metrics.clientKeysUnusable.set({ source: "file" }, isFaulty ? 1 : 0);
  const tell = whenChanged<string | undefined>(undefined, (fault) => {
    if (fault === undefined) log.info({ source: "file" }, "client keys can be used again");
    else log.error({ source: "file", reason: withoutSecrets(fault) }, "client keys cannot be used");
  });
  return {
    keys: {
      keysChanged: (changes) => log.info(summaryOf(changes), "client keys changed"),
      keysLeft: () => note(false),
      keysRead(fault) {
        note(fault !== undefined);
        tell(fault);
      },
    },
    tokens: createTokenObserver(metrics, log),
  };
}

function createTokenObserver(metrics: Metrics, log: Logger): TokenObserver {
  const faulty = new Set<string>();
  const note = (issuer: string, isFaulty: boolean): void => {
    if (isFaulty) faulty.add(issuer);
    else faulty.delete(issuer);
    metrics.clientKeysUnusable.set({ source: "issuer" }, faulty.size === 0 ? 0 : 1);
  };
  return {
    keysLeft: ({ issuer }) => note(issuer, false),
    keysRead({ issuer, host }, { fault, isNew }) {
      note(issuer, fault !== undefined);
      if (!isNew) return;
      if (fault === undefined) log.info({ source: host }, "client keys can be used again");
      else log.error({ source: host, reason: fault }, "client keys cannot be used");
    },
  };
}

/** The changes with how many there are, for there may be more than a line names. */
function summaryOf({ added, removed, changed }: KeyChanges) {
  return {
    changes: added.length + removed.length + changed.length,
    added: added.slice(0, MOST_NAMED),
    removed: removed.slice(0, MOST_NAMED),
    changed: changed.slice(0, MOST_NAMED),
  };
}
