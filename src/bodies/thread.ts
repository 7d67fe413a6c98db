import { parentPort } from "node:worker_threads";
import { perform, type Result, type Task } from "./tasks.ts";
import { weightOf } from "./weight.ts";

/** What the thread is sent. */
export interface Order {
  readonly task: Task;
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Of the parsed body, see {@link weightOf}. */
  readonly maxWeight: number;
}

/** What it sends back; no result where the body is too heavy. */
export interface Delivery {
  readonly result: Result | undefined;
}

// The thread in which large bodies are read: one after the other, each with its result.
parentPort?.on("message", ({ task, bytes, maxWeight }: Order) => {
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const delivery: Delivery = { result: weightOf(body) > maxWeight ? undefined : perform(task, body) };
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- threads have no origin
  parentPort?.postMessage(delivery);
});
