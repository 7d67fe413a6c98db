import { setTimeout } from "node:timers/promises";
import { type Dispatcher, request } from "undici";
import type { Duration } from "../clock.ts";
import { ERROR_FIELD } from "../errors.ts";
import { parseJson, printable } from "../json.ts";
import { endpointPath } from "../spec/operations.ts";
import { answerProblem } from "../spec/schemas.ts";

/** One thing that was found about a registry. `warning`: some clients stumble; `error`: it breaks the standard, or all clients. */
export interface Finding {
  readonly severity: "good" | "note" | "warning" | "error";
  readonly about: string;
  readonly text: string;
}

export function finding(severity: Finding["severity"], about: string, text: string): Finding {
  return { severity, about, text };
}

/** One answer; `json` is undefined where the text is none. */
export interface Asked {
  readonly status: number;
  readonly fields: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  readonly json: unknown;
}

interface Question {
  readonly method?: "GET" | "POST" | "OPTIONS";
  readonly fields?: Readonly<Record<string, string>>;
  readonly body?: string;
}

const TIMEOUT: Duration = 15_000;
/** Characters that are read of an answer or of a list at most. */
export const MOST_CHARACTERS = 16 * 1024 * 1024;
/** Seconds; who asks for a longer pause is not asked again. */
const LONGEST_PAUSE = 10;

/** Asks one registry, one question after the other, and keeps what was learned on the way. */
export class RegistryClient {
  readonly url: string;
  /** Milliseconds until the head of each answer was there. */
  readonly times: number[] = [];
  /** Answers that were 429, by their `Retry-After`. */
  readonly refusals: string[] = [];
  /** A gateway of this kind stands before the registry: some answers are its own. */
  isGateway = false;
  readonly #options: { readonly dispatcher?: Dispatcher; readonly headers?: Readonly<Record<string, string>> };

  /** @param url the base URL, without `/registry` */
  constructor(url: string, options: { dispatcher?: Dispatcher; headers?: Readonly<Record<string, string>> } = {}) {
    this.url = url;
    this.#options = options;
  }

  /**
   * The answer to a question. A 429 is waited for once: it is no answer to what was asked.
   *
   * @throws Error where none comes
   */
  async ask(path: string, question: Question = {}): Promise<Asked> {
    const answer = await this.#send(path, question);
    if (answer.status !== 429) return answer;
    const pause = fieldOf(answer, "retry-after") ?? "";
    this.refusals.push(pause);
    const seconds = pause === "" ? 1 : Number(pause);
    if (!(seconds <= LONGEST_PAUSE)) return answer;
    await setTimeout(seconds * 1_000);
    return this.#send(path, question);
  }

  async #send(path: string, { method = "GET", fields, body }: Question): Promise<Asked> {
    const { headers, ...options } = this.#options;
    const begin = performance.now();
    const answer = await request(this.url + path, {
      method,
      headers: { accept: "application/json", ...headers, ...fields },
      signal: AbortSignal.timeout(TIMEOUT),
      body: body ?? null,
      ...options,
    });
    this.times.push(performance.now() - begin);
    const text = await readText(answer.body.setEncoding("utf8"));
    const asked = { status: answer.statusCode, fields: answer.headers, text, json: parseJson(text) };
    const isOfGateway = /^registry-gateway\b/.test(fieldOf(asked, "cache-status") ?? "");
    if (isOfGateway || fieldOf(asked, ERROR_FIELD) !== undefined) this.isGateway = true;
    return asked;
  }
}

/** A whole text. @throws Error for one that is too long, before it is all read */
export async function readText(chunks: AsyncIterable<string>): Promise<string> {
  let text = "";
  for await (const chunk of chunks) {
    text += chunk;
    if (text.length > MOST_CHARACTERS) throw new Error("the answer has more than 16 MiB");
  }
  return text;
}

/** The value of a field, cut for a message. */
export function fieldOf({ fields }: Pick<Asked, "fields">, name: string): string | undefined {
  const value = fields[name];
  return value === undefined ? undefined : printable(String(value));
}

/** Name of an answer in a finding: its status, and whose it is or what it is. */
export function nameOf(asked: Asked): string {
  const code = fieldOf(asked, ERROR_FIELD);
  if (code !== undefined) return `${asked.status} of the gateway itself (${code})`;
  const type = fieldOf(asked, "content-type") ?? "without a content type";
  return `${asked.status}, ${type}${/html/i.test(type) ? ", a web page: the URL is probably wrong" : ""}`;
}

/** A registry's word on itself. */
export interface Info {
  readonly adminId: string;
  readonly supportedApis: Readonly<Record<string, unknown>>;
}

/** Asks for info; a text says why it is none. */
export async function askInfo(client: RegistryClient): Promise<Info | string> {
  const asked = await client.ask(endpointPath("info"));
  if (asked.status !== 200) return `its info is ${nameOf(asked)}`;
  const problem = answerProblem("info", asked.json);
  return problem === undefined ? (asked.json as Info) : `it answers no info of a registry: ${problem}`;
}

export interface Page {
  readonly instruments: readonly { readonly id: string }[];
  readonly nextPageToken?: string | null;
}

/** Asks for a page of instruments; a text says why there is none. */
export async function askPage(client: RegistryClient, query: string): Promise<Page | string> {
  const asked = await client.ask(`${endpointPath("instruments")}${query}`);
  if (asked.status !== 200) return nameOf(asked);
  const problem = answerProblem("instruments", asked.json);
  return problem === undefined ? (asked.json as Page) : `no page of instruments: ${problem}`;
}

/** Page sizes that are tried, the largest first: servers clamp, ignore or refuse what is too large for them. */
const SIZES = [1_000, 100, 25];

/** The largest page size that is taken, from `first` on, with the answers to those that are not. */
export async function askPageSize(client: RegistryClient, first = SIZES[0]!): Promise<Finding> {
  const refused: string[] = [];
  for (const size of [first, ...SIZES.filter((each) => each < first)]) {
    const page = await askPage(client, `?pageSize=${size}`);
    if (typeof page === "string") refused.push(`pageSize=${size} is ${page}`);
    else {
      const text = [...refused, `pageSize=${size} gives ${page.instruments.length}`].join(", ");
      return finding(refused.length === 0 ? "good" : "warning", "page size", text);
    }
  }
  return finding("error", "page size", refused.join(", "));
}
