import { randomBytes } from "node:crypto";

const SAFE_ID = /^[A-Za-z0-9._:/+=@~-]{1,128}$/;

// One random prefix per process and a counter: unique without asking the kernel for random bytes on every request.
const ID_PREFIX = randomBytes(8).toString("hex");
let ids = 0;

/** The client's `X-Request-Id` when it is at most 128 safe characters and no key, else a new one. */
export function requestIdOf(received: string | string[] | undefined): string {
  // A key that got into the wrong place goes no further.
  if (typeof received === "string" && SAFE_ID.test(received) && !received.includes("rgk_")) return received;
  ids++;
  return `${ID_PREFIX}-${ids.toString(36)}`;
}
