import type { ServerResponse } from "node:http";

/**
 * Aborts when the client goes away before its answer was complete, so that its upstream call ends too.
 */
export function clientSignal(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  const onClose = () => {
    if (!response.writableFinished) controller.abort();
  };
  if (response.closed) onClose();
  else response.once("close", onClose);
  return controller.signal;
}
