import { existsSync } from "node:fs";
import { isIPv6 } from "node:net";
import { dirname } from "node:path";
import { request } from "undici";
import { parse } from "yaml";
import { readTextFile } from "../config/files.ts";
import { loadConfig } from "../config/load.ts";
import { UNREADABLE } from "../config/reader.ts";
import type { OperationsConfig } from "../config/schema.ts";
import { isObject, parseJson, printable } from "../json.ts";
import { configFileOf } from "./config-file.ts";
import { CommandError, sayFailure } from "./terminal.ts";

/** Options of the commands that ask the operations listener. */
export interface OperationsFlags {
  readonly config?: string;
  readonly url?: string;
  readonly token?: string;
  readonly json?: true;
}

const USUAL_URL = "http://127.0.0.1:9090";
const TIMEOUT = 10_000;
const MOST_CONFIG = 4 * 2 ** 20;

/** The operations listener of a running gateway. */
export class OperationsClient {
  readonly #url: string;
  readonly #token: string | undefined;

  /**
   * @param mayChange whether it is asked to do something: then a token that may only read is of no use
   * @throws CommandError
   */
  constructor(flags: OperationsFlags, mayChange: boolean) {
    // A token goes to a named address only where it is named, too.
    const operations = flags.url === undefined || flags.config !== undefined ? readOperations(flags.config) : undefined;
    const known = operations?.tokens?.find((each) => each.token !== UNREADABLE && !(mayChange && each.readonly));
    this.#token = flags.token ?? known?.token;
    this.#url = flags.url?.replace(/\/+$/, "") ?? (operations === undefined ? USUAL_URL : urlOf(operations));
  }

  /**
   * The JSON that the listener answers.
   *
   * @param body makes it a POST
   * @throws CommandError when it cannot be reached, refuses, or is no operations listener
   */
  async ask(path: string, body?: object): Promise<unknown> {
    const { status, text } = await this.#send(path, body);
    const json = parseJson(text);
    const error = isObject(json) ? json["error"] : undefined;
    if (status === 200 && isObject(json)) return json;
    if (typeof error !== "string") {
      throw new CommandError(`${this.#url} answers ${status}, and not as an operations listener does: is it one?`);
    }
    const advice = status === 401 ? " (--token, or the configuration by --config)" : "";
    throw new CommandError(
      `${this.#url} refuses: ${printable(error.replace(/^registry-gateway: /, ""), 1_000)}${advice}`,
    );
  }

  async #send(path: string, body: object | undefined): Promise<{ status: number; text: string }> {
    try {
      const answer = await request(this.#url + path, {
        method: body === undefined ? "GET" : "POST",
        headers: {
          accept: "application/json",
          ...(this.#token !== undefined && { authorization: `Bearer ${this.#token}` }),
          ...(body !== undefined && { "content-type": "application/json" }),
        },
        body: body === undefined ? null : JSON.stringify(body),
        signal: AbortSignal.timeout(TIMEOUT),
      });
      return { status: answer.statusCode, text: await answer.body.text() };
    } catch (error) {
      throw new CommandError(`${this.#url} cannot be asked: ${sayFailure(error)}. --url names another address`);
    }
  }
}

/** The group `operations` of a configuration file, whatever else is in it; undefined where the usual file is not there. */
function readOperations(option: string | undefined): OperationsConfig | undefined {
  const file = configFileOf(option);
  if (option === undefined && !existsSync(file)) return undefined;
  const { operations = {} } = readYaml(file);
  const values = { operations, upstreams: [{ name: "any", urls: ["http://127.0.0.1"] }] };
  return loadConfig({ values, folder: dirname(file) }, process.env, { isTolerant: true }).config.operations;
}

function readYaml(file: string): { readonly operations?: unknown } {
  const unusable = (why: string): CommandError => new CommandError(`${file} ${why}. --url and --token need no file`);
  let text: string;
  try {
    text = readTextFile(file, MOST_CONFIG);
  } catch (error) {
    throw unusable((error as Error).message);
  }
  try {
    // An anchor may be used as often as the gateway takes it. Its warnings would repeat lines, and secrets with them.
    const value: unknown = parse(text, { logLevel: "error", maxAliasCount: -1 });
    return isObject(value) ? value : {};
  } catch {
    // The error would repeat them, too.
    throw unusable('is not valid YAML: "registry-gateway check" says where');
  }
}

function urlOf({ host, port }: OperationsConfig): string {
  if (port === 0) throw new CommandError("operations.port is 0, any free port: name the one it is with --url");
  const reached = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  return `http://${isIPv6(reached) ? `[${reached}]` : reached}:${port}`;
}
