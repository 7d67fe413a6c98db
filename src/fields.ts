/**
 * Header fields of one message as a flat list: name, value, name, value, … in the order received, repeated fields kept
 * apart. Names are in lower case; values are latin1 strings, so that a value written again has the same bytes.
 */
export type Fields = readonly string[];

/** Fields that speak of one connection or its framing (RFC 9110 §7.6.1), and what older servers made of them. */
export const HOP_BY_HOP = [
  "connection",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
] as const;

/** All values of the field `name` (lower case), in order. */
export function fieldValues(fields: Fields, name: string): string[] {
  const values: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i] === name) values.push(fields[i + 1]!);
  }
  return values;
}

/** The values of the field `name` joined by `, ` (RFC 9110 §5.3), or undefined when the field is absent. */
export function fieldValue(fields: Fields, name: string): string | undefined {
  let value: string | undefined;
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i] === name) value = value === undefined ? fields[i + 1]! : `${value}, ${fields[i + 1]!}`;
  }
  return value;
}

/** The fields whose (lower-case) name satisfies `keep`. */
export function filterFields(fields: Fields, keep: (name: string) => boolean): string[] {
  const kept: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    if (keep(fields[i]!)) kept.push(fields[i]!, fields[i + 1]!);
  }
  return kept;
}

/** Fields from Node's or undici's raw header list (strings or latin1 bytes), names lower-cased. */
export function fieldsFromRaw(raw: readonly (string | Buffer)[]): string[] {
  const fields: string[] = [];
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!;
    const value = raw[i + 1]!;
    fields.push(
      (typeof name === "string" ? name : name.toString("latin1")).toLowerCase(),
      typeof value === "string" ? value : value.toString("latin1"),
    );
  }
  return fields;
}
