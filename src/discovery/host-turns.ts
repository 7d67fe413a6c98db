import { type Clock, type Duration, sleep } from "../clock.ts";

/** Questions that one host gets in a reading. */
export const MOST_QUESTIONS = 64;

/** Questions that wait for an answer at once, of all hosts. */
const CONCURRENCY = 16;

/** Questions that follow each other at once; each later one waits longer than the one before, by {@link LONGER}. */
const QUICK_QUESTIONS = 8;
const LONGER: Duration = 5;

interface Host {
  /** Questions of this reading. */
  asked: number;
  last: Promise<unknown>;
}

/**
 * Whose turn it is to be asked: each host gets one question at a time, ever more slowly, and no more than `most` in a
 * reading. The author of a list must not turn the gateway on another party.
 */
export class HostTurns {
  private readonly clock: Clock;
  private readonly most: number;
  private readonly hosts = new Map<string, Host>();
  private readonly waiting: (() => void)[] = [];
  private running = 0;
  private isClosed = false;

  constructor(clock: Clock, most: number) {
    this.clock = clock;
    this.most = most;
  }

  /** A new reading: each host may be asked again. Only while nothing is asked. */
  begin(): void {
    this.hosts.clear();
  }

  /** Whatever still waits for its turn is not asked. */
  close(): void {
    this.isClosed = true;
  }

  /** What `question` comes to once it is the turn of the URL's host; undefined where it is not asked. */
  async take<Answer>(url: string, question: () => Promise<Answer>): Promise<Answer | undefined> {
    const { hostname } = new URL(url);
    const host = this.hosts.get(hostname) ?? { asked: 0, last: Promise.resolve() };
    this.hosts.set(hostname, host);
    if (host.asked >= this.most) return undefined;
    host.asked += 1;
    const pause = Math.max(0, host.asked - QUICK_QUESTIONS) * LONGER;
    const answer = host.last.then(async () => {
      if (pause > 0) await sleep(pause, this.clock);
      return this.isClosed ? undefined : this.run(question);
    });
    host.last = answer.catch(() => undefined);
    return answer;
  }

  private async run<Answer>(question: () => Promise<Answer>): Promise<Answer> {
    if (this.running >= CONCURRENCY) await new Promise<void>((resolve) => this.waiting.push(resolve));
    else this.running += 1;
    try {
      return await question();
    } finally {
      // The place goes to the next one.
      const next = this.waiting.shift();
      if (next === undefined) this.running -= 1;
      else next();
    }
  }
}
