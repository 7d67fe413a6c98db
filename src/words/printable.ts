/**
 * What a terminal or a page does not show as it is: control characters and escape sequences, marks that turn the direction of
 * writing, letters without width, separators of lines. Registries and their lists are strangers; what they say must not
 * move a cursor, hide text or look like something else.
 */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** White space of JSON's own. */
const LAYOUT = new Set(["\n", "\r", "\t"]);

/** `text` with what is not shown as it is written as `\u001b`, line breaks included. */
export function toPrintable(text: string): string {
  return text.replace(UNPRINTABLE, escaped);
}

/** JSON text with what is not shown as it is written as `\u001b`, which means the same there; its line breaks stay. */
export function toPrintableJson(text: string): string {
  return text.replace(UNPRINTABLE, (letter) => (LAYOUT.has(letter) ? letter : escaped(letter)));
}

function escaped(letter: string): string {
  const units = Array.from({ length: letter.length }, (_, i) => letter.charCodeAt(i));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
}
