import { type Clock, systemClock } from "../../clock.ts";
import { normaliseNodeUrl } from "../../config/urls.ts";
import { UsageError } from "../command-line.ts";
import { printLine, wrap } from "../terminal.ts";
import {
  type Check,
  checkCors,
  checkErrors,
  checkFreshness,
  checkInfo,
  checkVersions,
  type Inspected,
} from "./checks.ts";
import { checkLatency, checkLimits, checkProtocol } from "./connection-checks.ts";
import type { Finding, Severity } from "./finding.ts";
import { checkInstruments, checkPagination } from "./pagination.ts";
import { RegistryClient } from "./registry-client.ts";

const CHECKS: readonly (readonly [about: string, check: Check])[] = [
  ["protocol", checkProtocol],
  ["admin", checkInfo],
  ["versions", checkVersions],
  ["pagination", checkPagination],
  ["instruments", checkInstruments],
  ["errors", checkErrors],
  ["freshness", checkFreshness],
  ["CORS", checkCors],
  ["latency", checkLatency],
  ["rate limit", checkLimits],
];

const EXIT_BY_SEVERITY: Readonly<Record<Severity, number>> = { good: 0, note: 0, warning: 2, error: 1 };
const SEVERITIES: readonly Severity[] = ["good", "note", "warning", "error"];

/**
 * `inspect URL`: what a registry is like for those who build wallets or registries, in some 40 requests, one after the other.
 *
 * @returns 0 where nothing is worse than a note, 2 for warnings, 1 for errors
 * @throws UsageError for a text that is no base URL
 */
export async function inspect(
  options: Readonly<Record<string, unknown>>,
  [url = ""]: readonly string[],
): Promise<number> {
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) throw new UsageError("inspect takes the base URL of a registry");
  const findings = await inspectRegistry(new URL(normaliseNodeUrl(url)), systemClock());
  const worst = SEVERITIES.findLast((severity) => findings.some((each) => each.severity === severity))!;
  if (options["json"] === true) printLine(JSON.stringify({ url, worst, findings }));
  else print(findings, worst);
  return EXIT_BY_SEVERITY[worst];
}

/** What there is to say of the registry at a base URL. A check that gets no answer says so, and the others go on. */
export async function inspectRegistry(base: URL, clock: Clock): Promise<readonly Finding[]> {
  const client = new RegistryClient(base, clock);
  const inspected: Inspected = { instruments: [] };
  const findings: Finding[] = [];
  for (const [about, check] of CHECKS) {
    try {
      findings.push(...(await check(client, inspected)));
    } catch (error) {
      const { message, cause } = error as Error;
      const text = `no answer: ${cause instanceof Error ? cause.message || message : message}`;
      findings.push({ about, severity: "error", text, source: "RFC 9112" });
    }
    // It is no registry, then: what else it answers means nothing.
    if (about === "admin" && inspected.info === undefined) break;
  }
  return findings;
}

const MARKS: Readonly<Record<Severity, string>> = { good: "✓", note: "·", warning: "!", error: "✗" };

function print(findings: readonly Finding[], worst: Severity): void {
  const rows = findings.map(({ about, severity, text }) => [`${MARKS[severity]} ${about}`, text]);
  const first = Math.max(...rows.map(([head]) => head!.length));
  for (const [at, [head, text]] of rows.entries()) {
    const isGood = ["good", "note"].includes(findings[at]!.severity);
    const lines = wrap(`${head!.padEnd(first)}  ${text}`, " ".repeat(first + 2));
    for (const line of lines) printLine(line);
    if (!isGood) printLine(`${" ".repeat(first + 2)}(${findings[at]!.source})`);
  }
  const counts = SEVERITIES.map((severity) => findings.filter((each) => each.severity === severity).length);
  printLine(`${counts[3]} errors, ${counts[2]} warnings${worst === "error" ? "" : "; nothing breaks the standard"}`);
}
