import { type Static, Type } from "typebox";
import { Compile } from "typebox/compile";
import type { Clock, Instant } from "../../clock.ts";
import { digestOf } from "../../digest.ts";
import { MOST_NODES_DOWN, type ReplicaState } from "../replicas.ts";
import { parseJson } from "../../json.ts";

/** Changes that a replica says it took, the latest last. */
const MOST_TAKEN = 64;

const Line = (maxLength: number) => Type.String({ maxLength, pattern: "^[^\\x00-\\x1f\\x7f]*$" });
const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const Digest = Line(64);

/** As `ReplicaState`. */
const State = Type.Object({
  uptimeSeconds: Count,
  load: Type.Object({
    requestsPerSecond: Type.Number({ minimum: 0 }),
    busy: Type.Number({ minimum: 0, maximum: 1 }),
    residentBytes: Count,
  }),
  follows: Type.Object({
    configuration: Digest,
    clientKeys: Type.Union([Digest, Type.Null()]),
    actions: Digest,
  }),
  nodesDown: Type.Array(Line(300), { maxItems: MOST_NODES_DOWN }),
});

/** What a replica says of itself in its row. A later release may say more. */
const Member = Type.Object({
  name: Line(128),
  version: Line(64),
  revision: Line(64),
  /** When it started (RFC 3339). */
  since: Line(40),
  /** Digests of the changes that it took from the tables it follows. */
  taken: Type.Array(Type.String({ maxLength: 22 }), { maxItems: MOST_TAKEN }),
  /** It goes by all that was written before then (Unix ms by Redis's clock), used or not; absent: it is not known. */
  asOf: Type.Optional(Type.Integer({ minimum: 0 })),
  state: Type.Optional(State),
});

export type Member = Omit<Static<typeof Member>, "state"> & { readonly state?: ReplicaState };

const validator = Compile(Member);

/** Of a replica: 9 random bytes in base64url. */
const ID = /^[\w-]{12}$/;

/** Whether a gateway could have written this row. */
export function isMemberRow(id: string, text: string): boolean {
  return ID.test(id) && memberIn(text) !== undefined;
}

/** Undefined for foreign bytes. */
export function memberIn(text: string): Member | undefined {
  const value = parseJson(text);
  return validator.Check(value) ? value : undefined;
}

/** A time that is still to come by Redis's clock is of another Redis: it says nothing. */
export function heldTo(member: Member, time: Instant): Member {
  const { asOf, ...others } = member;
  return asOf !== undefined && asOf > time ? others : member;
}

/** A row of a shared table as it was changed. */
export interface Change {
  readonly table: string;
  readonly name: string;
  readonly text: string;
}

/** When a change was written, here and by Redis's clock. */
interface Written {
  readonly at: Instant;
  readonly time: Instant;
}

/** The latest changes of shared tables that this replica took, and those that it wrote. */
export class Changes {
  /** Digests of those that it goes by, the latest last. */
  taken: string[] = [];
  private readonly clock: Clock;
  private readonly written = new Map<string, Written>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** This replica goes by it from now on. False: that was known. */
  take(change: Change): boolean {
    const digest = digestOfChange(change);
    if (this.taken.includes(digest)) return false;
    this.taken = [...this.taken, digest].slice(-MOST_TAKEN);
    return true;
  }

  /** This replica made it, and wrote it at `time` by Redis's clock. */
  wrote(change: Change, time: Instant): void {
    this.written.set(digestOfChange(change), { at: this.clock.now(), time });
    if (this.written.size > MOST_TAKEN) this.written.delete(this.written.keys().next().value!);
  }

  /** Says of a replica whether it goes by all that this one wrote from `since` on. */
  takenSince(since: Instant): (member: Member) => boolean {
    const changes = [...this.written].filter(([, { at }]) => at >= since);
    return ({ taken, asOf = -Infinity }) =>
      changes.every(([digest, { time }]) => asOf > time || taken.includes(digest));
  }
}

function digestOfChange({ table, name, text }: Change): string {
  return digestOf(`${table}\n${name}\n${text}`, 16);
}
