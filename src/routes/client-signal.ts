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

/** {@link clientSignal}, made when it is first asked for: what the cache has needs none, and it is not cheap. */
export function laterClientSignal(response: ServerResponse): () => AbortSignal {
  let signal: AbortSignal | undefined;
  return () => (signal ??= clientSignal(response));
}
