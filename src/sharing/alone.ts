import type { Clock } from "../clock.ts";
import { Epochs, EVERYBODY } from "./epochs.ts";
import type { Sharing } from "./ports.ts";
import { WindowLimiter } from "./windows.ts";

/** The ports of a gateway without Redis: it shares nothing, and is the only replica that it knows. */
export function createAlone(clock: Clock): Sharing {
  const epochs = new Epochs();
  return {
    entries: { get: () => Promise.resolve(undefined), set: () => {}, delete: () => {} },
    leases: { acquire: () => Promise.resolve("none") },
    purges: {
      epochOf: (party) => epochs.of(party),
      purge(party = EVERYBODY) {
        epochs.raise(party, clock.wallNow());
        return Promise.resolve("done");
      },
    },
    limiter: new WindowLimiter(clock),
    replicas: { count: () => 1 },
    status: () => ({ redis: "off", replicas: 1 }),
    takeLogin: () => {},
    close: () => Promise.resolve(),
  };
}
