import { type Static, Type } from "typebox";
import { Compile } from "typebox/compile";
import { DAY, type CancelTimer, type Clock, type Duration, type Instant } from "../clock.ts";

/** Text that goes into logs and pages. */
function Line(maxLength: number) {
  return Type.String({ maxLength, pattern: "^[^\\x00-\\x1f\\x7f]*$" });
}

/**
 * What an operator did to an upstream, or to one of its nodes. Without state, weight and mode it undoes what was done
 * before: everything is as configured again.
 */
const Action = Type.Object(
  {
    /** Its alias. */
    upstream: Line(256),
    /** The URL of the node; absent: the upstream as a whole. */
    node: Type.Optional(Line(8_192)),
    state: Type.Optional(Type.Literal("cordoned")),
    /** 0 to 100, in the place of the configured one. */
    weight: Type.Optional(Type.Integer({ minimum: 0, maximum: 100 })),
    mode: Type.Optional(Type.Literal("cache-only")),
    reason: Type.Optional(Line(4_096)),
    /** What the operator showed: never a secret. */
    by: Line(256),
    /** Which kind of address the operator has. */
    from: Line(256),
  },
  { additionalProperties: false },
);

export type Action = Static<typeof Action>;

const validator = Compile(Action);

/** The action in `value`, or undefined: foreign bytes. */
export function parseAction(value: unknown): Action | undefined {
  return validator.Check(value) ? value : undefined;
}

/** An action that is to have effect from now on. */
export interface RequestedAction {
  readonly action: Action;
  /** For how long; undefined: until it is undone. */
  readonly lasts: Duration | undefined;
}

/** An action as this process has it. */
export interface HeldAction {
  readonly action: Action;
  readonly since: Instant;
  /** Undefined: until it is undone. */
  readonly until: Instant | undefined;
  /** When it began by Redis's clock (ms): of two for the same target, the later one holds. Undefined: not there yet. */
  readonly stamp?: number | undefined;
}

/** So many can be in force. */
export const MAX_ACTIONS = 1_000;

/** What was undone is remembered for so long, so that a process that missed it does not bring it back. */
const UNDONE_FOR: Duration = DAY;

/** Names what an action is about: equal for the same upstream, or the same node of it. */
export function targetOf({ upstream, node }: Pick<Action, "upstream" | "node">): string {
  return target(upstream, node);
}

/** The actions in force as one process knows them: one for each upstream and node at most. Each ends by itself. */
export class Actions {
  protected readonly clock: Clock;
  private readonly table = new Map<string, HeldAction>();
  private changed: () => void = () => undefined;
  private cancelTimer: CancelTimer | undefined;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** What is in force for an upstream, or for one of its nodes. */
  find(upstream: string, node?: string): HeldAction | undefined {
    const held = this.table.get(target(upstream, node));
    return held !== undefined && this.isInForce(held) ? held : undefined;
  }

  /** Everything in force. */
  all(): HeldAction[] {
    return [...this.table.values()].filter((held) => this.isInForce(held));
  }

  /** Whether one more target is too many. */
  get isFull(): boolean {
    return this.all().length >= MAX_ACTIONS;
  }

  /** Has `changed` called whenever something came into force, was undone, or ended. */
  onChange(changed: () => void): void {
    this.changed = changed;
  }

  /** From now on. */
  begin({ action, lasts }: RequestedAction): HeldAction {
    const now = this.clock.now();
    const time = isUndoing(action) ? UNDONE_FOR : lasts;
    const held = { action, since: now, until: time === undefined ? undefined : now + time };
    this.put(held);
    return held;
  }

  /** Takes the place of what was held for the same target. */
  put(held: HeldAction): void {
    const target = targetOf(held.action);
    if (!this.table.has(target) && this.table.size >= MAX_ACTIONS && !this.dropUndone()) return;
    this.table.set(target, held);
    this.schedule();
    this.changed();
  }

  /** What is held for a target, undone or not. */
  held(target: string): HeldAction | undefined {
    return this.table.get(target);
  }

  /** Everything that is held, what was undone included. */
  everything(): HeldAction[] {
    return [...this.table.values()];
  }

  close(): void {
    this.cancelTimer?.();
  }

  private isInForce({ action, until }: HeldAction): boolean {
    return !isUndoing(action) && (until === undefined || this.clock.now() < until);
  }

  private dropUndone(): boolean {
    for (const [target, { action }] of this.table) if (isUndoing(action)) return this.table.delete(target);
    return false;
  }

  /** Ends each at its time. */
  private schedule(): void {
    this.cancelTimer?.();
    const next = Math.min(...this.everything().map(({ until }) => until ?? Infinity));
    if (next === Infinity) return;
    this.cancelTimer = this.clock.after(next - this.clock.now(), () => {
      const now = this.clock.now();
      for (const [target, { until }] of this.table) if (until !== undefined && until <= now) this.table.delete(target);
      this.schedule();
      this.changed();
    });
  }
}

/** An alias holds no space. */
function target(upstream: string, node: string | undefined): string {
  return node === undefined ? upstream : `${upstream} ${node}`;
}

function isUndoing({ state, weight, mode }: Action): boolean {
  return state === undefined && weight === undefined && mode === undefined;
}
