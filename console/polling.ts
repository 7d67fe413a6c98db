import { useCallback, useEffect, useState } from "preact/hooks";

const EVERY = 5_000;

/** An answer that is asked for again and again; the last good one stays while asking fails. */
export interface Polled<Answer> {
  readonly answer: Answer | undefined;
  readonly problem: string | undefined;
}

/** Asks every five seconds while the page is visible and `isPaused` is false. */
export function usePolling<Answer>(ask: () => Promise<Answer>, isPaused = false): Polled<Answer> {
  const [polled, setPolled] = useState<Polled<Answer>>({ answer: undefined, problem: undefined });
  const run = useCallback(async () => {
    try {
      const answer = await ask();
      setPolled({ answer, problem: undefined });
    } catch (error) {
      setPolled((before) => ({ ...before, problem: (error as Error).message }));
    }
  }, [ask]);
  useEffect(() => {
    if (isPaused) return undefined;
    void run();
    const look = () => {
      if (document.visibilityState === "visible") void run();
    };
    const timer = setInterval(look, EVERY);
    document.addEventListener("visibilitychange", look);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [run, isPaused]);
  return polled;
}

/** The time, each second: for "12 s ago". */
export function useNow(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}
