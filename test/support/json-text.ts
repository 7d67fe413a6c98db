import * as fc from "fast-check";

export interface JsonText {
  readonly value: unknown;
  /** The value as a peculiar but correct writer puts it: odd whitespace, needless escapes. */
  readonly text: string;
}

const SPACES = ["", "", "", " ", "\n", "\r\n", "\t", "  "];

/** JSON texts of values of `arbitrary`, written in many ways. */
export function jsonText(arbitrary: fc.Arbitrary<unknown>): fc.Arbitrary<JsonText> {
  return fc
    .tuple(arbitrary, fc.infiniteStream(fc.nat(SPACES.length - 1)), fc.infiniteStream(fc.nat(9)))
    .map(([value, spaces, choices]) => {
      const space = (): string => SPACES[spaces.next().value as number]!;
      const string = (text: string): string => {
        const isEscaped = (choices.next().value as number) < 3;
        if (!isEscaped) return JSON.stringify(text);
        const units = Array.from({ length: text.length }, (_none, i) => text.charCodeAt(i));
        return `"${units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("")}"`;
      };
      const write = (one: unknown): string => {
        if (typeof one === "string") return string(one);
        if (Array.isArray(one)) return `[${space()}${one.map(write).join(`${space()},${space()}`)}${space()}]`;
        if (typeof one === "object" && one !== null) {
          const members = Object.entries(one).map(
            ([key, member]) => `${string(key)}${space()}:${space()}${write(member)}`,
          );
          return `{${space()}${members.join(`${space()},${space()}`)}${space()}}`;
        }
        return JSON.stringify(one);
      };
      return { value, text: `${space()}${write(value)}${space()}` };
    });
}
