/** A whole HTTP answer, as data. */
export interface Answer {
  readonly status: number;
  readonly fields: Readonly<Record<string, string>>;
  readonly body: string;
}

/** JSON as registries write it: compact. */
export function jsonAnswer(status: number, body: unknown): Answer {
  return { status, fields: { "content-type": "application/json" }, body: JSON.stringify(body) };
}

/** An error of the registry's own. */
export function refusal(status: number, error: string): Answer {
  return jsonAnswer(status, { error });
}

/** An error of the framework below the registry. */
export function textAnswer(status: number, body: string): Answer {
  return { status, fields: { "content-type": "text/plain; charset=UTF-8" }, body };
}

/** An error of the web server in front of the registry. */
export function htmlAnswer(status: number, title: string): Answer {
  const head = `<head><title>${status} ${title}</title></head>`;
  const body = `<body>\r\n<center><h1>${status} ${title}</h1></center>\r\n<hr><center>nginx</center>\r\n</body>`;
  return { status, fields: { "content-type": "text/html" }, body: `<html>\r\n${head}\r\n${body}\r\n</html>\r\n` };
}

/** The 429 of real registries: no JSON, no `Retry-After`. */
export const BUSY = textAnswer(429, "Too Many Requests: Server is busy, please try again later.");
