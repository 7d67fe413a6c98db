import type { Operation } from "../spec/endpoints.ts";
import { type AnswerContent, summariseAnswer } from "./answer.ts";
import { type PageParts, takeApart } from "./page.ts";
import { type RequestContent, type RequestForm, summariseRequest } from "./request.ts";

/** What can be asked of a body, and what is said about it. */
export type Task =
  | { readonly kind: "answer"; readonly operation: Operation }
  | { readonly kind: "page" }
  | { readonly kind: "request"; readonly form: RequestForm };

export interface Results {
  readonly answer: AnswerContent;
  readonly page: PageParts | string;
  readonly request: RequestContent;
}

export type Result = Results[Task["kind"]];

/** Does what is asked, in whatever thread this runs. */
export function perform(task: Task, body: Buffer): Result {
  switch (task.kind) {
    case "answer":
      return summariseAnswer(body, task.operation);
    case "page":
      return readPage(body);
    case "request":
      return summariseRequest(body, task.form);
  }
}

/** What the body of a page says, or why it is none. */
export function readPage(body: Buffer): PageParts | string {
  let json: unknown;
  try {
    json = JSON.parse(body.toString("utf8"));
  } catch {
    return "it is not JSON";
  }
  return takeApart(body, json);
}
