import { isDeepStrictEqual } from "node:util";
import { type Duration, settledWithin } from "../clock.ts";
import type { Config, DiscoveryConfig } from "../config/schema.ts";
import { GatewayError } from "../errors.ts";
import { NOTHING_FOUND } from "../upstream/found.ts";
import type { DiscoveryDecision, DiscoveryReport } from "./report.ts";
import type { KnownPins } from "./pins.ts";
import { Search, type SearchOptions } from "./search.ts";

/** What is being written may take so long when the process ends. */
const CLOSE_TIMEOUT: Duration = 2_000;

interface Followed {
  readonly discovery?: DiscoveryConfig | undefined;
  readonly limits: Config["limits"];
}

/** Registries that are found, by the configuration in use: none where it says nothing of it. */
export class Discovery {
  private readonly options: Omit<SearchOptions, "known">;
  private config: Followed;
  private search: Search | undefined;
  private turn: Promise<unknown> = Promise.resolve();
  private hasStarted = false;

  constructor({ discovery, limits }: Followed, options: Omit<SearchOptions, "known">) {
    this.config = { discovery, limits };
    this.options = options;
    this.search = this.begin();
  }

  /** Has used what is pinned. Never rejects. */
  async open(): Promise<void> {
    await this.search?.open();
  }

  /** Begins to read the sources. */
  start(): void {
    this.hasStarted = true;
    this.search?.start();
  }

  /** The configuration is another one: another search begins where it says something else of it. Never rejects. */
  follow({ discovery, limits }: Config): Promise<void> {
    this.turn = this.turn.then(async () => {
      const next = { discovery, limits };
      if (isDeepStrictEqual(next, this.config)) return;
      const before = this.search;
      this.config = next;
      await before?.close();
      this.options.observer.ended();
      this.search = this.begin(before?.pinned);
      if (this.search === undefined) {
        await this.options.use(NOTHING_FOUND).catch(() => undefined);
        return;
      }
      await this.search.open();
      if (this.hasStarted) this.search.start();
    });
    return this.turn as Promise<void>;
  }

  report(): DiscoveryReport {
    return this.search?.report() ?? { sources: [], registries: [], pinFileError: null };
  }

  /** Every decision is in what replicas share. */
  isShared(): boolean {
    return this.search?.isShared() ?? true;
  }

  /** Does what an operator decided about what was `seen`. @throws GatewayError 404 and 409 */
  async decide(admin: string, approve: boolean, seen?: readonly string[]): Promise<DiscoveryDecision> {
    if (this.search === undefined) {
      throw new GatewayError("unknown_registry", "discovery is not configured: no registry is found by it");
    }
    return this.search.decide(admin, approve, seen);
  }

  async close(): Promise<void> {
    const closing = this.turn.then(() => this.search?.close());
    await settledWithin(closing, CLOSE_TIMEOUT, this.options.clock);
  }

  /** @param known what was pinned before: a file that could not be written lacks it */
  private begin(known?: KnownPins): Search | undefined {
    const { discovery, limits } = this.config;
    return discovery === undefined ? undefined : new Search(discovery, limits, { ...this.options, known });
  }
}
