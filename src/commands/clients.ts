import { digestOf, newKey } from "../clients/credential.ts";
import { type Duration, systemClock } from "../clock.ts";
import { readTextFile } from "../config/files.ts";
import { MAX_KEYS_FILE, parseKeys } from "../config/keys-file.ts";
import { parseDuration } from "../units.ts";
import { CommandError, complain, EXIT, print } from "./terminal.ts";

/**
 * `clients new`: prints an API key, which is stored nowhere, and the line for the keys file.
 *
 * @throws CommandError for a name, tier or end that the file cannot have
 */
export function newClient(name: string, { tier, expires }: { tier: string; expires?: string }): number {
  const key = newKey();
  const line = JSON.stringify({
    name,
    tier,
    digest: digestOf(key),
    ...(expires !== undefined && { expires: endOf(expires) }),
  });
  const [problem] = parseKeys(line).problems;
  if (problem !== undefined) throw new CommandError(problem.message);
  print(`The API key, shown this once. Give it to the client; it is stored nowhere:

  ${key}

The line to append to clients.keysFile, which holds nothing but its digest:

${line}`);
  return EXIT.ok;
}

/** `clients check`: prints what is wrong with a keys file, or that it is good. */
export function checkClients(file: string): number {
  let text: string;
  try {
    text = readTextFile(file, MAX_KEYS_FILE);
  } catch (error) {
    complain(`${file}: ${(error as Error).message}`);
    return EXIT.badConfig;
  }
  const { keys, problems } = parseKeys(text);
  for (const { line, message } of problems) complain(`${file}:${line}: ${message}`);
  if (problems.length > 0) return EXIT.badConfig;
  const now = systemClock().wallNow();
  const ended = keys.filter(({ expires = Infinity }) => expires <= now);
  for (const { name } of ended) complain(`warning: a key of ${name} has expired: take it out`);
  const names = new Set(keys.map((key) => key.name));
  print(`${file} is good: keys: ${keys.length}, clients: ${names.size}`);
  return EXIT.ok;
}

const DAY: Duration = 86_400_000;

/** End of a key that is good for so long from now on (`90d`, `12h`), or until a time; in whole seconds. */
function endOf(text: string): string {
  const now = systemClock().wallNow();
  const length = /^[0-9]{1,5}d$/.test(text) ? Number(text.slice(0, -1)) * DAY : parseDuration(text);
  const end = length === undefined ? Date.parse(text) : now + length;
  if (end > now) return new Date(Math.ceil(end / 1_000) * 1_000).toISOString().replace(".000", "");
  throw new CommandError(
    "--expires takes how long the key is good, such as 90d or 12h, or a time in the future, such as 2027-01-31T00:00:00Z",
  );
}
