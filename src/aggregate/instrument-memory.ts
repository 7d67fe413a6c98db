import { DAY, type Clock, type Duration, type Instant } from "../clock.ts";
import type { SharedChanges } from "../sharing/ports.ts";
import type { RegistryInstruments } from "./catalogue.ts";
import { formatKnown, type KnownInstruments, knownInstruments, parseKnown } from "./known-instruments.ts";

/** Characters of the instruments of all registries that are followed. */
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
    if (instruments.size + others > MOST_KNOWN) return undefined;
    const { ids, texts } = instruments;
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
