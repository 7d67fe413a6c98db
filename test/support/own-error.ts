import { expect } from "vitest";

interface Further {
  readonly code?: string;
  /** Given where the answer has a `Retry-After`. */
  readonly retryAfter?: unknown;
}

/** What the body of an error of the gateway's own equals. */
export function ownError(text: RegExp = /./, further: Further = {}): object {
  return {
    error: expect.stringMatching(new RegExp(`^registry-gateway: .*(${text.source})`)) as string,
    code: expect.stringMatching(/^[a-z_]+$/) as string,
    requestId: expect.stringMatching(/./) as string,
    ...further,
  };
}
