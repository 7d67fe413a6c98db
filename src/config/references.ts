/** The environment's variables, as `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Sources of the texts that references stand for. */
export interface ReferenceSource {
  readonly env: Environment;
  /** The text of a file. @throws {Error} that says what is wrong with it */
  readonly readFile: (path: string, largest?: number) => string;
}

// The escape $${ comes first: it wins over the reference that begins at its second character.
const REFERENCE = /\$\$\{|\$\{([^}]*)\}/g;
/** Matches behind the last closing brace, where no reference ends: looking for its end each time would take for ever. */
const UNCLOSED = /\$\$\{|\$\{/g;
const VARIABLE = /^([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$/s;

/**
 * Replaces `${NAME}`, `${NAME:-default}` and `${file:PATH}` in one value. As in a shell, a default also stands for a variable
 * that is set and empty. `$${` is `${`. What a reference gives is not looked at again.
 *
 * @returns `isReplaced`: something came from elsewhere; `faults`: sentences that repeat nothing but names
 */
export function replaceReferences(text: string, source: ReferenceSource) {
  const faults = new Set<string>();
  let isReplaced = false;
  const replace = (reference: string, inside: unknown): string => {
    if (reference === "$${") return "${";
    isReplaced = true;
    try {
      if (typeof inside === "string") return valueOf(inside, source);
      faults.add('"${" is not closed by "}": write $${ for a literal ${');
      return "";
    } catch (error) {
      faults.add((error as Error).message);
      return "";
    }
  };
  const end = text.lastIndexOf("}") + 1;
  const replaced = text.slice(0, end).replace(REFERENCE, replace) + text.slice(end).replace(UNCLOSED, replace);
  return { text: replaced, isReplaced, faults: [...faults] };
}

function valueOf(inside: string, { env, readFile }: ReferenceSource): string {
  if (inside.includes("${")) throw new Error("a reference stands within another: give each by itself");
  if (inside.startsWith("file:")) return readFile(inside.slice("file:".length)).trim();
  const [, name, fallback] = VARIABLE.exec(inside) ?? [];
  if (name === undefined) throw new Error("a reference has the form ${NAME}, ${NAME:-default} or ${file:PATH}");
  const value = Object.hasOwn(env, name) ? env[name] : undefined;
  const given = fallback === undefined ? value : value || fallback;
  if (given === undefined) throw new Error(`the environment variable ${name} is not set, and has no default here`);
  return given;
}
