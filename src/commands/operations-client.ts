import { existsSync } from "node:fs";
import { isIPv6 } from "node:net";
import type { Readable } from "node:stream";
import { Agent, request } from "undici";
import { parse, stringify } from "yaml";
import { collect, NotCollected } from "../bodies/collected-body.ts";
import type { Duration } from "../clock.ts";
import { parseConfig, parseConfigFile } from "../config/parse.ts";
import { ConfigError } from "../config/problem.ts";
import type { Config } from "../config/schema.ts";
import { findTokenFault, readSecret } from "../config/secret.ts";
import { faultOfFile, readTextFile } from "../config/text-file.ts";
import type {
  ActAnswer,
  AuditAnswer,
  DiscoveryAnswer,
  DiscoveryDecisionAnswer,
  ExplainAnswer,
  PurgeAnswer,
  ReplicasAnswer,
  StatusAnswer,
} from "../operations/answers.ts";
import { parseJson } from "../json.ts";
import { formatSize } from "../units.ts";
import { configFileOf, EXIT, UsageError } from "./command-line.ts";
import { failureOf, refusalOf, WRONG_LISTENER } from "./operations-failure.ts";
import { printLine, printLines } from "./terminal.ts";

/** Where the operations listener is, and how its answers are printed: options that its commands have in common. */
export interface OperationsFlags {
  readonly config?: unknown;
  readonly url?: unknown;
  readonly "token-file"?: unknown;
  readonly json?: unknown;
}

/** What the commands ask of the listener, and what it answers. */
interface Answers {
  readonly "GET status": StatusAnswer;
  readonly "GET replicas": ReplicasAnswer;
  readonly "GET audit": AuditAnswer;
  readonly "GET explain": ExplainAnswer;
  readonly "GET discovery": DiscoveryAnswer;
  readonly "POST discovery": DiscoveryDecisionAnswer;
  readonly "POST purge": PurgeAnswer;
  readonly "POST nodes": ActAnswer;
  readonly "POST upstreams": ActAnswer;
}

interface Asked<What extends keyof Answers> {
  readonly what: What;
  readonly query?: Readonly<Record<string, string>>;
  /** Of a POST. */
  readonly body?: object;
}

/** A request to the listener; with a `body` it is a POST of JSON. */
interface Question {
  /** With the query, without a slash at its beginning. */
  readonly path: string;
  readonly body?: object | undefined;
}

const DEADLINE: Duration = 10_000;

/** In bytes. A thousand upstreams of ten nodes take a tenth of it. */
const MAX_ANSWER = 32 * 1024 * 1024;

const USUAL_URL = "http://127.0.0.1:9090/";

/** Nothing came of a question; `message` says why and what to do. */
export class OperationsError extends Error {}

/** The operations listener of a running gateway. */
export interface OperationsTarget {
  /** Ends with a slash. */
  readonly url: string;
  readonly token: string | undefined;
  readonly deadline: Duration;
}

/**
 * Asks a gateway and prints what it answers: as JSON where `--json` is given, else in these lines. Where nothing comes of
 * it, stderr says why.
 *
 * @param linesOf an answer of another release, or of another program, may have another form than its type says
 * @returns the exit code
 * @throws UsageError for options that cannot be understood
 */
export async function askGateway<What extends keyof Answers>(
  flags: OperationsFlags,
  { what, query = {}, body }: Asked<What>,
  linesOf: (answer: Answers[What]) => readonly string[],
): Promise<number> {
  try {
    const target = targetOf(flags);
    const parameters = new URLSearchParams(query).toString();
    const path = `${what.replace(/^\w+ /, "")}${parameters === "" ? "" : `?${parameters}`}`;
    const answer = await ask(target, { path, body });
    // Escapes that printing adds stand in strings alone, where they mean the same in JSON.
    if (flags.json === true) printLines(JSON.stringify(answer, undefined, 2));
    else for (const line of readable(target, () => linesOf(answer as Answers[What]))) printLine(line);
    return EXIT.ok;
  } catch (error) {
    if (error instanceof ConfigError) {
      printLines(error.message, process.stderr);
      printLine("--url and --token-file name the operations listener without the file.", process.stderr);
      return EXIT.badConfig;
    }
    if (!(error instanceof OperationsError)) throw error;
    printLine(`registry-gateway: ${error.message}`, process.stderr);
    return EXIT.failure;
  }
}

/** @throws OperationsError for an answer that lacks what is read of it */
function readable({ url }: OperationsTarget, lines: () => readonly string[]): readonly string[] {
  try {
    return lines();
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new OperationsError(`the answer of ${url} is of another form: ${WRONG_LISTENER}`);
  }
}

/**
 * The listener that the options name: `--url`, else that of the configuration. A token goes to a `--url` only if the
 * command line names its file or the configuration, too.
 */
function targetOf(flags: OperationsFlags): OperationsTarget {
  const { config: file, url, "token-file": tokenFile } = flags;
  const named = typeof url === "string" ? parseUrl(url) : undefined;
  const operations = named === undefined || typeof file === "string" ? readOperations(file) : undefined;
  const token = typeof tokenFile === "string" ? readToken(tokenFile) : operations?.token;
  return { url: named ?? operations?.url ?? USUAL_URL, token, deadline: DEADLINE };
}

function parseUrl(text: string): string {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new UsageError(`--url takes the URL of the operations listener, such as ${USUAL_URL.slice(0, -1)}`);
  }
  if (url.username !== "" || url.password !== "") throw new UsageError("--url takes no credentials: use --token-file");
  return `${url.origin}${url.pathname.replace(/\/*$/, "/")}`;
}

/** @throws ConfigError; undefined where the usual file is not there */
function readOperations(file: unknown): Pick<OperationsTarget, "url" | "token"> | undefined {
  const name = configFileOf(file);
  const isNamed = typeof file === "string" || (process.env.GATEWAY_CONFIG ?? "") !== "";
  if (!isNamed && !existsSync(name)) return undefined;
  const parsed = parseConfigFile(name, process.env);
  // Just when the rest of the file is bad, operators ask how the gateway is.
  const usable = parsed.usable ?? parseOperationsAlone(name);
  if (usable === undefined) throw new ConfigError(name, parsed.problems);
  const { token, tokenFile } = usable.operations;
  return { url: urlOf(usable), token: tokenFile === undefined ? token : readToken(tokenFile) };
}

/** The group `operations` of a file that is no good elsewhere; undefined where it is no good itself. */
function parseOperationsAlone(file: string): Config | undefined {
  try {
    // Its warnings would repeat the lines, and secrets with them.
    const read = parse(readTextFile(file), { logLevel: "error" }) as { readonly operations?: unknown } | null;
    const { operations = {} } = read ?? {};
    const text = stringify({ operations, upstreams: [{ name: "any", urls: ["http://127.0.0.1"] }] });
    return parseConfig({ text, file, env: process.env }).usable;
  } catch {
    return undefined;
  }
}

function urlOf({ operations: { host, port } }: Config): string {
  if (port === 0) throw new OperationsError("operations.port is 0, any free port: name the one it is with --url");
  const reached = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  return `http://${isIPv6(reached) ? `[${reached}]` : reached}:${port}/`;
}

function readToken(file: string): string {
  try {
    return readSecret(file, findTokenFault);
  } catch (error) {
    throw new OperationsError(`the token file ${file} ${faultOfFile(error)}`);
  }
}

/**
 * The JSON that the listener answers.
 *
 * @throws OperationsError when it cannot be reached, refuses, or does not answer with JSON
 */
export async function ask(target: OperationsTarget, { path, body }: Question): Promise<unknown> {
  const { url, token, deadline } = target;
  const agent = new Agent({ connect: { timeout: deadline } });
  try {
    const answer = await request(new URL(path, url), {
      dispatcher: agent,
      method: body === undefined ? "GET" : "POST",
      headers: {
        accept: "application/json",
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(deadline),
    });
    const json = parseJson(await readText(answer.body, url));
    const { "registry-gateway-error": code, "retry-after": retryAfter } = answer.headers;
    if (answer.statusCode !== 200)
      throw new OperationsError(refusalOf(url, { status: answer.statusCode, json, code, retryAfter }));
    if (json === undefined) throw new OperationsError(`${url} does not answer with JSON: ${WRONG_LISTENER}`);
    return json;
  } catch (error) {
    throw error instanceof OperationsError ? error : new OperationsError(failureOf(target, error));
  } finally {
    await agent.destroy();
  }
}

async function readText(body: Readable, url: string): Promise<string> {
  try {
    return (await collect(body, MAX_ANSWER)).toString("utf8");
  } catch (error) {
    if (!(error instanceof NotCollected)) throw error;
    throw new OperationsError(`${url} answers with more than ${formatSize(MAX_ANSWER)}: ${WRONG_LISTENER}`);
  }
}
