import type { ErrorCode } from "../errors.ts";
import type { Logger } from "./log.ts";
import type { OperationLabel } from "./metrics/labels.ts";
import type { RecentRequests, RequestLine } from "./recent-requests.ts";

/** What the line of a request says that was refused before anything was done for it. */
export interface RefusedLine {
  /** Of a form that JSON writes as it is. */
  readonly requestId: string;
  readonly method: string;
  readonly operation: OperationLabel;
  readonly status: number;
  /** Its name, or `none`. */
  readonly client: string;
  readonly durationMs: number;
  readonly bytes: number;
  readonly code: ErrorCode;
}

/** What the lines of many refused requests have in common, as JSON. */
interface RefusedText {
  readonly method: string;
  readonly status: number;
  readonly code: ErrorCode;
  /** From behind the id to the duration. */
  readonly start: string;
  /** From behind the body's length. */
  readonly end: string;
}

/** Names of clients whose texts are kept. Those of tokens are theirs to choose. */
const MOST_NAMES = 1_000;

/** The lines of requests: each goes into the log, and is one of the latest for a while. */
export class RequestLog {
  private readonly log: Logger;
  private readonly recent: RecentRequests;
  /** By the client's name, then by operation. */
  private readonly texts = new Map<string, Map<OperationLabel, RefusedText>>();

  constructor(log: Logger, recent: RecentRequests) {
    this.log = log;
    this.recent = recent;
  }

  write(line: RequestLine): void {
    this.put(fieldsOf(line));
  }

  /** The line of a request that a fault of the gateway ended. */
  writeFault(line: RequestLine, fault: unknown): void {
    this.recent.note(fieldsOf(line));
    this.log.error({ ...line, err: fault }, "request");
  }

  /** The same for a refused request: a flood of these comes from few clients, and their lines differ in little. */
  writeRefused(line: RefusedLine): void {
    const { start, end } = this.textOf(line);
    this.put(`"requestId":"${line.requestId}",${start}${line.durationMs},"bytes":${line.bytes},${end}`);
  }

  private put(fields: string): void {
    this.recent.note(fields);
    this.log.request(fields);
  }

  private textOf(line: RefusedLine): RefusedText {
    const { client, operation, method, status, code } = line;
    let ofClient = this.texts.get(client);
    if (ofClient === undefined) {
      if (this.texts.size === MOST_NAMES) this.texts.clear();
      ofClient = new Map();
      this.texts.set(client, ofClient);
    }
    const known = ofClient.get(operation);
    if (known?.method === method && known.status === status && known.code === code) return known;
    const about = { method, operation, upstream: "none", status, outcome: "refused", client };
    const text = { method, status, code, start: `${fieldsOf(about)},"durationMs":`, end: fieldsOf({ code }) };
    ofClient.set(operation, text);
    return text;
  }
}

/** As JSON, without the braces. */
function fieldsOf(line: Partial<RequestLine>): string {
  return JSON.stringify(line).slice(1, -1);
}
