import type { IncomingMessage, ServerResponse } from "node:http";

/** What the bodies of requests may take in all. A body that comes in one piece with its head is not counted. */
const MAX_BYTES = 64 * 1024 * 1024;

interface Upload {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  bytes: number;
}

/**
 * Bodies that are kept in memory: until they are complete, and from then on until their request is answered. When they
 * are too much in all, the one that has been on its way longest is given up; those that are complete are never.
 */
export class Uploads {
  private readonly incomplete = new Set<Upload>();
  private readonly maxBytes: number;
  private readonly refuse: (request: IncomingMessage, response: ServerResponse) => void;
  private bytes = 0;

  /**
   * @param largest body that is accepted, in bytes
   * @param refuse answers a request whose body is given up, and ends its connection
   */
  constructor(largest: number, refuse: (request: IncomingMessage, response: ServerResponse) => void) {
    this.maxBytes = Math.max(MAX_BYTES, 4 * largest);
    this.refuse = refuse;
  }

  /** Counts the body of a request from now on; it has to be read in this turn, or what comes is lost. */
  follow(request: IncomingMessage, response: ServerResponse): void {
    const upload: Upload = { request, response, bytes: 0 };
    this.incomplete.add(upload);
    request.on("data", (chunk: Buffer) => {
      upload.bytes += chunk.length;
      this.bytes += chunk.length;
      if (this.bytes > this.maxBytes) this.giveUp();
    });
    request.once("end", () => this.incomplete.delete(upload));
    response.once("close", () => {
      this.incomplete.delete(upload);
      this.bytes -= upload.bytes;
    });
  }

  private giveUp(): void {
    const [longest] = this.incomplete;
    if (longest === undefined) return;
    this.incomplete.delete(longest);
    this.refuse(longest.request, longest.response);
  }
}
