import type { ErrorAnswer } from "../src/operations/answers.ts";
import { toPrintable } from "../src/words/printable.ts";

/** The listener counts the session's cookie only together with this; no page of another origin can send it. */
const OWN_HEADER = { "x-registry-gateway-console": "1" };

/** How long an answer may take. */
const DEADLINE = 10_000;

/** The gateway answered, and does not do what was asked. The message is for people. */
export class Refusal extends Error {
  readonly status: number;
  readonly code: string | undefined;

  constructor(message: string, status: number, code: string | undefined) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** No answer came, or none of this gateway's. */
export class NoAnswer extends Error {}

export interface Question {
  readonly method?: "GET" | "POST" | "DELETE";
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  readonly signal?: AbortSignal;
}

/**
 * Asks the operations listener, which serves this page too.
 *
 * @param path below the listener's root, such as `status`
 * @throws Refusal, NoAnswer; what `signal` aborts rejects with its reason
 */
export async function ask<Answer>(path: string, question: Question = {}): Promise<Answer> {
  const answer = await send(path, question);
  const text = await readText(answer, question.signal);
  const value = parse(text);
  if (!answer.ok) {
    const { error } = (value ?? {}) as Partial<ErrorAnswer>;
    const said = typeof error === "string" ? error.replace(/^registry-gateway: /, "") : `status ${answer.status}`;
    throw new Refusal(said, answer.status, answer.headers.get("registry-gateway-error") ?? undefined);
  }
  // Something else answers in the gateway's place: a proxy's page, for one.
  if (value === undefined) throw new NoAnswer("another program answers in the gateway's place");
  return value as Answer;
}

async function send(path: string, { method = "GET", query = {}, body, signal }: Question): Promise<Response> {
  // The page is at /console/, whatever path a proxy puts before it.
  const url = new URL(`../${path}`, document.baseURI);
  for (const [key, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(key, String(value));
  const deadline = AbortSignal.timeout(DEADLINE);
  try {
    return await fetch(url, {
      method,
      headers: body === undefined ? OWN_HEADER : { ...OWN_HEADER, "content-type": "application/json" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: signal === undefined ? deadline : AbortSignal.any([signal, deadline]),
      cache: "no-store",
      redirect: "error",
    });
  } catch (error) {
    throw reasonOf(error, signal);
  }
}

async function readText(answer: Response, signal: AbortSignal | undefined): Promise<string> {
  try {
    return await answer.text();
  } catch (error) {
    throw reasonOf(error, signal);
  }
}

function reasonOf(error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted === true) return signal.reason;
  const isLate = error instanceof DOMException && error.name === "TimeoutError";
  return new NoAnswer(isLate ? `no answer within ${DEADLINE / 1_000} s` : "nothing answers");
}

function parse(text: string): unknown {
  if (text === "") return null;
  try {
    // The gateway escapes what a page would not show as it is; so does this page, for what it draws.
    return JSON.parse(text, text.includes("\\u") ? revive : undefined) as unknown;
  } catch {
    return undefined;
  }
}

function revive(_key: string, value: unknown): unknown {
  return typeof value === "string" ? toPrintable(value) : value;
}

/** What went wrong, for people. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
