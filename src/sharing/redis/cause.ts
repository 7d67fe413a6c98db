import { printable } from "../../json.ts";

const MOST_LOOKED_AT = 300;

/** Texts in errors of Redis, of Node or of the client, and what they mean: the end of a sentence that begins with "Redis". */
const MEANINGS: readonly (readonly [sign: string, meaning: string])[] = [
  ["MISCONF", "takes no writes because it cannot save to its disk (MISCONF)"],
  ["OOM", "is full (OOM): give it more memory, or let it evict"],
  ["NOPERM", "does not let this user do what the gateway needs (NOPERM)"],
  ["user executing the script", "does not let this user do what the gateway needs (NOPERM)"],
  ["READONLY", "is a replica that takes no writes (READONLY)"],
  ["WRONGPASS", "refuses the login: user or password is wrong (WRONGPASS)"],
  ["NOAUTH", "wants a login, and none is configured (NOAUTH)"],
  ["LOADING", "is still loading its data (LOADING)"],
  ["CLUSTERDOWN", "has no master for some keys (CLUSTERDOWN)"],
  ["MOVED ", "moves keys between its nodes (MOVED)"],
  ["ASK ", "moves keys between its nodes (ASK)"],
  ["MASTERDOWN", "is a replica that has lost its master (MASTERDOWN)"],
  ["BUSY", "is kept busy by a script of others (BUSY)"],
  ["No such master", "has sentinels that know no master of this name: look at redis.sentinel.name"],
  ["connect to sentinel", "has a sentinel that cannot be reached"],
  ["max number of clients", "has no connection left (maxclients)"],
  ["cluster support disabled", "is no cluster: use redis.url"],
  ["ECONNREFUSED", "refuses the connection"],
  ["ENOTFOUND", "has a host name that does not resolve"],
  ["EAI_AGAIN", "has a host name that cannot be resolved now"],
  ["ALTNAME_INVALID", "shows the certificate of another name"],
  ["altnames", "shows the certificate of another name"],
  ["certificate", "shows a certificate that is not trusted: look at redis.tls.caFile"],
  ["SSL", "does not speak TLS there, or not as configured"],
  ["EPROTO", "does not speak TLS there, or not as configured"],
  ["ECONNRESET", "broke off the connection"],
  ["Connection is closed", "cannot be reached, or closed the connection"],
  ["Stream isn't writeable", "cannot be reached, or closed the connection"],
  ["ETIMEDOUT", "does not answer in time"],
  ["in time", "does not answer in time"],
  ["timed out", "does not answer in time"],
];

/** Says for operators why Redis cannot be used. The text keeps nothing of the error alive, which may be large. */
export function causeOf(error: unknown): string {
  const text = textOf(error);
  return MEANINGS.find(([sign]) => text.includes(sign))?.[1] ?? `cannot be used: ${printable(text)}`;
}

/** Text of an error. A cluster's client says only that all nodes failed; the error of the last node says why. */
function textOf(error: unknown): string {
  if (!(error instanceof Error)) return "unknown trouble";
  const { code, message, lastNodeError } = error as NodeJS.ErrnoException & { lastNodeError?: unknown };
  if (lastNodeError instanceof Error) return textOf(lastNodeError);
  // A copy: what is cut off a text keeps the whole of it in memory.
  return Buffer.from(`${code ?? ""} ${message.slice(0, MOST_LOOKED_AT)}`.trim()).toString();
}
