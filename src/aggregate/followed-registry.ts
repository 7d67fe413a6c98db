import { digestOf } from "../digest.ts";
import type { Row } from "../sharing/ports.ts";
import { parseJson } from "../json.ts";

/** What replicas know of a registry whose changes they follow. Times by the clock of what they share (Unix ms). */
export interface FollowedRegistry {
  readonly admin: string;
  readonly name: string;
  /** Of its instruments, `NOT_FOLLOWED` where its listing is too long. */
  readonly digest: string;
  /** Of what its info says it supports; empty: it was not read yet. */
  readonly apis: string;
  /** When the registry answered with the oldest and the newest page of its listing. */
  readonly oldest: number;
  readonly newest: number;
  /** When it answered with the info that {@link apis} is of. */
  readonly apisAt: number;
  /** When it came, or went. */
  readonly since: number;
  /** When a replica last said that it is configured. */
  readonly seen: number;
  readonly isGone: boolean;
}

/** In the place of the digest of instruments. */
export const NOT_FOLLOWED = "-";

/** The name of a registry's row. */
export function rowOf(admin: string): string {
  return `r${digestOf(admin, 22)}`;
}

export function formatRegistry(registry: FollowedRegistry, version: number): Row {
  const { admin, name, digest, apis, oldest, newest, apisAt, since, seen, isGone } = registry;
  const times = [oldest, newest, apisAt, since, seen].map(Math.floor);
  return { version, until: undefined, text: JSON.stringify([admin, name, digest, apis, ...times, isGone]) };
}

/** Undefined for what nobody of ours wrote. */
export function parseRegistry(text: string): FollowedRegistry | undefined {
  const json = parseJson(text);
  if (!Array.isArray(json)) return undefined;
  const parts: readonly unknown[] = json;
  const texts = parts.slice(0, 4);
  const times = parts.slice(4, 9);
  const areTimes = times.length === 5 && times.every((each) => Number.isFinite(each));
  if (!areTimes || !texts.every((each) => typeof each === "string") || typeof parts[9] !== "boolean") return undefined;
  const [admin, name, digest, apis] = texts as [string, string, string, string];
  const [oldest, newest, apisAt, since, seen] = times as [number, number, number, number, number];
  return { admin, name, digest, apis, oldest, newest, apisAt, since, seen, isGone: parts[9] };
}
