import { gzipSync } from "node:zlib";
import { htmlAnswer, jsonAnswer, textAnswer, tooManyRequestsAnswer, type Answer } from "./answer.ts";
import type { SpoiledAnswer } from "./faults.ts";

/** The admin that a node with the fault `wrong-admin` claims unless told another. */
export const WRONG_ADMIN = `someone-else::1220${"ab".repeat(32)}`;

/** What the fault makes of the registry's answer; `answerAs` gives that answer, as its own or as another admin's. */
export function spoilAnswer(fault: SpoiledAnswer, answerAs: (admin?: string) => Answer): Answer {
  switch (fault.kind) {
    case "status": {
      const answer =
        fault.body === undefined
          ? jsonAnswer(fault.status, { error: `sample fault ${fault.status}` })
          : textAnswer(fault.status, fault.body, fault.contentType ?? "application/json");
      if (fault.contentType !== undefined) answer.headers["content-type"] = fault.contentType;
      if (fault.retryAfter !== undefined) answer.headers["retry-after"] = fault.retryAfter;
      return answer;
    }
    case "html-404":
      return htmlAnswer(404, "Not Found");
    case "html-502":
      return htmlAnswer(502, "Bad Gateway");
    case "429":
      return tooManyRequestsAnswer(fault.retryAfter);
    case "not-json":
      return textAnswer(200, "Everything is fine, thank you.", "application/json");
    case "wrong-type":
      return withHeader(answerAs(), "content-type", "text/plain");
    case "redirect":
      return withHeader(textAnswer(302, ""), "location", fault.location ?? "/elsewhere");
    case "gzip": {
      const answer = answerAs();
      return withHeader({ ...answer, body: gzipSync(answer.body) }, "content-encoding", "gzip");
    }
    case "bad-coding":
      return withHeader(answerAs(), "content-encoding", "sample-coding");
    case "wrong-admin":
      break;
  }
  return answerAs(fault.admin ?? WRONG_ADMIN);
}

function withHeader(answer: Answer, name: string, value: string): Answer {
  return { ...answer, headers: { ...answer.headers, [name]: value } };
}
