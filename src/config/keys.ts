import { DAY } from "../clock.ts";
import { IsOptional, Type } from "typebox";
import type { Static, TProperties, TSchema, TUnsafe } from "typebox";
import { notations } from "./notations.ts";
import type { NotationName, NotationValues } from "./notations.ts";

/**
 * What the schema says about a key beyond JSON Schema's own keywords. The reader, the printer, the diff and the
 * generators all work from these.
 */
export interface Notes {
  /** For people: what the key does. */
  readonly description?: string;
  /** As it is in the file. */
  readonly default?: unknown;
  /** First of them: shown in the example file where there is no default. */
  readonly examples?: readonly unknown[];
  /** How the text of the file is checked, parsed and printed. */
  readonly notation?: NotationName;
  /** Bounds of a duration (ms) or size (bytes). */
  readonly least?: number;
  readonly most?: number;
  /** What a value must be, as the end of `must be …`. */
  readonly expected?: string;
  /** A change of this key, or of what is below it, takes effect at the next start only. */
  readonly restart?: boolean;
  /** Nothing is filled in where keys are absent: they are taken over from elsewhere. */
  readonly inherits?: boolean;
  /** The keys below are described elsewhere, and written out only there. */
  readonly repeats?: boolean;
  /** Exactly one of each group of keys must be there. */
  readonly oneOf?: readonly (readonly string[])[];
}

type Described = Notes & { readonly description: string };

/** Text in one of the {@link notations}: a duration, a size, a URL, a file … */
export function scalar<Name extends NotationName>(notation: Name, described: Described): TUnsafe<NotationValues[Name]> {
  return Type.Unsafe<NotationValues[Name]>({
    type: "string",
    pattern: notations[notation].pattern,
    notation,
    ...described,
  });
}

/** Free text. */
export function text(described: Described & { readonly pattern?: string }): TUnsafe<string> {
  return Type.Unsafe<string>({ type: "string", minLength: 1, expected: "text", ...described });
}

export function flag(byDefault: boolean, description: string): TUnsafe<boolean> {
  return Type.Unsafe<boolean>({ type: "boolean", default: byDefault, description, expected: "true or false" });
}

/** A whole number from `minimum` to `maximum`. */
export function count(described: Described & { readonly minimum: number; readonly maximum: number }): TUnsafe<number> {
  const expected = `a whole number from ${described.minimum} to ${described.maximum}`;
  return Type.Unsafe<number>({ type: "integer", expected, ...described });
}

/** A number from 0 to 1. */
export function share(described: Described): TUnsafe<number> {
  return Type.Unsafe<number>({
    type: "number",
    minimum: 0,
    maximum: 1,
    expected: "a number from 0 to 1",
    ...described,
  });
}

/** One of a few words. */
export function choice<const Words extends readonly string[]>(
  words: Words,
  described: Described,
): TUnsafe<Words[number]> {
  return Type.Unsafe<Words[number]>({ enum: words, expected: words.join(" or "), ...described });
}

/** A group of keys. */
export function group<Keys extends TProperties>(description: string, keys: Keys, notes: Notes = {}) {
  return Type.Object(keys, { description, additionalProperties: false, ...notes });
}

interface NamedNotes {
  /** What a name may be: as a regular expression, and as the end of `must be …`. */
  readonly pattern: string;
  readonly expected: string;
  /** A name for the example file. */
  readonly example: string;
  readonly maxProperties: number;
  readonly description: string;
}

/** Groups of one kind by names that the file chooses. Look them up with `Object.hasOwn`: a name may be `constructor`. */
export function named<Item extends TSchema>(
  values: Item,
  { pattern, expected, example, ...notes }: NamedNotes,
): TUnsafe<Record<string, Static<Item>>> {
  const names = { pattern, expected, example };
  return Type.Unsafe<Record<string, Static<Item>>>({ type: "object", default: {}, values, names, ...notes });
}

/**
 * A second, shorter window of a limit.
 *
 * @param what what is counted, in the plural
 */
export function burst(what: string, { most, requests }: { readonly most: number; readonly requests: number }) {
  return off(
    group(
      `A second window, as a rule a shorter one: at most this many ${what} in any of it.`,
      {
        requests: count({ minimum: 1, maximum: most, examples: [requests], description: `${what} in any window.` }),
        per: scalar("duration", { default: "1s", least: 1, most: DAY, description: "Length of the window." }),
      },
      { expected: `a window such as { requests: ${requests}, per: 5s }` },
    ),
  );
}

/** A key that is off where it is absent, or has the value `off`. */
export function off<Key extends TSchema>(key: Key) {
  return Type.Optional(key);
}

/** Files for TLS to an upstream or to Redis. */
export const tlsKeys = {
  caFile: off(
    scalar("certificateFile", {
      examples: ["/etc/ssl/registry-ca.pem"],
      description: "Certificates of the authorities to trust instead of the system's (PEM).",
    }),
  ),
  certFile: off(
    scalar("certificateFile", {
      examples: ["/etc/ssl/client.pem"],
      description: "Client certificate (PEM); needs keyFile.",
    }),
  ),
  keyFile: off(
    scalar("keyFile", {
      examples: ["/etc/ssl/client.key"],
      description: "Key of the client certificate (PEM); needs certFile.",
    }),
  ),
};

/** What all keys below have in common, as data. */
export type Schema = TSchema &
  Notes & {
    readonly type?: string;
    readonly properties?: Readonly<Record<string, Schema>>;
    readonly items?: Schema;
    /** What stands at each name that the file chooses, and what such a name may be. */
    readonly values?: Schema;
    readonly names?: Pick<NamedNotes, "pattern" | "expected" | "example">;
    readonly maxProperties?: number;
    readonly anyOf?: readonly Schema[];
    readonly enum?: readonly string[];
    readonly minItems?: number;
    readonly maxItems?: number;
  };

/** Whether the key is off where it is absent. */
export function isOff(schema: Schema): boolean {
  return IsOptional(schema);
}

/** A schema read as data. */
export function asData(schema: TSchema): Schema {
  return schema;
}
