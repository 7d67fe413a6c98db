import { setTimeout as sleep } from "node:timers/promises";

/** Waits until `condition` holds; fails after `timeout` milliseconds. For what another process does in its own time. */
export async function until(condition: () => boolean | Promise<boolean>, timeout = 60_000): Promise<void> {
  const startedAt = performance.now();
  for (;;) {
    if (await condition()) return;
    const waited = performance.now() - startedAt;
    if (waited > timeout) throw new Error(`not true within ${timeout} ms: ${condition.toString()}`);
    // What takes long is asked about less often: a condition may be a request to what is to get on.
    await sleep(Math.min(10 + waited / 20, 100));
  }
}
