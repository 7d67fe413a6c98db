import { isObject } from "../json.ts";

// A byte order mark stays in the text, which then is no JSON (RFC 8259 §8.1).
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * The JSON object that the bytes hold; undefined where they hold something else, are not UTF-8, or an object in them gives
 * a key twice: two readers could take different values for it (RFC 7515 §4, RFC 7519 §4).
 */
export function readJsonObject(bytes: Uint8Array): Record<string, unknown> | undefined {
  try {
    const text = decoder.decode(bytes);
    const value: unknown = JSON.parse(text);
    return isObject(value) && countMembers(text) === countKeys(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Members that all objects of a JSON text give: outside strings there is one colon for each. */
function countMembers(text: string): number {
  let members = 0;
  for (let i = 0; i < text.length; i++) {
    const character = text[i];
    if (character === ":") members += 1;
    else if (character === '"') {
      for (i += 1; text[i] !== '"'; i++) if (text[i] === "\\") i += 1;
    }
  }
  return members;
}

/** Keys of all objects in a parsed value, where a key that was given twice is there once. */
function countKeys(root: object): number {
  let keys = 0;
  const open: unknown[] = [root];
  while (open.length > 0) {
    const value = open.pop();
    if (typeof value !== "object" || value === null) continue;
    const parts: unknown[] = Object.values(value);
    if (!Array.isArray(value)) keys += parts.length;
    for (const part of parts) open.push(part);
  }
  return keys;
}
