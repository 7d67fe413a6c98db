import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { Clock, Duration } from "../clock.ts";
import type { Config } from "../config/schema.ts";
import type { TextCheck } from "../config/text-check.ts";
import { GatewayError } from "../errors.ts";
import { isObject } from "../json.ts";
import type { CheckNews, CheckOrder } from "./config-check-thread.ts";

/** In bytes of UTF-8: a thousand upstreams. */
const MAX_TEXT = 256 * 1024;

/** In bytes: such a text as a JSON string, every other character of it escaped. */
export const CHECK_BODY_BYTES = 2 * MAX_TEXT;

/** A text of a thousand upstreams takes a second; what takes longer was made to. */
const TIMEOUT: Duration = 4_000;

/** Modules are loaded, on a machine that may be busy. */
const START_TIMEOUT: Duration = 20_000;
const MAX_HEAP_MIB = 256;

/** Beyond so many further ones are refused. */
const MAX_WAITING = 4;

/**
 * Checks texts of configurations one after the other, each in a thread of its own: what a text makes of the parser holds
 * up nothing else, and there is no environment in the thread.
 */
export class ConfigChecks {
  private readonly clock: Clock;
  private last: Promise<unknown> = Promise.resolve();
  private waiting = 0;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** @throws GatewayError 400 for another body than `{yaml}`, and a text that is too large or too costly; 503 for too many */
  async check(body: unknown, current: Config): Promise<TextCheck> {
    const text = textOf(body);
    if (this.waiting >= MAX_WAITING) {
      throw new GatewayError("overloaded", "other configurations are being checked; try again shortly", {
        retryAfter: 5,
      });
    }
    this.waiting += 1;
    const check = this.last.then(() => this.run({ text, current }));
    this.last = check.catch(() => undefined);
    try {
      return await check;
    } finally {
      this.waiting -= 1;
    }
  }

  private run(order: CheckOrder): Promise<TextCheck> {
    const extension = extname(fileURLToPath(import.meta.url));
    const thread = new Worker(new URL(`./config-check-thread${extension}`, import.meta.url), {
      execArgv: [],
      env: {},
      workerData: order,
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MIB },
    });
    thread.unref();
    return new Promise<TextCheck>((resolve, reject) => {
      const fail = (): void => {
        const text =
          "the text could not be checked: it is nested too deeply, or costs more than any configuration does";
        reject(new GatewayError("invalid_request", text));
      };
      const end = (): void => {
        fail();
        void thread.terminate();
      };
      let cancelTimer = this.clock.after(START_TIMEOUT, end);
      thread.on("message", (news: CheckNews) => {
        cancelTimer();
        if (news.kind === "checked") resolve(news.check);
        else cancelTimer = this.clock.after(TIMEOUT, end);
      });
      thread.on("error", fail);
      thread.on("exit", () => {
        cancelTimer();
        fail();
      });
    });
  }
}

function textOf(body: unknown): string {
  if (!isObject(body) || Object.keys(body).length !== 1 || typeof body["yaml"] !== "string") {
    const text = 'the request is not valid: it is a JSON object with "yaml" alone, the text of a configuration file';
    throw new GatewayError("invalid_request", text);
  }
  if (Buffer.byteLength(body["yaml"]) > MAX_TEXT) {
    throw new GatewayError("body_too_large", `the text is larger than ${MAX_TEXT} bytes: use registry-gateway check`);
  }
  return body["yaml"];
}
