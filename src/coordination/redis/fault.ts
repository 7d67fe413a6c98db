/** Why Redis cannot be used, for people. */
export interface RedisFault {
  /** The rest of a sentence that begins with "Redis"; holds no secret and, but for a library's own text, no address. */
  readonly text: string;
  /** It does not go away by itself: the configuration or the server has to change. */
  readonly isLasting: boolean;
}

const LASTING: readonly (readonly [RegExp, string])[] = [
  [/WRONGPASS|invalid password|invalid username-password/i, "refuses the login: user or password is wrong"],
  [/NOAUTH|Authentication required/i, "wants a login and none is configured"],
  [/NOPERM/, "does not let this user do what is needed (NOPERM)"],
  [/No such master/i, "has sentinels that know no master of this name: look at redis.sentinel.name"],
  [/ENOTFOUND|EAI_/, "has a name that does not resolve"],
  [/ERR_TLS_CERT_ALTNAME_INVALID|does not match certificate's altnames/, "shows the certificate of another name"],
  [
    /SELF_SIGNED|UNABLE_TO_|DEPTH_ZERO_|CERT_|self-signed|unable to (get|verify)|certificate (has expired|is not yet valid)/,
    "shows a certificate that is not trusted: look at redis.tls.caFile",
  ],
  [/cluster support disabled/i, "is no cluster: use redis.url"],
  [/ERR_SSL_|EPROTO|wrong version number|packet length too long/, "does not speak TLS there, or not as configured"],
];

const PASSING: readonly (readonly [RegExp, string])[] = [
  [/ECONNREFUSED/, "refuses the connection"],
  [
    /ECONNRESET|Connection is closed|connection closed/i,
    "breaks off the connection; where it wants TLS, use rediss://",
  ],
  [/ETIMEDOUT|timed? ?out/i, "does not answer in time"],
];

/** What an error of the client means. */
export function readFault(error: unknown): RedisFault {
  const text = textOf(error);
  const find = (table: typeof LASTING) => table.find(([pattern]) => pattern.test(text))?.[1];
  const lasting = find(LASTING);
  return { text: lasting ?? find(PASSING) ?? `cannot be used: ${text}`, isLasting: lasting !== undefined };
}

/** The client says of a cluster only that all nodes failed; why, says the last of them. */
function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code, lastNodeError } = error as NodeJS.ErrnoException & { lastNodeError?: unknown };
  return lastNodeError === undefined ? `${code ?? ""} ${error.message}`.trim() : textOf(lastNodeError);
}
