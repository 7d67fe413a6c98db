import type { ChangeType } from "../spec/schemas.ts";

/** One change of the catalogue. */
export interface Change {
  readonly type: ChangeType;
  /** Of `registry_added` and `registry_changed`: what its info says; null where it said nothing. */
  readonly supportedApis?: object | null;
  /** Its id, and the fields that are new; all that are followed, where it was added. */
  readonly instrument?: { readonly id: string } & Readonly<Record<string, unknown>>;
}

/** What one reading of a registry showed. Batches have an order, and no two have the same id. */
export interface Batch {
  /** Its place in the order. */
  readonly n: number;
  readonly id: string;
  readonly admin: string;
  /** The alias of the registry at that time. */
  readonly registry: string;
  /** When the registry answered so (Unix ms). */
  readonly at: number;
  readonly changes: readonly Change[];
  /** Characters. */
  readonly size: number;
}

/** Where a reader of changes stands: behind so many changes of a batch. */
export interface Position {
  readonly n: number;
  readonly count: number;
}

/** What a reader goes on with. It says how many changes a batch had to those alone who saw some of them. */
export function idAt({ id, changes }: Batch, count: number): string {
  return count >= changes.length ? id : `${id}.${count}`;
}

/** A change as clients get it, as JSON. `count`: how many changes of its batch are told with it. */
export function changeText(batch: Batch, count: number): string {
  const { admin, registry, at, changes } = batch;
  const { type, ...rest } = changes[count - 1]!;
  return JSON.stringify({ id: idAt(batch, count), type, admin, registry, at: new Date(at).toISOString(), ...rest });
}
