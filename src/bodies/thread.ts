import { parentPort } from "node:worker_threads";
import type { Operation } from "../spec/operations.ts";
import { type AnswerContent, readAnswerBody } from "./answer.ts";
import { type Meaning, meaningOf } from "./meaning.ts";
import { type PageParts, readPage } from "./page.ts";
import { type RequestContent, type RequestForm, readRequestBody } from "./request.ts";
import { weightOf } from "./weight.ts";

/** What can be asked of a body, and what is said about it. */
export type Task =
  | { readonly kind: "answer"; readonly operation: Operation }
  | { readonly kind: "meaning"; readonly operation: Operation }
  | { readonly kind: "page" }
  | { readonly kind: "request"; readonly form: RequestForm };

export interface Results {
  readonly answer: AnswerContent;
  readonly meaning: Meaning;
  readonly page: PageParts | string;
  readonly request: RequestContent;
}

export type Result = Results[Task["kind"]];

function perform(task: Task, body: Buffer): Result {
  switch (task.kind) {
    case "answer":
      return readAnswerBody(body, task.operation);
    case "meaning":
      return meaningOf(task.operation, body);
    case "page":
      return readPage(body);
    case "request":
      return readRequestBody(body, task.form);
  }
}

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
