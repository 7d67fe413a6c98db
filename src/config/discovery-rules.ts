import { checkTwice } from "./common-rules.ts";
import type { Draft } from "./dependent-defaults.ts";
import type { Reading } from "./reading.ts";
import { isReadable } from "./urls.ts";

type DiscoveryDraft = NonNullable<Draft["discovery"]>;
type SourceDraft = NonNullable<NonNullable<DiscoveryDraft["sources"]>[number]>;

/** Anybody who can alter a list on its way decides where requests go. */
const PLAIN = "must begin with https://: without TLS, others could put registries of their own into it";

/** The keys of a source that name scans. */
const scanKeys = ["cns", "credentials"] as const;

function checkSource(reading: Reading, path: string, source: SourceDraft): void {
  const { admins, agree } = source;
  const isGiven = (key: string) => reading.isGiven(`${path}.${key}`);
  const key = scanKeys.find(isGiven);
  if (key === undefined) {
    for (const other of ["admins", "agree"]) {
      if (isGiven(other)) reading.report(`${path}.${other}`, `goes with ${scanKeys.join(" and ")}`);
    }
    return;
  }
  const scans = source[key] ?? [];
  if (isGiven("network")) reading.report(`${path}.network`, "goes with url and file: what scans hold has none");
  if (admins === undefined) reading.report(path, `${key} needs admins: whose records to read`);
  if (agree !== undefined && agree > scans.length) {
    reading.report(`${path}.agree`, `must not be more than the number of scans (${scans.length})`);
  }
  // One scan that is named twice would agree with itself.
  checkTwice(
    reading,
    "scan",
    scans.map((scan, index) => [`${path}.${key}[${index}]`, scan]),
  );
}

function checkTls(reading: Reading, path: string, source: SourceDraft): void {
  const { url } = source;
  if (url !== undefined && isReadable(url)) reading.report(`${path}.url`, PLAIN);
  for (const key of scanKeys) {
    for (const [index, scan] of (source[key] ?? []).entries()) {
      if (scan !== undefined && isReadable(scan)) reading.report(`${path}.${key}[${index}]`, PLAIN);
    }
  }
}

/** Reports what is wrong between the keys that say how registries are found. */
export function checkDiscovery(reading: Reading, discovery: DiscoveryDraft | undefined): void {
  if (discovery === undefined) return;
  for (const [index, source] of (discovery.sources ?? []).entries()) {
    if (source === undefined) continue;
    checkSource(reading, `discovery.sources[${index}]`, source);
    if (discovery.allowPrivate !== true) checkTls(reading, `discovery.sources[${index}]`, source);
  }
  if (discovery.defaults?.httpProxy !== undefined && discovery.allowPrivate !== true) {
    const text = "decides itself which addresses it connects to: set discovery.allowPrivate to true to accept that";
    reading.report("discovery.defaults.httpProxy", text);
  }
}
