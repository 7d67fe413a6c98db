import { setMaxListeners } from "node:events";
import type { ServerResponse } from "node:http";

/**
 * Aborts when the client goes away before its answer was complete, so that its upstream call ends too.
 */
export function clientSignal(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  // A request to all registries at once waits for as many calls as there are registries.
  setMaxListeners(0, controller.signal);
  response.once("close", () => {
    if (!response.writableFinished) controller.abort();
  });
  return controller.signal;
}
