import type { Duration, Instant } from "../../clock.ts";
import { Actions, type HeldAction, parseAction, type RequestedAction, targetOf } from "../actions.ts";
import type { ActionsPort, MergedRows, PurgeReach, Row } from "../ports.ts";
import { parseJson } from "../../json.ts";
import type { Replicas } from "./replicas.ts";
import { SharedTable, type TableParts } from "./shared-table.ts";

/** An action as old as this was asked for while Redis was there. */
const JUST_NOW: Duration = 1_000;

/** Another replica may act on the same target at the same time. */
const WRITE_ROUNDS = 3;

/** What ends so soon is not written again where Redis lacks it: by its clock it may be over. */
const ENDING: Duration = 2_000;

/** An action that is being written, and the row of it. */
interface Sent {
  readonly held: HeldAction;
  readonly row: Row;
}

/**
 * Keeps the actions of this process and those in Redis the same. What Redis lost is written there again; what was done
 * while it was away, when it is back. The version of a row is the time of the action by Redis's clock.
 */
export class SharedActions extends Actions implements ActionsPort {
  readonly shared: SharedTable;
  private readonly sent = new Map<string, Sent>();

  constructor(parts: TableParts, replicas: Pick<Replicas, "took" | "wrote">) {
    super(parts.clock);
    const accepts = (target: string, text: string) => {
      const action = actionIn(text);
      return action !== undefined && targetOf(action) === target;
    };
    const { actions: key } = parts.connection.keys;
    this.shared = new SharedTable({ ...parts, kind: "action", key, tag: "actions", accepts, replicas });
    this.shared.follow((rows, time) => this.merge(rows, time));
  }

  async act(requested: RequestedAction): Promise<PurgeReach> {
    const held = this.begin(requested);
    const isUnwritten = () => this.held(targetOf(held.action)) === held;
    try {
      for (let round = 0; round < WRITE_ROUNDS && isUnwritten(); round += 1) await this.shared.synchronise();
    } catch {
      // It is written as soon as Redis answers again.
    }
    return isUnwritten() ? "pending" : "fleet";
  }

  private merge(found: ReadonlyMap<string, Row>, time: Instant): MergedRows {
    const rows = new Map<string, Row | undefined>();
    for (const [target, row] of found) {
      if (row.until !== undefined && row.until <= time) rows.set(target, undefined);
      else this.takeOver(target, row, time);
    }
    for (const held of this.everything()) {
      const target = targetOf(held.action);
      const row =
        held.stamp === undefined ? this.unsentRow(held, found.get(target), time) : this.lostRow(held, found, time);
      if (row !== undefined) rows.set(target, row);
      // What another replica did later takes its place.
      else if (held.stamp === undefined) this.takeRow(found.get(target)!, time);
    }
    return { rows };
  }

  private takeOver(target: string, row: Row, time: Instant): void {
    const ours = this.held(target);
    const sent = this.sent.get(target);
    if (sent !== undefined && sent.held === ours && sent.row.version === row.version && sent.row.text === row.text) {
      this.sent.delete(target);
      this.takeRow(row, time);
      return;
    }
    // What was done here and is not there yet goes there, later than all.
    if (ours !== undefined && (ours.stamp === undefined || row.version <= ours.stamp)) return;
    this.takeRow(row, time);
  }

  private takeRow({ version, until, text }: Row, time: Instant): void {
    const now = this.clock.now();
    const ends = until === undefined ? undefined : now + (until - time);
    this.put({ action: actionIn(text)!, since: now - Math.max(0, time - version), until: ends, stamp: version });
  }

  /**
   * The row of an action that is not in Redis yet. One that an operator asked for just now is later than all, whatever
   * Redis's clock did meanwhile. Undefined: there is a later one.
   */
  private unsentRow(held: HeldAction, last: Row | undefined, time: Instant): Row | undefined {
    const { action, since, until } = held;
    const now = this.clock.now();
    const age = now - since;
    const before = last?.version ?? -1;
    const asked = Math.max(0, Math.floor(time - age));
    const version = age < JUST_NOW ? Math.max(asked, before + 1) : asked;
    if (version <= before) return undefined;
    const row = rowOf(action, version, until === undefined ? undefined : time + Math.max(0, until - now));
    this.sent.set(targetOf(action), { held, row });
    return row;
  }

  /** The row of an action that Redis had and lost. */
  private lostRow(held: HeldAction, found: ReadonlyMap<string, Row>, time: Instant): Row | undefined {
    const { action, stamp, until } = held;
    const left = until === undefined ? undefined : until - this.clock.now();
    if (left !== undefined && left < ENDING) return undefined;
    if ((found.get(targetOf(action))?.version ?? -1) >= stamp!) return undefined;
    return rowOf(action, stamp!, left === undefined ? undefined : time + left);
  }
}

function rowOf(action: HeldAction["action"], version: number, until: Instant | undefined): Row {
  return { version, until: until === undefined ? undefined : Math.floor(until), text: JSON.stringify(action) };
}

function actionIn(text: string) {
  return parseAction(parseJson(text));
}
