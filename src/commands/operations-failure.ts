import type { OperationsTarget } from "./operations-client.ts";

/** The question to an operator whose `--url` leads to something else. */
export const WRONG_LISTENER = "is it the operations listener of a gateway of this version?";

interface Refusal {
  readonly status: number;
  readonly json: unknown;
  readonly code: unknown;
  readonly retryAfter: unknown;
}

const ADVICE: Readonly<Record<number, string>> = {
  401: "Name the file with the operations token by --token-file, or the gateway's configuration by --config.",
  421: "Name the listener by localhost or an IP address in --url, or add its name to operations.hosts.",
};

/** What the listener refused, why, and what to do. */
export function refusalOf(url: string, { status, json, code, retryAfter }: Refusal): string {
  const { error } = (json ?? {}) as { readonly error?: unknown };
  const isOurs = typeof error === "string" && typeof code === "string";
  const why = isOurs
    ? error.replace(/^registry-gateway: /, "").replace('add "force": true', "add --force")
    : "it does not say why";
  const advice = !isOurs || code === "no_such_path" ? `I${WRONG_LISTENER.slice(1)}` : ADVICE[status];
  const when = typeof retryAfter === "string" && isOurs ? `Try again in ${retryAfter} s.` : undefined;
  return [`${url} refuses (${status}): ${why}.`, advice, when].filter((part) => part !== undefined).join(" ");
}

/** Why the listener could not be asked, and what to do. */
export function failureOf({ url, deadline }: OperationsTarget, error: unknown): string {
  const { code = "", name, message, cause } = error as NodeJS.ErrnoException & { readonly cause?: unknown };
  if (name === "TimeoutError" || code === "UND_ERR_CONNECT_TIMEOUT") {
    return `${url} does not answer within ${deadline / 1000} s`;
  }
  if (code === "ECONNREFUSED") {
    return `${url} does not answer, nothing listens there: is the gateway running, and is that its operations.host and operations.port? --url names another address`;
  }
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") return `the host of ${url} cannot be found`;
  if (code === "UND_ERR_SOCKET" || code === "ECONNRESET") return `${url} closes the connection without an answer`;
  if (code.startsWith("HPE_")) return `${url} does not answer with HTTP: does it take https://?`;
  if (code.startsWith("ERR_SSL") || code === "EPROTO") return `${url} does not answer with TLS: does it take http://?`;
  if (cause instanceof Error) return failureOf({ url, token: undefined, deadline }, cause);
  return `${url} cannot be asked: ${code === "" ? message : code}`;
}
