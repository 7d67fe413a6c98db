import { type Duration, sleep } from "../clock.ts";
import { clientGone } from "../errors.ts";
import type { Run } from "./attempt.ts";
import { upstreamPaused } from "./failure.ts";
import { upstreamDown } from "./status.ts";

/** Longest time that a call waits for the ends of pauses, as for the limit. */
const LONGEST_PAUSE: Duration = 2_000;

/**
 * Waits until the call may ask so many nodes that it has not tried: for the ends of pauses after 429s, not for nodes that are
 * down.
 *
 * @throws GatewayError `upstream_down`, `upstream_paused`, `client_gone`
 */
export async function whenFree(run: Run, wanted: number): Promise<void> {
  const { access, nodes, tried, tally, deadline, signal } = run;
  const { clock, config } = access;
  for (;;) {
    const now = clock.now();
    const askable = nodes.filter((node) => node.mayBeAsked && !tried.has(node));
    const paused = askable.filter((node) => node.isPaused(now));
    const missing = wanted - (askable.length - paused.length);
    if (missing <= 0) return;
    if (missing > paused.length) throw upstreamDown(access, nodes, wanted);
    const ends = paused.map(({ pausedUntil }) => pausedUntil).toSorted((a, b) => a - b);
    const wait = ends[missing - 1]! - now;
    const longest = Math.min(LONGEST_PAUSE - tally.waitedForPauses, (deadline - now) / 2);
    if (wait > longest) throw upstreamPaused(config.name, wait);
    tally.waitedForPauses += wait;
    await run.wait(sleep(wait, clock, signal));
    if (signal?.aborted === true) throw clientGone();
  }
}
