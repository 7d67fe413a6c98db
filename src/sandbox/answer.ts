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

/** Whose errors and whose context shapes a sample registry speaks: the two families in the field differ in both. */
export const ERROR_STYLES = ["splice", "utility"] as const;
export type ErrorStyle = (typeof ERROR_STYLES)[number];

/** The registry's refusals in its own words. */
export interface Refusals {
  noSuchPath(): Answer;
  wrongMethod(allowed: string): Answer;
  unknownInstrument(id: string): Answer;
  unknownTransfer(id: string): Answer;
  unknownAllocation(id: string): Answer;
  unknownInstruction(id: string): Answer;
  tooMany(what: string, limit: number): Answer;
  wrongContentType(): Answer;
  malformedBody(): Answer;
  missingChoiceArguments(): Answer;
  malformedField(field: string): Answer;
}

function refuse(status: number, error: string): Answer {
  return jsonAnswer(status, { error });
}

const SPLICE: Refusals = {
  noSuchPath: () => textAnswer(404, "The requested resource could not be found."),
  wrongMethod: (allowed) => textAnswer(405, `HTTP method not allowed, supported methods: ${allowed}`),
  unknownInstrument: (id) => refuse(404, `No instrument with id ${id} found`),
  unknownTransfer: (id) => refuse(404, `AmuletTransferInstruction '${id}' not found.`),
  unknownAllocation: (id) => refuse(404, `AmuletAllocation '${id}' not found.`),
  unknownInstruction: (id) => refuse(404, `AmuletAllocationInstruction '${id}' not found.`),
  tooMany: (what, limit) => refuse(400, `At most ${limit} ${what} are supported.`),
  wrongContentType: () => textAnswer(415, "The request's Content-Type is not supported. Expected:\napplication/json"),
  malformedBody: () => refuse(400, "The request content was malformed: expected json value"),
  missingChoiceArguments: () =>
    refuse(400, "The request content was malformed: Missing required field: DownField(choiceArguments)"),
  malformedField: (field) =>
    refuse(400, `The request content was malformed: Got value with wrong type: DownField(${field})`),
};

const UTILITY: Refusals = {
  noSuchPath: () => refuse(404, "Not Found"),
  wrongMethod: (allowed) => refuse(405, `Method Not Allowed, use ${allowed}`),
  unknownInstrument: (id) => refuse(404, `No instrument with id ${id} found`),
  unknownTransfer: (id) => refuse(404, `Transfer instruction ${id} not found`),
  unknownAllocation: (id) => refuse(404, `Allocation ${id} not found`),
  unknownInstruction: (id) => refuse(404, `Allocation instruction ${id} not found`),
  tooMany: (what, limit) => refuse(422, `Too many ${what}: at most ${limit}`),
  wrongContentType: () => refuse(415, "Unsupported Media Type"),
  malformedBody: () => refuse(400, "Invalid JSON"),
  missingChoiceArguments: () => refuse(422, "Missing required field: DownField(choiceArguments)"),
  malformedField: (field) => refuse(422, `Got value with wrong type: DownField(${field})`),
};

/** The refusals of the family. */
export const REFUSALS: Readonly<Record<ErrorStyle, Refusals>> = { splice: SPLICE, utility: UTILITY };
