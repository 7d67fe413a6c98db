import { useEffect, useReducer, useRef } from "preact/hooks";
import type { HistoryAnswer, SessionAnswer, StatusAnswer } from "../src/operations/answers.ts";
import { ask, messageOf, NoAnswer, type Question, Refusal } from "./api.ts";
import { mergeHistory } from "./history.ts";
import type { Intent } from "./intent.ts";
import { now } from "./time.ts";

/** What all pages share. */
export interface ConsoleState {
  /** Undefined: the gateway was not asked yet. */
  readonly session: SessionAnswer | undefined;
  readonly status: StatusAnswer | undefined;
  readonly history: HistoryAnswer | undefined;
  /** Why it could not be read. */
  readonly historyProblem: string | undefined;
  /** When the gateway answered last. */
  readonly answeredAt: number;
  /** Since when it does not, and why; undefined: it does. */
  readonly lost: { readonly since: number; readonly why: string } | undefined;
  /** What the operator is being asked to confirm. */
  readonly intent: Intent | undefined;
  /** Grows with each action: what it may have changed is asked for again. */
  readonly actions: number;
  /** What was done last, for the live region. */
  readonly notice: string;
}

type Listener = () => void;

/** The one state of the page. */
class Store {
  state: ConsoleState = {
    session: undefined,
    status: undefined,
    history: undefined,
    historyProblem: undefined,
    answeredAt: now(),
    lost: undefined,
    intent: undefined,
    actions: 0,
    notice: "",
  };
  private readonly listeners = new Set<Listener>();

  set(change: Partial<ConsoleState>): void {
    this.state = { ...this.state, ...change };
    for (const listener of this.listeners) listener();
  }

  subscribe(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Asks the gateway, and notes whether it is there and knows the operator. @throws as {@link ask} */
  async ask<Answer>(path: string, question: Question = {}): Promise<Answer> {
    try {
      const answer = await ask<Answer>(path, question);
      this.answered();
      return answer;
    } catch (error) {
      if (error instanceof NoAnswer) this.missed(error);
      if (error instanceof Refusal) {
        this.answered();
        if (error.status === 401 && path !== "session") void this.readSession();
      }
      throw error;
    }
  }

  async readSession(): Promise<void> {
    try {
      this.set({ session: await this.ask<SessionAnswer>("session") });
    } catch (error) {
      // The next to ask says that nothing answers; a refusal here is reported in the place of the page.
      if (error instanceof Refusal) this.missed(error);
    }
  }

  /** How the gateway is, and what was measured since the last time; each counts if the other fails. @throws as {@link ask} */
  async readStatus(signal?: AbortSignal): Promise<void> {
    const options = signal === undefined ? {} : { signal };
    const since = this.state.history?.times.at(-1);
    await Promise.all([
      this.ask<StatusAnswer>("status", options).then((status) => this.set({ status })),
      this.ask<HistoryAnswer>("history", { ...options, query: { since } }).then(
        (added) => this.set({ history: mergeHistory(this.state.history, added), historyProblem: undefined }),
        (error: unknown) => {
          if (error instanceof Refusal) this.set({ historyProblem: error.message });
          throw error;
        },
      ),
    ]);
  }

  private answered(): void {
    this.set({ answeredAt: now(), lost: undefined });
  }

  private missed(error: Error): void {
    const since = this.state.lost?.since ?? this.state.answeredAt;
    this.set({ lost: { since, why: messageOf(error) } });
  }
}

export const store = new Store();

/** Part of the state; the component is drawn again when that part is another. */
export function useStore<Part>(select: (state: ConsoleState) => Part): Part {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  const part = select(store.state);
  const latest = useRef({ select, part });
  latest.current = { select, part };
  useEffect(() => {
    const check = () => {
      const { select: selectNow, part: shown } = latest.current;
      if (!Object.is(selectNow(store.state), shown)) redraw(undefined);
    };
    // Something may have changed between drawing and now.
    check();
    return store.subscribe(check);
  }, []);
  return part;
}
