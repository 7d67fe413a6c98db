import { dirname, resolve } from "node:path";
import { Document, type ErrorCode, LineCounter, parseDocument } from "yaml";
import { systemClock } from "../clock.ts";
import { digestOf } from "./effective.ts";
import { readTextFile } from "./files.ts";
import type { Schema } from "./keys.ts";
import { parseKeys } from "./keys-file.ts";
import type { ClientKey, LoadedConfig } from "./loaded.ts";
import { ConfigError, type Problem } from "./problem.ts";
import { QUOTE_IT, Reader } from "./reader.ts";
import type { Environment } from "./references.ts";
import { checkRules, type Report } from "./rules.ts";
import { type Config, configSchema } from "./schema.ts";
import { warningsOf } from "./warnings.ts";

/** A YAML file, or the same as data: relative paths in it begin at `folder`. */
export type ConfigSource = { readonly file: string } | { readonly values: object; readonly folder: string };

const MAX_FILE = 2 ** 20;
const MAX_SECRET = 64 * 2 ** 10;

/**
 * The effective configuration and the texts of all files that it names.
 *
 * @param options `isTolerant`: a secret that cannot be read is `unreadable`, and no key or certificate is read
 * @throws {ConfigError} with all problems of the schema or, where it has none, all between keys and of files
 */
export function loadConfig(source: ConfigSource, env: Environment, options: { isTolerant?: true } = {}): LoadedConfig {
  const file = "file" in source ? resolve(source.file) : undefined;
  const folder = "file" in source ? dirname(resolve(source.file)) : source.folder;
  const files = new Set<string>();
  const readFile = (path: string, largest = MAX_SECRET): string => {
    const named = resolve(folder, path);
    files.add(named);
    try {
      return readTextFile(named, largest);
    } catch (error) {
      throw new Error(`the file ${named} ${(error as Error).message}`, { cause: error });
    }
  };
  const stopAt = (problems: readonly Problem[]): void => {
    if (problems.length === 0) return;
    const sorted = problems.toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0));
    throw new ConfigError(sorted, [...files], file);
  };

  let text = "";
  try {
    if (file !== undefined) text = readFile(file, MAX_FILE);
  } catch (error) {
    stopAt([{ path: "", message: (error as Error).message }]);
  }
  const lineCounter = new LineCounter();
  // Keys given twice are found by the reader, which knows their path.
  const syntax = { lineCounter, prettyErrors: false, uniqueKeys: false, logLevel: "error" } as const;
  const document = "file" in source ? parseDocument(text, syntax) : new Document(source.values);
  const reader = new Reader({ document, lines: lineCounter, folder, references: { env, readFile }, ...options });
  const report: Report = (path, message) => reader.report(path, message);

  // Where the syntax is wrong, the tree is a guess: what else it seems to say would mislead.
  reportSyntax(document, text, reader);
  stopAt(reader.problems);
  const read = reader.read(configSchema as Schema, document.contents, "") as Config;
  stopAt(reader.problems);
  const config = withCaches(read);
  const keys = readKeys(config.clients, reader.texts, report);
  checkRules(config, reader.texts, report);
  stopAt(reader.problems);

  const warnings = warningsOf(config, reader.texts, systemClock().wallNow());
  return { config, texts: reader.texts, keys, digest: digestOf(config), warnings, files: [...files] };
}

/** Errors whose messages repeat nothing of the text, which may be a secret that somebody wrote without quotes. */
const SPEAKABLE = new Set<ErrorCode>(["BAD_INDENT", "MISSING_CHAR", "MULTILINE_IMPLICIT_KEY", "TAB_AS_INDENT"]);

/** Reports the first error of YAML alone: those after it follow from it. */
function reportSyntax({ errors, warnings }: Document, text: string, reader: Reader): void {
  const [error] = [...errors, ...warnings];
  if (error === undefined) return;
  const [offset] = error.pos;
  const words = SPEAKABLE.has(error.code) ? error.message : `this cannot stand here; ${QUOTE_IT}`;
  const isReference = text.slice(offset - 1, offset + 1) === "${";
  if (isReference) reader.reportAt(offset - 1, "", 'a reference in braces or brackets stands in quotes: "${…}"');
  else reader.reportAt(offset, "", `not valid YAML: ${words}`);
}

/** Each upstream's `cache` made whole by the global one. */
function withCaches({ upstreams, ...config }: Config): Config {
  const { memory: _memory, ...cache } = config.cache;
  const whole = upstreams.map((upstream) => ({
    ...upstream,
    cache: { ...cache, ...upstream.cache, ttl: { ...cache.ttl, ...upstream.cache?.ttl } },
  }));
  return { ...config, upstreams: whole };
}

/** Reads the keys of clients, and lets go of the text of their file. */
function readKeys(clients: Config["clients"], texts: Map<string, string>, report: Report): readonly ClientKey[] {
  const { keysFile = "", tiers = {} } = clients ?? {};
  const text = texts.get(keysFile);
  texts.delete(keysFile);
  if (text === undefined) return [];
  const { keys, problems } = parseKeys(text, Object.keys(tiers));
  for (const { line, message } of problems) report("clients.keysFile", `the file ${keysFile} line ${line}: ${message}`);
  return keys;
}
