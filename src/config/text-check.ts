import { isAbsolute } from "node:path";
import { isObject } from "../json.ts";
import type { Draft } from "./complete.ts";
import { type Change, diffConfig, settingsOf, upstreamSettingsOf } from "./diff.ts";
import { parseSealed } from "./parse.ts";
import type { Problem } from "./problem.ts";
import type { Config } from "./schema.ts";
import { warningsOfText, warnOfUnpinned } from "./warnings.ts";

/** A key whose value was not looked at, and why not. */
export interface NotLookedAt {
  /** Upstreams are named, where their names could be read. */
  readonly path: string;
  readonly because: "environment" | "file" | "secret";
}

/** What can be said of the text of a configuration without looking at anything else. */
export interface TextCheck {
  /** Nothing is wrong with it, as far as it was looked at. */
  readonly good: boolean;
  readonly problems: readonly Problem[];
  readonly warnings: readonly string[];
  /** Against the configuration in use; `before` or `after` is absent where the key is off or not there. */
  readonly changes: readonly Change[];
  /** Keys whose values were not looked at, or only as text. */
  readonly notLookedAt: readonly NotLookedAt[];
}

/** Stands in the place of a secret. */
const HIDDEN = "***";

/**
 * Checks a text that anybody may have written, against the configuration in use. It answers nothing about variables and
 * files that the text names, nor whether a secret in it is the one in use.
 */
export function checkText(text: string, current: Config): TextCheck {
  const { problems, unread, draft } = parseSealed(text);
  const named = unread.map(({ path, because }) => ({ path: namePath(path, draft), because }));
  if (draft === undefined) return { good: false, problems, warnings: [], changes: [], notLookedAt: named };
  // Nothing but what was left alone is missing in it.
  const next = withoutGaps(draft) as Config;
  const secrets = secretPaths(next).map((path) => ({ path, because: "secret" as const }));
  const isWhole = unread.every(({ because }) => because === "file");
  return {
    good: true,
    problems,
    warnings: isWhole ? [...warningsOfText(next), ...warnOfUnpinned(next)] : [],
    changes: diffConfig(current, next).filter((change) => isCertain(change, named)),
    notLookedAt: [...named, ...secrets],
  };
}

/** Upstreams by their names, as changes name them. */
function namePath(path: string, draft: Draft | undefined): string {
  return path.replace(/^upstreams\[(\d+)\]/, (whole, index: string) => {
    const name = draft?.upstreams?.[Number(index)]?.name;
    return name === undefined ? whole : `upstreams[${name}]`;
  });
}

/** The same without what is undefined in it. */
function withoutGaps(value: unknown): unknown {
  if (Array.isArray(value)) return value.filter((item) => item !== undefined).map(withoutGaps);
  if (!isObject(value)) return value;
  const given = Object.entries(value).filter(([, item]) => item !== undefined);
  return Object.fromEntries(given.map(([key, item]) => [key, withoutGaps(item)]));
}

function secretPaths(config: Config): string[] {
  const upstreams = config.upstreams.flatMap((upstream) =>
    [...upstreamSettingsOf(upstream)].map(
      ([path, setting]) => [`upstreams[${upstream.name}].${path}`, setting] as const,
    ),
  );
  return [...settingsOf(config), ...upstreams].flatMap(([path, { shown }]) => (shown.includes(HIDDEN) ? [path] : []));
}

/** Whether the change is one, whatever stands in what was left alone. */
function isCertain({ path, before, after }: Change, unread: readonly Omit<NotLookedAt, "secret">[]): boolean {
  // Whether two secrets are the same is not told.
  if (before === after) return false;
  return unread.every(({ path: left, because }) => {
    if (because === "file") {
      // Relative to the folder of the configuration file, which a text does not have.
      return path !== left || after === undefined || isAbsolute(after);
    }
    // Without its name, an upstream is no one's successor.
    if (/^upstreams\[\d+\](\.name)?$/.test(left)) return !path.startsWith("upstreams");
    if (path === left || left.startsWith(`${path}.`) || left.startsWith(`${path}[`)) return false;
    if (after !== undefined) return true;
    // A key that is made of one beside it; an upstream's cache is made of the cache for all.
    const isOfAll = left.startsWith("cache.") && path.endsWith(`.${left}`);
    return !isOfAll && groupOf(path) !== groupOf(left);
  });
}

function groupOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf(".")));
}
