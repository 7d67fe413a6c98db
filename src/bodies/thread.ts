import { parentPort } from "node:worker_threads";
import { BACKSLASH, COMMA, OPEN_BRACE, OPEN_BRACKET, QUOTE } from "../json.ts";
import type { Operation } from "../spec/operations.ts";
import { type AnswerContent, readAnswerBody } from "./answer.ts";
import { type Meaning, meaningOf } from "./meaning.ts";
import { type PageParts, readPage } from "./page.ts";
import { readRequestBody, type RequestContent, type RequestForm } from "./request.ts";

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

const COLON = 0x3a;

/** Bytes of heap that the parts of a parsed text take, at the most: see the cases of `test/long/push/weight.test.ts`. */
const CONTAINER = 64;
const KEY = 128;
const VALUE = 16;
const STRING = 16;

/**
 * What parsing a JSON text takes in memory, roughly and at the most: the heap of a thread that runs out while it parses
 * ends the whole process, so this has to be known before. Strings of more than one byte a character count twice.
 */
export function weightOf(body: Uint8Array): number {
  let weight = 2 * body.length;
  let i = 0;
  while (i < body.length) {
    const byte = body[i++]!;
    if (byte === QUOTE) {
      weight += STRING;
      while (i < body.length && body[i] !== QUOTE) i += body[i] === BACKSLASH ? 2 : 1;
      i++;
    } else if (byte === COMMA) weight += VALUE;
    else if (byte === COLON) weight += KEY;
    else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) weight += CONTAINER;
  }
  return weight;
}

// The thread in which large bodies are read: one after the other, each with its result.
parentPort?.on("message", ({ task, bytes, maxWeight }: Order) => {
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const delivery: Delivery = { result: weightOf(body) > maxWeight ? undefined : perform(task, body) };
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- threads have no origin
  parentPort?.postMessage(delivery);
});
