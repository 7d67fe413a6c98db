import { BodyReader } from "../bodies/body-reader.ts";
import type { Clock, Duration } from "../clock.ts";
import type { UpstreamConfig } from "../config/schema.ts";
import type { FileWatcher } from "../config/watched-files.ts";
import { localCoordinator } from "../sharing/alone.ts";
import { silentObserver } from "../upstream/observer.ts";
import { heldAnswers, type UpstreamLimits } from "../upstream/parts.ts";
import { Upstream } from "../upstream/upstream.ts";
import { HostTurns, MOST_QUESTIONS } from "./host-turns.ts";

/** Keys of an upstream besides those that say which registry it is. */
export type UpstreamDefaults = Omit<UpstreamConfig, "name" | "enabled" | "admin" | "urls" | "basePaths">;

/** What a URL said about itself, or why it could not be asked; `problem` is a sentence about it without its address. */
export type Verdict = { readonly admin: string } | { readonly problem: string; readonly isUnasked?: true };

/** A URL as it was published, and the one at which the registry is. */
export interface MendedUrl {
  readonly from: string;
  readonly to: string;
}

/** What came of asking the URLs that were published for an admin. */
export interface Proof {
  /** Those that proved the admin: as published, or mended. */
  readonly proved: readonly string[];
  readonly mended: readonly MendedUrl[];
  /** Published ones that said nothing, and why. */
  readonly silent: ReadonlyMap<string, string>;
  /** Published ones that are another registry, and whose. */
  readonly strangers: ReadonlyMap<string, string>;
  /** How many of the silent ones were not asked, since their host had been asked enough. */
  readonly unasked: number;
}

export interface ProberOptions {
  readonly clock: Clock;
  readonly files: FileWatcher;
  readonly limits: UpstreamLimits;
  /** Time limits, TLS and proxy as the registry will be called with. */
  readonly defaults: UpstreamDefaults;
  readonly allowPrivate: boolean;
  /** Questions that one host gets until {@link Prober.begin}. */
  readonly mostQuestions?: number;
}

/** What is said of a URL whose host had been asked enough. */
const UNASKED: Verdict = {
  problem: `it is asked at a later reading: a host gets ${MOST_QUESTIONS} questions in one`,
  isUnasked: true,
};

const TIMEOUT: Duration = 5_000;

/** Ends of base URLs that lists have been wrong about: what is published, and what was meant. */
const MISTAKES: readonly (readonly [published: RegExp, meant: string])[] = [[/\/+api\/scan$/, ""]];

/**
 * Asks URLs of strangers whose registry they are, by the same proof that an upstream's nodes give. No credentials are
 * sent, no redirect is followed, and unless `allowPrivate` no connection is made to an address that is not public.
 */
export class Prober {
  private readonly options: ProberOptions;
  private readonly bodies: BodyReader;
  private readonly turns: HostTurns;

  constructor(options: ProberOptions) {
    this.options = options;
    this.turns = new HostTurns(options.clock, options.mostQuestions ?? MOST_QUESTIONS);
    this.bodies = new BodyReader({ clock: options.clock, largest: () => options.limits.responseBody });
  }

  /** A new reading: each host may be asked again. Only while nothing is asked. */
  begin(): void {
    this.turns.begin();
  }

  /** Asks one URL when it is its host's turn. Never rejects. */
  async ask(url: string): Promise<Verdict> {
    return (await this.turns.take(url, () => this.askNow(url))) ?? UNASKED;
  }

  private async askNow(url: string): Promise<Verdict> {
    const { clock, files, limits, defaults, allowPrivate } = this.options;
    const { auth: _, rateLimit: __, tls, ...keys } = defaults;
    const timeout = Math.min(TIMEOUT, keys.timeout);
    const config = {
      ...keys,
      // A certificate is a credential, and nobody has proved anything yet.
      ...(tls?.caFile !== undefined && { tls: { caFile: tls.caFile } }),
      // Each URL is asked for itself.
      agreement: { ...keys.agreement, admin: 1 },
      name: "found",
      enabled: true,
      urls: [url],
      basePaths: [],
      timeout,
      attemptTimeout: timeout,
      publicOnly: !allowPrivate,
      isStranger: true,
    };
    const coordinator = localCoordinator(clock);
    let upstream: Upstream | undefined;
    try {
      upstream = new Upstream(config, {
        limits,
        clock,
        files,
        bodies: this.bodies,
        answers: heldAnswers(),
        random: Math.random,
        coordinator,
        observer: silentObserver,
        forget: () => undefined,
      });
      return { admin: await upstream.learnAdmin(clock.now() + timeout) };
    } catch (error) {
      return { problem: sayOfIt(error) };
    } finally {
      await upstream?.close();
      await coordinator.close();
    }
  }

  /** Asks all of these URLs; one that is no registry of `admin` is tried mended. Never rejects. */
  async prove(admin: string, published: readonly string[]): Promise<Proof> {
    const proved = new Set<string>();
    const mended: MendedUrl[] = [];
    const silent = new Map<string, string>();
    const strangers = new Map<string, string>();
    let unasked = 0;
    const ask = async (from: string): Promise<void> => {
      const verdict = await this.ask(from);
      if ("admin" in verdict && verdict.admin === admin) return void proved.add(from);
      for (const to of mendings(from)) {
        const other = await this.ask(to);
        if (!("admin" in other) || other.admin !== admin) continue;
        proved.add(to);
        return void mended.push({ from, to });
      }
      if ("admin" in verdict) return void strangers.set(from, verdict.admin);
      silent.set(from, verdict.problem);
      if (verdict.isUnasked === true) unasked += 1;
    };
    await Promise.all(published.map(ask));
    return { proved: [...proved].toSorted(), mended: mended.toSorted(byUrl), silent, strangers, unasked };
  }

  close(): void {
    this.turns.close();
    this.bodies.close();
  }
}

function byUrl(one: MendedUrl, other: MendedUrl): number {
  return one.from < other.from ? -1 : 1;
}

/** What may have been meant by a base URL. */
export function mendings(url: string): string[] {
  return MISTAKES.filter(([published]) => published.test(url)).map(([published, meant]) =>
    url.replace(published, meant),
  );
}

function sayOfIt(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.replace(/^upstream "found" /, "it ");
}
