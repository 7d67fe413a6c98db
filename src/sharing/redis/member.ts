import { type Static, Type } from "typebox";
import { Compile } from "typebox/compile";
import type { Instant } from "../../clock.ts";
import { MOST_NODES_DOWN, type ReplicaState } from "../replicas.ts";

/** Changes that a replica says it took, the latest last. */
export const MOST_TAKEN = 64;

const Line = (maxLength: number) => Type.String({ maxLength, pattern: "^[^\\x00-\\x1f\\x7f]*$" });
const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const Digest = Line(64);

/** As `ReplicaState`. */
const State = Type.Object({
  uptimeSeconds: Count,
  load: Type.Object({
    requestsPerSecond: Type.Number({ minimum: 0 }),
    requestsInFlight: Count,
    connections: Count,
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
  try {
    const value: unknown = JSON.parse(text);
    return validator.Check(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** A time that is still to come by Redis's clock is of another Redis: it says nothing. */
export function heldTo(member: Member, time: Instant): Member {
  const { asOf, ...others } = member;
  return asOf !== undefined && asOf > time ? others : member;
}
