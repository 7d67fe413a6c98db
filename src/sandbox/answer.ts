/** A whole HTTP answer, as data. */
export interface Answer {
  status: number;
  headers: Record<string, string>;
  body: string | Buffer;
}

/** A JSON answer, written as registries write it: compact, `Content-Type: application/json`. */
export function jsonAnswer(status: number, body: unknown): Answer {
  return { status, headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}

/** A plain text answer. */
export function textAnswer(status: number, text: string, contentType = "text/plain; charset=UTF-8"): Answer {
  return { status, headers: { "content-type": contentType }, body: text };
}

/** What the web server in front of a registry says of its own accord. */
export function htmlAnswer(status: number, title: string): Answer {
  const lines = [
    "<html>",
    `<head><title>${status} ${title}</title></head>`,
    "<body>",
    `<center><h1>${status} ${title}</h1></center>`,
    "<hr><center>nginx</center>",
    "</body>",
    "</html>",
    "",
  ];
  return textAnswer(status, lines.join("\r\n"), "text/html");
}

/** What an overloaded registry says; some send no `Retry-After`. */
export function tooManyRequestsAnswer(retryAfter?: string): Answer {
  const answer = textAnswer(429, "Too Many Requests: Server is busy, please try again later.");
  if (retryAfter !== undefined) answer.headers["retry-after"] = retryAfter;
  return answer;
}
