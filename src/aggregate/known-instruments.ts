import { createHash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";
import { type Clock, DAY, type Duration, type Instant } from "../clock.ts";
import { isObject } from "../json.ts";
import type { SharedChanges } from "../sharing/ports.ts";
import type { RegistryInstruments } from "./catalogue.ts";
import type { Change } from "./change.ts";
import { versionsOf } from "./merged-info.ts";

/** What of an instrument is followed besides that it is there, in the order of {@link FieldsText}. */
const FIELDS = ["name", "symbol", "decimals", "supportedApis", "paused"] as const;

/** The values of {@link FIELDS} as one JSON text; `null` for what the registry does not say. */
type FieldsText = string;

/** The instruments of one registry as far as their changes are followed. */
export interface KnownInstruments {
  /** Stands for all of it. */
  readonly digest: string;
  readonly fields: ReadonlyMap<string, FieldsText>;
  /** Characters, about. */
  readonly size: number;
}

/** Characters of instruments that are parsed without letting anything else run: a few milliseconds' worth. */
const BATCH = 64 * 1024;

/** Characters of the longest instrument that is parsed. Of a longer one is followed that it is there, and nothing else. */
const LONGEST = 64 * 1024;

/** In the place of the fields of one that is longer. */
const NOT_PARSED: FieldsText = "[]";

/** Characters; an id and the fields of most instruments have a hundred. */
const OVERHEAD = 64;

/** Takes out of instruments what is followed. `texts` are those of `ids`. */
function knownInstruments(ids: readonly string[], texts: readonly string[]): Promise<KnownInstruments> {
  return gather(followed(ids, texts));
}

function* followed(ids: readonly string[], texts: readonly string[]): Iterable<GatheredInstrument> {
  for (const [at, id] of ids.entries()) {
    const { length } = texts[at]!;
    if (length > LONGEST) yield [id, NOT_PARSED];
    else yield [id, fieldsOf(JSON.parse(texts[at]!)), length];
  }
}

/** `parsed`: how many characters were, to know its fields. */
type GatheredInstrument = readonly [id: string, text: FieldsText, parsed?: number];

async function gather(instruments: Iterable<GatheredInstrument>): Promise<KnownInstruments> {
  const fields = new Map<string, FieldsText>();
  const digest = createHash("sha256");
  let size = 0;
  let batch = 0;
  for (const [id, text, parsed = 0] of instruments) {
    batch += parsed + id.length + text.length + OVERHEAD;
    if (batch > BATCH) {
      await setImmediate();
      batch = 0;
    }
    fields.set(id, text);
    digest.update(JSON.stringify([id, text]));
    size += id.length + text.length + OVERHEAD;
  }
  return { digest: digest.digest("base64url"), fields, size };
}

function fieldsOf(instrument: unknown): FieldsText {
  const { name, symbol, decimals, supportedApis, paused } = isObject(instrument) ? instrument : {};
  return JSON.stringify([...[name, symbol, decimals].map(scalarOf), versionsOf(supportedApis), paused === true]);
}

/** Undefined for a structure: none is meant there, and one that is deep enough could not be written again. */
function scalarOf(value: unknown): unknown {
  return typeof value === "object" ? undefined : value;
}

/** What was changed from one to the other; what went first. */
export function changesBetween(before: KnownInstruments, after: KnownInstruments): Change[] {
  const changes: Change[] = [];
  for (const id of before.fields.keys()) {
    if (!after.fields.has(id)) changes.push({ type: "instrument_removed", instrument: { id } });
  }
  for (const [id, text] of after.fields) {
    const known = before.fields.get(id);
    // What is not parsed may not have changed, and is reported with the next that is.
    if (known === text || (known !== undefined && text === NOT_PARSED)) continue;
    const now = valuesOf(text);
    if (known === undefined) {
      changes.push({ type: "instrument_added", instrument: { id, ...now } });
      continue;
    }
    const { paused: wasPaused, ...then } = valuesOf(known);
    const { paused, ...values } = now;
    const changed = Object.entries(values).filter(
      ([name, value]) => JSON.stringify(value) !== JSON.stringify(then[name as keyof typeof then]),
    );
    if (changed.length > 0) {
      changes.push({ type: "instrument_changed", instrument: { id, ...Object.fromEntries(changed) } });
    }
    // Of one that was not parsed before it is not known.
    if (paused === (wasPaused ?? false) && known !== NOT_PARSED) continue;
    changes.push({ type: paused === true ? "instrument_paused" : "instrument_unpaused", instrument: { id } });
  }
  return changes;
}

function valuesOf(text: FieldsText): Record<(typeof FIELDS)[number], unknown> {
  const values = JSON.parse(text) as readonly unknown[];
  return Object.fromEntries(FIELDS.map((name, at) => [name, values[at]])) as ReturnType<typeof valuesOf>;
}

/** Bytes of a text of known instruments, unpacked. */
const LARGEST_TEXT = 32 * 1024 * 1024;

/** As a text that {@link parseKnown} reads. */
export async function formatKnown({ fields }: KnownInstruments): Promise<string> {
  return (await promisify(gzip)(JSON.stringify([...fields]))).toString("base64");
}

/** Undefined for a text that is not what `digest` stands for. */
async function parseKnown(text: string, digest: string): Promise<KnownInstruments | undefined> {
  try {
    const json = await promisify(gunzip)(Buffer.from(text, "base64"), { maxOutputLength: LARGEST_TEXT });
    const known = await gather(JSON.parse(json.toString("utf8")) as [string, FieldsText][]);
    return known.digest === digest ? known : undefined;
  } catch {
    return undefined;
  }
}

/** Characters of the instruments of all registries that are followed, each with {@link OVERHEAD}. */
const MOST_KNOWN = 48 * 1024 * 1024;

/** How long instruments are kept for replicas that have to compare with them, and how soon they are written again. */
const KEEP: Duration = 7 * DAY;
const KEEP_AGAIN_AFTER: Duration = DAY;

interface MemoryOptions {
  readonly clock: Clock;
  /** Undefined: this process is alone. */
  readonly shared: Pick<SharedChanges, "texts"> | undefined;
}

/** The instruments that readings are compared with: those known here, and those that replicas keep for each other. */
export class InstrumentMemory {
  private readonly options: MemoryOptions;
  /** By admin. */
  private readonly known = new Map<string, KnownInstruments>();
  /** What was taken out of the texts of a listing. */
  private readonly taken = new WeakMap<readonly string[], KnownInstruments>();
  private readonly kept = new Map<string, { readonly digest: string; readonly at: Instant }>();

  constructor(options: MemoryOptions) {
    this.options = options;
  }

  get(admin: string): KnownInstruments | undefined {
    return this.known.get(admin);
  }

  set(admin: string, instruments: KnownInstruments): void {
    this.known.set(admin, instruments);
  }

  /** Forgets those of admins that are not followed any more. */
  retain(isFollowed: (admin: string) => boolean): void {
    for (const admin of this.known.keys()) if (!isFollowed(admin)) this.known.delete(admin);
  }

  /** What they are as followed; undefined where all registries together have too many. */
  async read(admin: string, instruments: RegistryInstruments): Promise<KnownInstruments | undefined> {
    let others = 0;
    for (const [each, { size }] of this.known) if (each !== admin) others += size;
    const { ids, texts } = instruments;
    const size = texts.reduce((sum, { length }) => sum + length + OVERHEAD, 0);
    if (size + others > MOST_KNOWN) return undefined;
    // A listing that has not changed comes as the very same texts.
    const known = this.taken.get(texts) ?? (await knownInstruments(ids, texts));
    this.taken.set(texts, known);
    return known;
  }

  /** Has replicas that come later know what to compare with. Never rejects. */
  async keep(admin: string, instruments: KnownInstruments): Promise<void> {
    const { shared, clock } = this.options;
    if (shared === undefined) return;
    const { digest } = instruments;
    const kept = this.kept.get(admin);
    if (kept?.digest === digest && clock.now() - kept.at < KEEP_AGAIN_AFTER) return;
    try {
      await shared.texts.write(digest, await formatKnown(instruments), KEEP);
      this.kept.set(admin, { digest, at: clock.now() });
    } catch {
      // Written with a later reading.
    }
  }

  /** What is shared may have lost what was kept there. */
  forgetKept(): void {
    this.kept.clear();
  }

  /** Has those known that replicas keep under this digest. `lost`: nobody has them; `away`: they cannot be had now. */
  async fetch(admin: string, digest: string): Promise<"known" | "lost" | "away"> {
    const { shared } = this.options;
    if (shared === undefined) return "away";
    try {
      const text = await shared.texts.read(digest);
      const known = text === undefined ? undefined : await parseKnown(text, digest);
      if (known === undefined) return "lost";
      this.known.set(admin, known);
      return "known";
    } catch {
      return "away";
    }
  }
}
