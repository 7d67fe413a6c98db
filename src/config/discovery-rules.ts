import type { Draft } from "./dependent-defaults.ts";
import type { Reading } from "./reading.ts";
import { isReadable } from "./urls.ts";

type DiscoveryDraft = NonNullable<Draft["discovery"]>;
type SourceDraft = NonNullable<NonNullable<DiscoveryDraft["sources"]>[number]>;

/** Anybody who can alter a list on its way decides where requests go. */
const PLAIN = "must begin with https://: without TLS, others could put registries of their own into it";

function checkSource(reading: Reading, path: string, source: SourceDraft): void {
  const { cns, admins, agree } = source;
  const isGiven = (key: string) => reading.isGiven(`${path}.${key}`);
  if (isGiven("cns")) {
    if (isGiven("network")) reading.report(`${path}.network`, "goes with url and file: name-service entries have none");
    if (admins === undefined) reading.report(path, "cns needs admins: whose entries to read");
    if (agree !== undefined && agree > (cns?.length ?? 0)) {
      reading.report(`${path}.agree`, `must not be more than the number of scans (${cns?.length})`);
    }
  } else {
    for (const key of ["admins", "agree"]) if (isGiven(key)) reading.report(`${path}.${key}`, "goes with cns");
  }
  for (const [index, scan] of (cns ?? []).entries()) {
    // One scan that is named twice would agree with itself.
    if (cns!.indexOf(scan) !== index) reading.report(`${path}.cns[${index}]`, "is given twice");
  }
}

function checkTls(reading: Reading, path: string, { url, cns = [] }: SourceDraft): void {
  if (url !== undefined && isReadable(url)) reading.report(`${path}.url`, PLAIN);
  for (const [index, scan] of cns.entries()) {
    if (scan !== undefined && isReadable(scan)) reading.report(`${path}.cns[${index}]`, PLAIN);
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
