const TICK = 5;

/** A pause longer than this is one of the machine, which ran something else. */
const MOST = 4 * TICK;

/** No test waits so long for what it measures. */
const GIVEN_UP_AFTER = 60_000;

/**
 * Begins to measure how long something takes, in milliseconds in which this process had its turns: what a busy machine
 * takes away does not count, so that "within so long" is said of what is tested.
 */
export function measureLoopTime(): () => number {
  const begun = performance.now();
  let last = begun;
  let sum = 0;
  const count = (): void => {
    const now = performance.now();
    sum += Math.min(now - last, MOST);
    last = now;
    if (now - begun > GIVEN_UP_AFTER) clearInterval(timer);
  };
  const timer = setInterval(count, TICK);
  timer.unref();
  return () => {
    clearInterval(timer);
    count();
    return sum;
  };
}
