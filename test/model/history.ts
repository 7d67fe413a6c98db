import type { Clock } from "../../src/clock.ts";
import type { Answer } from "../support/http.ts";
import type { Ask, Knobs, Mood } from "./plan.ts";

/** An instant, and its place among all that happened: two things of one millisecond have an order, too. */
export interface Moment {
  readonly seq: number;
  readonly at: number;
}

/** A request that a node got, and what it answered. */
export interface Call {
  readonly arrived: Moment;
  readonly registry: number;
  readonly node: number;
  readonly replica: number;
  readonly operation: string;
  readonly method: string;
  readonly url: string;
  readonly body: Buffer;
  /** Of the request that began it; undefined: an info that proves a node. */
  readonly requestId: string | undefined;
  /** When its connection was accepted. */
  readonly connectedAt: Moment;
  readonly mood: Mood;
  /** Stands in the answer's body. */
  readonly stamp: number;
  readonly ids: readonly string[];
  sent?: Moment;
  closed?: Moment;
  status?: number;
  bytes?: string;
  /** The admin that an info named. */
  named?: string;
  /** 304s that said that it still holds. */
  readonly renewed: Moment[];
}

/** A request of a client, and what came of it. */
export interface Told {
  readonly ask: Ask;
  readonly id: string;
  readonly replica: number;
  readonly path: string;
  readonly body: string | undefined;
  readonly began: Moment;
  /** The configurations that it may have met. */
  readonly settings: readonly Setting[];
  ended?: Moment;
  answer?: Answer;
  /** Why there is none. */
  failure?: string;
}

/** What one replica has been told, by registry. */
export type Setting = readonly Knobs[];

export interface Purge {
  readonly replica: number;
  readonly registry: number | undefined;
  readonly began: Moment;
  readonly ended: Moment;
}

/** A connection to a node closed, and with it the last one of a replica's. */
export interface Parting {
  readonly registry: number;
  readonly node: number;
  readonly replica: number;
  readonly moment: Moment;
}

/** All that has happened in a world, for the oracle to read. */
export class History {
  readonly calls: Call[] = [];
  readonly told: Told[] = [];
  readonly purges: Purge[] = [];
  readonly partings: Parting[] = [];
  /** By registry: what was configured at any time, at any replica. */
  readonly knobs: Knobs[][] = [];
  /** By registry: its nodes were in these moods, until then. */
  readonly moods: { readonly kind: Mood["kind"]; until: number }[][] = [];
  /** Reloads, and other things after which what is under way may go otherwise. */
  readonly turns: Moment[] = [];
  /** From when to when Redis was not well. */
  readonly redisTroubles: { readonly from: number; until: number }[] = [];
  /** Since when every replica has seen Redis: until then each takes the whole of a limit. */
  sharedSince = -Infinity;
  private readonly clock: Clock;
  private count = 0;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** How much has happened: as long as it grows, the world is busy. */
  get activity(): number {
    return this.count;
  }

  moment(): Moment {
    this.count += 1;
    return { seq: this.count, at: this.clock.now() };
  }

  now(): number {
    return this.clock.now();
  }

  /** A node of a registry was in one of these moods after `since`. */
  wasIn(registry: number, kinds: readonly Mood["kind"][] | "trouble", since: number): boolean {
    return this.moods[registry]!.some(
      ({ kind, until }) => until >= since && (kinds === "trouble" ? kind !== "well" : kinds.includes(kind)),
    );
  }
}
