import type { CacheAnswer } from "../cache/resource.ts";
import type { GatewayError } from "../errors.ts";
import { failedListing, unreadableAnswer } from "../registry/listing.ts";
import type { RegistryMetadata } from "../registry/registry-metadata.ts";
import { isObject } from "../json.ts";
import { type ClientRequest, isRegistryFailure, requestTo } from "./registries.ts";

/** What all registries support together, and the answers that say so. */
export interface MergedInfo {
  readonly supportedApis: Readonly<Record<string, number>>;
  readonly parts: readonly CacheAnswer[];
  readonly missing: readonly string[];
}

/**
 * The APIs that every registry supports, each in the lowest minor version of all.
 *
 * @throws GatewayError what a registry failed with, unless the answer may do without
 */
export async function mergeInfo(registries: readonly RegistryMetadata[], request: ClientRequest): Promise<MergedInfo> {
  const infos = await Promise.all(registries.map((registry) => readInfo(registry, request)));
  const missing: string[] = [];
  const parts: CacheAnswer[] = [];
  const apis: Record<string, unknown>[] = [];
  for (const { registry, answer, supportedApis, error } of infos) {
    if (answer !== undefined) {
      parts.push(answer);
      apis.push(supportedApis);
    } else if (request.isPartial) missing.push(registry.upstream.name);
    else throw error;
  }
  return { supportedApis: lowestCommon(apis), parts, missing };
}

/** The APIs in all of `all`, with the lowest version each; a version that is no number is not comparable. */
function lowestCommon(all: readonly Readonly<Record<string, unknown>>[]): Record<string, number> {
  const [first = {}] = all;
  const common: Record<string, number> = {};
  for (const name of Object.keys(first)) {
    const versions = all.map((apis) => (Object.hasOwn(apis, name) ? apis[name] : undefined));
    if (versions.every(isFinite)) common[name] = Math.min(...versions);
  }
  return common;
}

/** What is beyond the range of numbers (`1e999`) compares, but cannot be written again. */
function isFinite(version: unknown): version is number {
  return Number.isFinite(version);
}

type ReadInfo =
  | {
      readonly registry: RegistryMetadata;
      readonly answer: CacheAnswer;
      readonly supportedApis: Readonly<Record<string, unknown>>;
      readonly error?: undefined;
    }
  | {
      readonly registry: RegistryMetadata;
      readonly answer?: undefined;
      readonly supportedApis?: undefined;
      readonly error: GatewayError;
    };

async function readInfo(registry: RegistryMetadata, request: ClientRequest): Promise<ReadInfo> {
  const { name } = registry.upstream;
  try {
    const asked = requestTo(registry, request);
    const admin = await registry.admin(asked);
    const answer = await registry.get(admin, { operation: "info" }, asked);
    if (answer.status !== 200) return { registry, error: failedListing(name, answer) };
    const supportedApis = readSupportedApis(answer.body!);
    if (supportedApis !== undefined) return { registry, answer, supportedApis };
    return { registry, error: unreadableAnswer(name, "an info that is no object, or of more than 64 KiB") };
  } catch (error) {
    if (!isRegistryFailure(error)) throw error;
    return { registry, error };
  }
}

/** Bytes of an info that is read: it names a dozen APIs. */
const MAX_INFO = 64 * 1024;

/** What an info says its registry supports, nothing where it does not say; undefined where it is no object, or too large. */
export function readSupportedApis(info: Buffer): Record<string, unknown> | undefined {
  if (info.length > MAX_INFO) return undefined;
  const json = JSON.parse(info.toString("utf8")) as unknown;
  return isObject(json) ? (versionsOf(json["supportedApis"]) ?? {}) : undefined;
}

/**
 * The APIs that an info or an instrument says are supported, in the order of their names, as a registry may list them in
 * another one each time. Undefined where it is no object.
 */
export function versionsOf(supportedApis: unknown): Record<string, unknown> | undefined {
  if (!isObject(supportedApis)) return undefined;
  // A version is no structure: one that is deep enough could not be written again.
  const versions = Object.entries(supportedApis).filter(([, version]) => typeof version !== "object");
  return Object.fromEntries(versions.toSorted(([one], [other]) => (one < other ? -1 : 1)));
}
