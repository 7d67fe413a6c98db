import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { messageOf } from "./api.ts";
import { store, useStore } from "./store.ts";

/** After failures the page asks less often, at most this often. */
const MOST_WAIT = 30_000;

export interface Polled<Value> {
  /** The latest; it stays while asking fails. */
  readonly value: Value | undefined;
  /** Why the last question failed; undefined: it did not. */
  readonly problem: string | undefined;
}

interface PollOptions<Value> {
  readonly load: (signal: AbortSignal) => Promise<Value>;
  /** Milliseconds between an answer and the next question. */
  readonly every: number;
  /** What `load` depends on: another one starts anew. */
  readonly key?: string;
  readonly isPaused?: boolean;
}

/**
 * Asks again and again while the page is looked at: never twice at once, not while the tab is hidden, less often while it
 * fails, and at once when the gateway is back or something was done.
 */
export function usePoll<Value>({ load, every, key = "", isPaused = false }: PollOptions<Value>): Polled<Value> {
  const [state, setState] = useState<{ key: string; value?: Value; problem?: string }>({ key });
  const latest = useRef(load);
  latest.current = load;
  const again = useRef<() => void>(() => undefined);

  // The question leaves before what asks it is painted, and the answer comes meanwhile.
  useLayoutEffect(() => {
    if (isPaused) return undefined;
    const poll = startPolling({
      every,
      ask: async (signal) => {
        try {
          const value = await latest.current(signal);
          if (!signal.aborted) setState({ key, value });
          return true;
        } catch (error) {
          if (!signal.aborted)
            setState((before) => ({ ...(before.key === key ? before : { key }), problem: messageOf(error) }));
          return false;
        }
      },
    });
    again.current = poll.now;
    return () => {
      again.current = () => undefined;
      poll.stop();
    };
  }, [key, every, isPaused]);

  const actions = useStore((state) => state.actions);
  const seen = useRef(actions);
  useEffect(() => {
    if (seen.current === actions) return;
    seen.current = actions;
    again.current();
  }, [actions]);
  const isOld = state.key !== key;
  return { value: isOld ? undefined : state.value, problem: isOld ? undefined : state.problem };
}

function startPolling({ ask, every }: { ask: (signal: AbortSignal) => Promise<boolean>; every: number }) {
  let running: AbortController | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let failures = 0;
  let isLost = false;

  async function run(): Promise<void> {
    clearTimeout(timer);
    running?.abort();
    const controller = new AbortController();
    running = controller;
    const isDone = await ask(controller.signal);
    if (controller.signal.aborted) return;
    running = undefined;
    failures = isDone ? 0 : failures + 1;
    if (document.hidden) return;
    const wait = Math.min(MOST_WAIT, every * 2 ** Math.min(failures, 10));
    // Pages that lost the same gateway do not come back all at once.
    timer = setTimeout(() => void run(), failures === 0 ? wait : wait * (0.75 + Math.random() / 4));
  }

  function onVisible(): void {
    if (document.hidden) clearTimeout(timer);
    else if (running === undefined) void run();
  }

  const unsubscribe = store.subscribe(() => {
    const wasLost = isLost;
    isLost = store.state.lost !== undefined;
    if (wasLost && !isLost && failures > 0 && running === undefined && !document.hidden) void run();
  });
  document.addEventListener("visibilitychange", onVisible);
  if (!document.hidden) void run();
  return {
    now: () => void run(),
    stop: () => {
      clearTimeout(timer);
      running?.abort();
      running = undefined;
      unsubscribe();
      document.removeEventListener("visibilitychange", onVisible);
    },
  };
}
