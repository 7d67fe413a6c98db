/** The environment's variables, as `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>;

export interface Substitution {
  readonly text: string;
  /** Whether anything came from a variable or its default. */
  readonly replaced: boolean;
  /** What is wrong with the references, one sentence each. */
  readonly faults: readonly string[];
}

// The escape $${ comes first: it wins over the reference that begins at its second character.
const REFERENCE = /\$\$\{|\$\{([^}]*)\}|\$\{/g;
const INSIDE = /^([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$/s;

/**
 * Replaces `${NAME}` and `${NAME:-default}` in one value. As in a shell, the default also stands for a variable that
 * is set but empty. `$${` is a literal `${`. What comes from a variable is not looked at again.
 */
export function substitute(text: string, env: Environment): Substitution {
  const faults: string[] = [];
  let replaced = false;
  const result = text.replace(REFERENCE, (reference: string, inside: string | undefined) => {
    if (reference === "$${") return "${";
    if (inside === undefined) {
      faults.push('"${" is not closed by "}": write $${ for a literal ${');
      return reference;
    }
    if (inside.includes("${")) {
      faults.push('a reference stands within another: "${" ends at the first "}"');
      return reference;
    }
    const match = INSIDE.exec(inside);
    if (match === null) {
      // The text may be a default that is a secret.
      const [name] = /^[A-Za-z0-9_]*/.exec(inside)!;
      const shown = name === inside ? name : `${name}…`;
      faults.push(`"\${${shown}}" is not of the form \${NAME} or \${NAME:-default}`);
      return reference;
    }
    replaced = true;
    const [, name, fallback] = match;
    const value = Object.hasOwn(env, name!) ? env[name!] : undefined;
    if (fallback !== undefined) return value === undefined || value === "" ? fallback : value;
    if (value === undefined) faults.push(`the environment variable ${name} is not set, and has no default here`);
    return value ?? "";
  });
  return { text: result, replaced, faults };
}

/** `text` written so that {@link substitute} gives it back. */
export function escapeReferences(text: string): string {
  // As a string, the replacement would itself be read as a pattern, in which $$ is one $.
  return text.replaceAll("${", () => "$${");
}
