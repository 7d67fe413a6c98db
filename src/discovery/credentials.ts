import { DAY, type Duration } from "../clock.ts";
import { isObject, parseJson } from "../json.ts";
import { type Answer, readRegistryUrls } from "./name-service.ts";

/** The claim by which an admin says where its registry is (draft of the credentials standard). */
const KEY = "cip-56/asset-registry-urls";

/** The registry of credentials that scans have drops what nobody renewed for so long. */
const LIFETIME: Duration = 90 * DAY;

/** Where a scan has the credentials that a party published about itself. */
export function credentialsUrl(scan: string, party: string): string {
  const query = new URLSearchParams({ holder: party, issuer: party, keyPrefix: KEY });
  return `${scan}/credential-registry/v1/credentials?${query.toString()}`;
}

/**
 * The registry URLs in a scan's answer, sorted; none where the party published none that is valid now. The last record counts.
 * Records by or about any other party are ignored, though a scan was not asked for them.
 *
 * @param now milliseconds since the Unix epoch
 * @throws Error when the answer does not say; the message is the rest of a sentence that begins with "it"
 */
export function readCredentials({ status, text }: Answer, party: string, now: number): readonly string[] {
  if (status !== 200) throw new Error(`answered ${status}`);
  const answer = parseJson(text);
  if (!isObject(answer) || !Array.isArray(answer.credentials)) throw new Error("answered no credentials");
  // Asked for one key of one party: what needs pages is something else.
  if (typeof answer.nextPageToken === "string" && answer.nextPageToken !== "") throw new Error("answered in pages");
  const records = answer.credentials
    .map((each: unknown) => recordOf(each, party))
    .filter((record) => record !== undefined && isValid(record, now)) as Claim[];
  const last = Math.max(...records.map(({ createdAt }) => createdAt));
  const values = new Set(records.filter(({ createdAt }) => createdAt === last).map(({ value }) => value));
  if (values.size > 1) throw new Error("holds records of the same moment that differ");
  const [value] = values;
  return value === undefined ? [] : readRegistryUrls(value.split(","));
}

interface Claim {
  readonly value: string;
  /** -Infinity where the record does not say. */
  readonly createdAt: number;
  /** Infinity where nothing bounds it. */
  readonly validFrom: number;
  readonly validUntil: number;
}

/** Of a record by the party about itself that has the claim; undefined for any other. */
function recordOf(entry: unknown, party: string): Claim | undefined {
  if (!isObject(entry)) return undefined;
  const { issuer, holder, claims, createdAt, expiresAt } = entry;
  if (issuer !== party || holder !== party || !isObject(claims) || !isObject(claims.values)) return undefined;
  const value = claims.values[KEY] ?? claims.values[`${KEY}!${party}`];
  if (typeof value !== "string") return undefined;
  const created = timeOf(createdAt, -Infinity);
  const ends = [timeOf(expiresAt, Infinity), timeOf(claims.validUntil, Infinity)];
  if (created !== -Infinity) ends.push(created + LIFETIME);
  return {
    value,
    createdAt: created,
    validFrom: timeOf(claims.validFrom, -Infinity),
    validUntil: Math.min(...ends),
  };
}

/** A time that cannot be read is NaN, and no time is within it. */
function timeOf(value: unknown, otherwise: number): number {
  if (value === undefined || value === null) return otherwise;
  return typeof value === "string" ? Date.parse(value) : Number.NaN;
}

function isValid({ createdAt, validFrom, validUntil }: Claim, now: number): boolean {
  return createdAt <= now && validFrom <= now && now < validUntil;
}
