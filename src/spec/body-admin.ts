import { isObject, type Member, membersAt } from "../json.ts";
import type { AdminPath } from "./operations.ts";

/** An admin as a body names it, and where: a dotted path, for error texts. */
export interface BodyAdmin {
  readonly admin: string;
  readonly at: string;
}

/** A body from which no admin can be read safely; `message` says why in the caller's words. */
export class AmbiguousBodyError extends Error {}

/**
 * All admins that a body names, in the order of `paths`; null and absent count as not named.
 *
 * @param text the body's text, accepted by `JSON.parse`
 * @param body the same, parsed
 * @throws AmbiguousBodyError when a key on the way to an admin occurs twice, when something on the way is no object (but
 * where the path {@link AdminPath.mayEnd}), or when an admin is not a string
 */
export function adminsNamedBy(text: string, body: unknown, paths: readonly AdminPath[]): BodyAdmin[] {
  checkRepeatedKeys(text, paths);
  return paths.flatMap((path) => {
    const admin = valueAt(body, path);
    if (admin === undefined || admin === null) return [];
    const at = path.keys.join(".");
    if (typeof admin === "string") return [{ admin, at }];
    throw new AmbiguousBodyError(`${at} must be a string, the admin's party id`);
  });
}

function valueAt(body: unknown, { keys, mayEnd = false }: AdminPath): unknown {
  let value = body;
  for (const [depth, key] of keys.entries()) {
    if (value === undefined || value === null) return undefined;
    if (!isObject(value)) {
      if (mayEnd) return undefined;
      throw new AmbiguousBodyError(`${keys.slice(0, depth).join(".") || "the body"} must be an object`);
    }
    value = Object.hasOwn(value, key) ? value[key] : undefined;
  }
  return value;
}

/** Parsers take the first or the last of two: which one the registry takes cannot be known. */
function checkRepeatedKeys(text: string, paths: readonly AdminPath[]): void {
  if (!mayRepeatKeys(text, paths)) return;
  // Paths begin alike: each object is gone through once.
  const objects = new Map<number, readonly Member[]>();
  for (const { keys } of paths) {
    let start = 0;
    for (const [depth, key] of keys.entries()) {
      const members = objects.get(start) ?? [...membersAt(text, start)];
      objects.set(start, members);
      const [value, second] = members.filter((member) => member.key === key);
      if (value === undefined) break;
      if (second !== undefined) {
        const way = keys.slice(0, depth + 1).join(".");
        throw new AmbiguousBodyError(`the key ${way}, on the way to an admin, occurs twice in the body`);
      }
      start = value.start;
    }
  }
}

/** A quick look that spares the long one: no key stands there twice, and none could stand there escaped. */
function mayRepeatKeys(text: string, paths: readonly AdminPath[]): boolean {
  if (text.includes("\\u")) return true;
  for (const { keys } of paths) {
    for (const key of keys) {
      // Without the quote before it the search is quicker: quotes stand everywhere.
      const end = `${key}"`;
      const first = text.indexOf(end);
      if (first !== -1 && text.includes(end, first + end.length)) return true;
    }
  }
  return false;
}
