import { writeFileSync } from "node:fs";
import { type FileKey, newClient, UPSTREAMS, type UpstreamName, VIEWS } from "./five-registries.ts";

const CLIENTS = 50;
const TIER_NAMES = ["wallet", "exchange", "partner"] as const;

/** What clients may do at one moment. */
export interface Rights {
  /** The tier of each key that is known, by the key. */
  readonly keys: ReadonlyMap<string, string>;
  readonly views: Readonly<Record<string, readonly UpstreamName[]>>;
}

interface KnownKey {
  readonly key: string;
  readonly entry: FileKey;
}

/** Fifty clients over three tiers, whose keys and tiers change while requests run. */
export class ChangingClients {
  /** Every key that there ever was: what is gone must be refused. */
  readonly everKnown: string[] = [];
  private readonly file: string;
  private keys: readonly KnownKey[];
  private readonly history: Rights[];
  /** From here on in the history, rights may be in force. */
  private oldest = 0;

  constructor(file: string) {
    this.file = file;
    this.keys = Array.from({ length: CLIENTS }, (_, at) => newClient(`client-${at}`, TIER_NAMES[at % 3]!));
    this.everKnown.push(...this.keys.map(({ key }) => key));
    this.history = [{ keys: this.tiersByKey(), views: { ...VIEWS, partner: ["bonds", "stocks"] } }];
    this.write();
  }

  /** Where the history stands: for {@link between}. */
  get now(): number {
    return this.oldest;
  }

  /** All rights that were or may have been in force since then. */
  between(since: number): readonly Rights[] {
    return this.history.slice(since);
  }

  /** Gives one client a new key in the place of its old one; `applied` waits until the gateway has read the file. */
  async rotate(at: number, applied: () => Promise<void>): Promise<void> {
    const { entry } = this.keys[at]!;
    const fresh = newClient(entry.name, entry.tier);
    this.everKnown.push(fresh.key);
    this.keys = this.keys.with(at, fresh);
    this.history.push({ ...this.history.at(-1)!, keys: this.tiersByKey() });
    this.write();
    await applied();
    this.oldest = this.history.length - 1;
  }

  /** Lets one tier see one upstream that it did not see, or the other way. */
  async changeView(tier: string, name: UpstreamName, apply: (views: Rights["views"]) => Promise<void>): Promise<void> {
    const latest = this.history.at(-1)!;
    const before = latest.views[tier]!;
    const after = UPSTREAMS.filter((each) => (each === name) !== before.includes(each));
    const views = { ...latest.views, [tier]: after };
    this.history.push({ ...latest, views });
    await apply(views);
    this.oldest = this.history.length - 1;
  }

  private tiersByKey(): ReadonlyMap<string, string> {
    return new Map(this.keys.map(({ key, entry }) => [key, entry.tier]));
  }

  private write(): void {
    writeFileSync(this.file, this.keys.map(({ entry }) => `${JSON.stringify(entry)}\n`).join(""));
  }
}
