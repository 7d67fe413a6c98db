import { Agent, request } from "undici";
import { collect, NotCollected } from "../bodies/collected-body.ts";
import type { AbortSignalLike, Clock, Duration } from "../clock.ts";
import { formatSize } from "../units.ts";
import { lookUp } from "../upstream/wire/host-names.ts";
import { isPrivateHost, lookUpPublic, PrivateAddress } from "../upstream/wire/public-address.ts";

export interface DownloadOptions {
  readonly clock: Clock;
  /** Else no connection is made to an address that is not public. */
  readonly allowPrivate: boolean;
  readonly timeout: Duration;
  /** In bytes. */
  readonly maxBody: number;
  /** Ends it early. */
  readonly signal: AbortSignalLike;
}

export interface Download {
  readonly status: number;
  readonly text: string;
}

/**
 * What a source of lists answers to a GET. Nothing is sent but the request, and no redirect is followed.
 *
 * @throws Error whose message says why there is no answer, as the rest of a sentence that begins with "it"; without
 * addresses
 */
export async function download(url: string, options: DownloadOptions): Promise<Download> {
  const { clock, allowPrivate, timeout, maxBody, signal } = options;
  const { hostname } = new URL(url);
  if (!allowPrivate && isPrivateHost(hostname)) throw new Error(withoutIt(new PrivateAddress().message));
  const ending = new AbortController();
  const stop = () => ending.abort();
  let isLate = false;
  const cancelTimer = clock.after(timeout, () => {
    isLate = true;
    stop();
  });
  signal.addEventListener("abort", stop);
  if (signal.aborted) stop();
  const agent = new Agent({
    pipelining: 0,
    connect: { timeout, lookup: allowPrivate ? lookUp : lookUpPublic },
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  try {
    const { statusCode, headers, body } = await request(url, {
      dispatcher: agent,
      headers: { accept: "application/json", "accept-encoding": "identity" },
      signal: ending.signal,
    });
    if (headers["content-encoding"] !== undefined) throw new Refused("answered in a content coding, unasked");
    return { status: statusCode, text: (await collect(body, maxBody)).toString("utf8") };
  } catch (error) {
    throw new Error(isLate ? `did not answer within ${timeout / 1000} s` : sayOf(error, maxBody), { cause: error });
  } finally {
    cancelTimer();
    signal.removeEventListener("abort", stop);
    await agent.destroy();
  }
}

/** An answer that is not taken. */
class Refused extends Error {}

/** The end of a sentence that begins with "it". */
function sayOf(error: unknown, maxBody: number): string {
  const { name, code, message, cause } = error as NodeJS.ErrnoException & { readonly cause?: unknown };
  if (error instanceof Refused) return message;
  if (error instanceof NotCollected) {
    return error.fault === "too-large"
      ? `is larger than the ${formatSize(maxBody)} that are read`
      : "comes in far too many chunks for its size";
  }
  if (error instanceof PrivateAddress) return withoutIt(message);
  if (cause instanceof Error) return sayOf(cause, maxBody);
  if (code === "UND_ERR_SOCKET" || code === "ECONNRESET" || code === "UND_ERR_RES_CONTENT_LENGTH_MISMATCH") {
    return "was cut off";
  }
  return `cannot be read (${code ?? name})`;
}

function withoutIt(text: string): string {
  return text.replace(/^it /, "");
}
