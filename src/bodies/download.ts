import type { IncomingHttpHeaders } from "node:http";
import type { LookupFunction } from "node:net";
import { Agent, request } from "undici";
import type { AbortSignalLike, Clock, Duration } from "../clock.ts";
import { formatSize } from "../units.ts";
import { collect, NotCollected } from "./collected-body.ts";

export interface DownloadOptions {
  readonly clock: Clock;
  /** Media types, as `Accept` has them. */
  readonly accept: string;
  /** After this time it is over, whatever has come. */
  readonly timeout: Duration;
  /** In bytes. */
  readonly maxBody: number;
  /** Looks up the host of the URL where that is a name. */
  readonly lookup: LookupFunction;
  /** Ends it early. */
  readonly signal?: AbortSignalLike;
}

export interface Download {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/**
 * What a server answers to a GET. Nothing is sent but the request, over a connection of its own, and no redirect is
 * followed.
 *
 * @throws Error whose message says why there is no answer, as the rest of a sentence that begins with what was asked for;
 * without addresses, which the `cause` may have
 */
export async function download(url: string, options: DownloadOptions): Promise<Download> {
  const { clock, accept, timeout, maxBody, lookup, signal } = options;
  const ending = new AbortController();
  const stop = () => ending.abort();
  let isLate = false;
  const cancelTimer = clock.after(timeout, () => {
    isLate = true;
    stop();
  });
  signal?.addEventListener("abort", stop);
  if (signal?.aborted === true) stop();
  const agent = new Agent({
    pipelining: 0,
    connect: { timeout, lookup },
    maxHeaderSize: 16 * 1024,
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  try {
    const { statusCode, headers, body } = await request(url, {
      dispatcher: agent,
      headers: { accept, "accept-encoding": "identity" },
      signal: ending.signal,
    });
    // What is said besides is read by nobody.
    if (statusCode === 200 && (headers["content-encoding"] ?? "identity") !== "identity") throw new Encoded();
    return { status: statusCode, headers, body: await collect(body, maxBody) };
  } catch (error) {
    throw new Error(isLate ? `did not answer within ${timeout / 1000} s` : sayOf(error, maxBody), { cause: error });
  } finally {
    cancelTimer();
    signal?.removeEventListener("abort", stop);
    await agent.destroy();
  }
}

class Encoded extends Error {
  constructor() {
    super("is encoded, though it was asked for as it is");
  }
}

function sayOf(error: unknown, maxBody: number): string {
  if (error instanceof Encoded) return error.message;
  if (!(error instanceof NotCollected)) return `cannot be fetched (${codeOf(error)})`;
  return error.fault === "too-large"
    ? `is larger than the ${formatSize(maxBody)} that are read`
    : "comes in far too many chunks for its size";
}

/** A code such as ECONNREFUSED, else the kind of error: no message, which could hold an address. */
function codeOf(error: unknown): string {
  const { code, name } = error as NodeJS.ErrnoException;
  return [code, name].find((each) => typeof each === "string" && /^\w{1,60}$/.test(each)) ?? "unknown error";
}
