import { type KeyTree, keyTree, repeatedKey } from "../json.ts";
import { type AdminPath, type AdminPaths, DRAFT_ADMINS, type Operation, OPERATION_RECORDS } from "./operations.ts";

/** Where the factories name their admin; undefined for all other endpoints, whose bodies name none. */
export function adminPathsOf(operation: Operation): AdminPaths | undefined {
  const record = operation === "pass_through" ? undefined : OPERATION_RECORDS[operation];
  return record?.kind === "factory" ? record.admins : undefined;
}

/**
 * Where the factories of later API versions name their admin, by the decoded segments below `/registry`; in whatever
 * case, for there are servers that read paths in any. It is as in the last version that is known.
 */
export function adminPathsOfPassThrough(segments: readonly string[]): AdminPaths | undefined {
  const [group, version, factory] = segments.map((segment) => segment.toLowerCase());
  if (segments.length !== 3 || version === undefined || !/^v[0-9]+$/.test(version)) return undefined;
  return FACTORIES.get(`${group} ${factory}`);
}

/** By group and name, whatever the version. */
const FACTORIES: ReadonlyMap<string, AdminPaths> = new Map([
  ...Object.values(OPERATION_RECORDS)
    .filter((record) => record.kind === "factory")
    .map(({ path, admins }) => [path.replace(/\/v[0-9]+\//, " "), admins] as const),
  // A draft (field.md, *Draft family*), whose arguments are not settled: every place where a factory names one.
  ["conditional-lock lock-factory", DRAFT_ADMINS] as const,
]);

/** An admin as a body names it, and where. */
export interface BodyAdmin {
  readonly admin: string;
  /** Dotted path in the body, for error texts. */
  readonly at: string;
}

/** Thrown for a body from which no admin can be read safely; `message` says why in the caller's words. */
export class AmbiguousBody extends Error {}

/**
 * All admins that the body names, in the order of `paths`; null and absent count as not named.
 *
 * @param text the body's text, accepted by `JSON.parse`
 * @param body the same, parsed
 * @throws AmbiguousBody when other parsers may read another admin: a key on the way to one occurs twice, or beside it,
 * or in its place, stands one that differs only in case or in separators; what is on the way is no object, but where it
 * {@link AdminPath.mayEnd}; or an admin is not a string
 */
export function adminsNamedBy(text: string, body: unknown, paths: AdminPaths): BodyAdmin[] {
  const admins: BodyAdmin[] = [];
  const look = lookOf(paths);
  checkRepeatedKeys(text, paths, look);
  for (let i = 0; i < paths.length; i += 1) {
    const admin = valueAt(body, paths[i]!) ?? undefined;
    if (admin === undefined) continue;
    const at = look.dotted[i]!;
    if (typeof admin !== "string") throw new AmbiguousBody(`${at} must be a string, the admin's party id`);
    admins.push({ admin, at });
  }
  return admins;
}

const SETTLED_ALLOCATIONS: AdminPath = { keys: ["choiceArguments", "allocations"] };
const OF_ALLOCATIONS: AdminPaths = [SETTLED_ALLOCATIONS];

/**
 * The contract ids of the allocations that a settlement names: by them its registry is known, for nothing else in it
 * names one. None where one of them is no text, or two parsers may read other ones.
 *
 * @throws AmbiguousBody as {@link adminsNamedBy}
 */
export function allocationsOf(text: string, body: unknown): readonly string[] {
  checkRepeatedKeys(text, OF_ALLOCATIONS, lookOf(OF_ALLOCATIONS));
  const found = valueAt(body, SETTLED_ALLOCATIONS);
  return Array.isArray(found) && found.every((each) => typeof each === "string") ? found : [];
}

/** What is made of paths once. */
interface Look {
  /** Each as error texts name it. */
  readonly dotted: readonly string[];
  readonly tree: KeyTree;
  /** To look for keys given twice: finds the keys of all paths, quoted as they stand in a body, and whatever may be one in disguise. */
  readonly keysOrEscapes: RegExp;
}

const looks = new WeakMap<AdminPaths, Look>();

function lookOf(paths: AdminPaths): Look {
  let look = looks.get(paths);
  if (look === undefined) {
    const keys = new Set(paths.flatMap((path) => path.keys));
    const keysOrEscapes = new RegExp(`"(?:${[...keys].join("|")})"|\\\\u`, "g");
    const tree = keyTree(paths.map((path) => path.keys));
    look = { dotted: paths.map((path) => path.keys.join(".")), tree, keysOrEscapes };
    looks.set(paths, look);
  }
  return look;
}

function checkRepeatedKeys(text: string, paths: AdminPaths, look: Look): void {
  const repeated = mayRepeatKeys(text, look) ? repeatedKey(text, look.tree) : undefined;
  if (repeated === undefined) return;
  const path = paths.find(({ keys }) => repeated.every((key, depth) => keys[depth] === key));
  throw new AmbiguousBody(
    `the key "${repeated.at(-1)}" on the way to ${(path?.keys ?? repeated).join(".")} occurs twice in the body`,
  );
}

/** Whether a key may be given twice: a quick look that spares the long one. Escaped, a key could look otherwise. */
function mayRepeatKeys(text: string, { keysOrEscapes }: Look): boolean {
  const seen: string[] = [];
  keysOrEscapes.lastIndex = 0;
  for (let match = keysOrEscapes.exec(text); match !== null; match = keysOrEscapes.exec(text)) {
    const [found] = match;
    if (found === "\\u" || seen.includes(found)) return true;
    seen.push(found);
  }
  return false;
}

/** @throws AmbiguousBody where the way is not one that every parser goes */
function valueAt(body: unknown, { keys, mayEnd = false }: AdminPath): unknown {
  let value = body;
  for (let depth = 0; depth < keys.length; depth += 1) {
    const key = keys[depth]!;
    if (value === undefined || value === null) return undefined;
    if (typeof value !== "object" || Array.isArray(value)) {
      if (mayEnd) return undefined;
      throw new AmbiguousBody(`${keys.slice(0, depth).join(".") || "the body"} must be an object`);
    }
    const other = lookalikeOf(key, value);
    if (other !== undefined) {
      const right = keys.slice(0, depth + 1).join(".");
      throw new AmbiguousBody(`the key ${JSON.stringify(other)} in the body looks like ${right}, but is another one`);
    }
    value = Object.hasOwn(value, key) ? (value as Record<string, unknown>)[key] : undefined;
  }
  return value;
}

/** Such as `ExpectedAdmin` or `expected_admin`: there are parsers that take them for `expectedAdmin`. */
function lookalikeOf(key: string, object: object): string | undefined {
  const { pattern, longest } = lookalikes.get(key) ?? rememberLookalikes(key);
  for (const each of Object.keys(object)) {
    if (each.length >= key.length && each.length <= longest && each !== key && pattern.test(each)) return each;
  }
  return undefined;
}

interface Lookalikes {
  readonly pattern: RegExp;
  /** Their greatest length; the least is the key's. A test of this is cheaper than one of the pattern. */
  readonly longest: number;
}

/** By key on the way to an admin; there are half a dozen. */
const lookalikes = new Map<string, Lookalikes>();

function rememberLookalikes(key: string): Lookalikes {
  // With u, i goes by Unicode's case folding, as parsers do that ignore case: ſ is an s.
  const pattern = new RegExp(`^${key.replaceAll(/[A-Z]/g, "[_-]?$&")}$`, "iu");
  const known = { pattern, longest: key.length + (key.match(/[A-Z]/g)?.length ?? 0) };
  lookalikes.set(key, known);
  return known;
}
