import { toPrintable } from "../words/printable.ts";

type Output = Pick<NodeJS.WriteStream, "write">;

/** Prints one line. A line break in it is shown, not made: foreign text stays within its line. */
export function printLine(line: string, output: Output = process.stdout): void {
  output.write(`${toPrintable(line)}\n`);
}

/** Resolves with the first signal that asks to stop. */
export function untilInterrupted(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => resolve());
  });
}

/** Prints several lines. */
export function printLines(text: string, output: Output = process.stdout): void {
  for (const line of text.replace(/\n$/, "").split("\n")) printLine(line, output);
}
