/**
 * A thread of clients of `node:http`, for what they see of a gateway that does not wait for their turn. It is sent
 * {@link PostOrder}s, and tells for each the statuses of the answers, or the code of what a client failed with first.
 */
import { once } from "node:events";
import { request } from "node:http";
import { setTimeout } from "node:timers/promises";
import { parentPort, Worker } from "node:worker_threads";

export interface PostOrder {
  readonly url: string;
  readonly headers: Readonly<Record<string, string | number>>;
  /** How many clients send it at once. */
  readonly count: number;
  /** Of the body. */
  readonly bytes: number;
  /** The body is sent in so many parts, a millisecond between two. */
  readonly parts: number;
}

export type Posted = readonly (number | string | undefined)[];

function post({ url, headers, bytes, parts }: PostOrder): Promise<Posted[number]> {
  return new Promise((resolve) => {
    const sent = request(url, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      agent: false,
    });
    sent.on("error", (error: NodeJS.ErrnoException) => resolve(error.code));
    sent.on("response", (answer) => answer.on("end", () => resolve(answer.statusCode)).resume());
    void (async () => {
      const part = Buffer.alloc(bytes / parts, " ");
      for (let i = 1; i < parts; i += 1) {
        sent.write(part);
        await setTimeout(1);
      }
      sent.end(part);
    })();
  });
}

parentPort?.on("message", (order: PostOrder) => {
  const all = Promise.all(Array.from({ length: order.count }, () => post(order)));
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- threads have no origin
  void all.then((posted) => parentPort!.postMessage(posted));
});

export class PostingThread {
  private readonly worker = new Worker(new URL(import.meta.url));

  async post(order: PostOrder): Promise<Posted> {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- threads have no origin
    this.worker.postMessage(order);
    const [posted] = (await once(this.worker, "message")) as [Posted];
    return posted;
  }

  stop(): Promise<unknown> {
    return this.worker.terminate();
  }
}
