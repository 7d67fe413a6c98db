import { isObject, printable } from "../json.ts";

/** Exit codes of the process: 0 stopped cleanly or all is well, 78 (EX_CONFIG) bad configuration, 1 anything else. */
export const EXIT = { ok: 0, failure: 1, badConfig: 78 } as const;

/** Ends a command with exit code 1; `message` is for the person who gave it. */
export class CommandError extends Error {
  override readonly name = "CommandError";
}

/** Characters of a line: no line of ours is longer, and texts of others are cut before. */
const LONGEST_LINE = 20_000;

/** Prints for people on stdout, line by line: what others wrote cannot act on the terminal. */
export function print(text: string): void {
  process.stdout.write(`${linesOf(text)}\n`);
}

/** Prints on stderr: what is wrong. */
export function complain(text: string): void {
  process.stderr.write(`${linesOf(text)}\n`);
}

/** Prints a value for programs. */
export function printJson(value: unknown): void {
  print(JSON.stringify(value, undefined, 2));
}

function linesOf(text: string): string {
  return text
    .split("\n")
    .map((line) => printable(line, LONGEST_LINE))
    .join("\n");
}

/** Rows as lines, each column as wide as its widest cell. */
export function tableLines(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_cell, i) => Math.max(...rows.map((row) => row[i]!.length)));
  return rows.map((row) =>
    row
      .map((cell, i) => cell.padEnd(widths[i]!))
      .join("  ")
      .trimEnd(),
  );
}

/** Resolves with the first signal that asks to stop. */
export function untilInterrupted(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => resolve());
  });
}

/** Words for errors of connections, by their codes; other errors have their own message. */
const FAILURES: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there",
  ECONNRESET: "the connection was closed without an answer",
  UND_ERR_SOCKET: "the connection was closed without an answer",
  ENOTFOUND: "the host cannot be found",
  EAI_AGAIN: "the host cannot be found",
  UND_ERR_CONNECT_TIMEOUT: "there is no connection in time",
  EPROTO: "it does not speak TLS, or not a version of it that is known",
  ERR_SSL_WRONG_VERSION_NUMBER: "it does not speak TLS: should it be http://?",
  EADDRINUSE: "the port is taken",
  EACCES: "this user may not do that",
};

/** Says why something could not be asked or done, as the rest of a sentence. */
export function sayFailure(error: unknown): string {
  if (!isObject(error)) return printable(String(error));
  const { name, code, message, cause } = error as Partial<NodeJS.ErrnoException>;
  if (name === "TimeoutError" || name === "AbortError") return "there is no answer in time";
  if (code !== undefined && code in FAILURES) return FAILURES[code]!;
  if (code?.startsWith("HPE_") === true) return "it does not speak HTTP: should it be https://?";
  return cause instanceof Error ? sayFailure(cause) : printable(message ?? code ?? "unknown error");
}
