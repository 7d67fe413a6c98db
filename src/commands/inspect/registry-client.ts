import { Readable } from "node:stream";
import { collect } from "../../bodies/collected-body.ts";
import { type Clock, sleep } from "../../clock.ts";
import { parseJson } from "../../json.ts";

/** One answer of the registry that is inspected. */
export interface Asked {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** What the text is as JSON; undefined where it is not JSON. */
  readonly json: unknown;
}

export interface AskOptions {
  readonly method?: "GET" | "POST" | "OPTIONS";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

const TIMEOUT = 15_000;
const MOST_BYTES = 16 * 1024 * 1024;
/** A registry that asks for more than this is not asked again. */
const LONGEST_PAUSE = 10_000;

/** Asks one registry, one request after the other, and keeps what was learned on the way. */
export class RegistryClient {
  readonly base: URL;
  readonly clock: Clock;
  /** Milliseconds until the head of each answer was there. */
  readonly times: number[] = [];
  /** Answers that were 429. */
  readonly refused: Asked[] = [];
  /** Fields in which registries say their limits. */
  readonly limits = new Set<string>();
  requests = 0;

  constructor(base: URL, clock: Clock) {
    this.base = base;
    this.clock = clock;
  }

  /** A 429 is waited for once, where it asks for a short time. @throws where no answer comes */
  async ask(path: string, options: AskOptions = {}): Promise<Asked> {
    const answer = await this.send(path, options);
    if (answer.status !== 429) return answer;
    this.refused.push(answer);
    const pause = 1_000 * Number(answer.headers.get("retry-after") ?? 1);
    if (!(pause <= LONGEST_PAUSE)) return answer;
    await sleep(pause, this.clock);
    return this.send(path, options);
  }

  private async send(path: string, { method = "GET", headers = {}, body }: AskOptions): Promise<Asked> {
    this.requests += 1;
    const startedAt = performance.now();
    const response = await fetch(this.base.href.replace(/\/$/, "") + path, {
      method,
      headers: { accept: "application/json", ...headers },
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT),
      ...(body === undefined ? {} : { body }),
    });
    this.times.push(performance.now() - startedAt);
    for (const name of response.headers.keys()) if (/^(x-)?ratelimit/.test(name)) this.limits.add(name);
    const bytes = response.body === null ? Buffer.alloc(0) : await collect(Readable.fromWeb(response.body), MOST_BYTES);
    const text = bytes.toString("utf8");
    return { status: response.status, headers: response.headers, text, json: parseJson(text) };
  }
}
