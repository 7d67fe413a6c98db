/**
 * What a terminal does not show as it is: control characters and escape sequences, marks that turn the direction of
 * writing, letters without width, separators of lines. Registries and their lists are strangers; what they say must not
 * move a cursor, hide text or look like something else.
 */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu;

/** Whether a terminal shows all of `text` as it is. */
export function isPrintable(text: string): boolean {
  return text.search(UNPRINTABLE) === -1;
}

/** `text` with what a terminal does not show written as `\u001b`, line breaks included. */
export function toPrintable(text: string): string {
  return text.replace(UNPRINTABLE, (letter) => {
    const units = Array.from({ length: letter.length }, (_, i) => letter.charCodeAt(i));
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
  });
}

type Output = Pick<NodeJS.WriteStream, "write">;

/** Prints one line. A line break in it is shown, not made: whatever somebody else said stays within its line. */
export function printLine(line: string, output: Output = process.stdout): void {
  output.write(`${toPrintable(line)}\n`);
}

/** Prints several lines. */
export function printLines(text: string, output: Output = process.stdout): void {
  for (const line of text.replace(/\n$/, "").split("\n")) printLine(line, output);
}
