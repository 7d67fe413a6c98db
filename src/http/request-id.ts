import { randomBytes } from "node:crypto";

const SAFE = /^[A-Za-z0-9._:/+=@~-]{1,128}$/;

// One random prefix per process and a counter: unique without asking the kernel for random bytes on every request.
const PROCESS_PREFIX = randomBytes(8).toString("hex");
let count = 0;

/** The client's `X-Request-Id` when it is at most 128 safe characters, else a new one. */
export function requestIdOf(received: string | string[] | undefined): string {
  if (typeof received === "string" && SAFE.test(received)) return received;
  count++;
  return `${PROCESS_PREFIX}-${count.toString(36)}`;
}
