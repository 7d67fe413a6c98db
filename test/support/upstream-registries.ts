import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { onTestFinished } from "vitest";
import { stringify } from "yaml";
import { BodyReader } from "../../src/bodies/body-reader.ts";
import { Upload } from "../../src/bodies/upload.ts";
import type { Clock } from "../../src/clock.ts";
import { systemClock } from "../../src/clock.ts";
import { parseConfig } from "../../src/config/parse.ts";
import type { UpstreamConfig } from "../../src/config/schema.ts";
import { FileWatcher } from "../../src/config/watched-files.ts";
import type { Fields } from "../../src/fields.ts";
import { localCoordinator } from "../../src/sharing/alone.ts";
import type { Coordinator } from "../../src/sharing/ports.ts";
import { mulberry32 } from "../../src/sandbox/random.ts";
import type { StreamedCall, UpstreamCall } from "../../src/upstream/call.ts";
import { heldAnswers, type UpstreamEnvironment } from "../../src/upstream/parts.ts";
import type { Upstream } from "../../src/upstream/upstream.ts";
import { Upstreams } from "../../src/upstream/upstreams.ts";
import { RecordingObserver } from "./recording-observer.ts";
import { SampleRegistry, type SampleRegistryOptions } from "./sample-registry.ts";

export const ADMIN = "DSO::1220aa";
export const OTHER_ADMIN = "Other::1220bb";

const real = systemClock();
/** Time in a process that has run for an hour: what counts from 0 by mistake shows at once, not only late in a run. */
const clock: Clock = { ...real, now: () => real.now() + 3_600_000 };

/** Configurations of upstreams from the keys of a file. */
export function upstreamConfigs(...keys: Record<string, unknown>[]): readonly UpstreamConfig[] {
  const { config, problems } = parseConfig({ text: stringify({ upstreams: keys }), file: "test.yaml", env: {} });
  if (config === undefined) throw new Error(`bad test configuration: ${JSON.stringify(problems)}`);
  return config.upstreams;
}

/** A started sample registry that ends with the test. */
export async function startRegistry(options: Partial<SampleRegistryOptions> = {}): Promise<SampleRegistry> {
  const registry = new SampleRegistry({ admin: ADMIN, clock, instruments: 5, ...options });
  await registry.start();
  onTestFinished(() => registry.stop());
  return registry;
}

export interface UpstreamsUnderTest {
  readonly upstreams: Upstreams;
  readonly observer: RecordingObserver;
  readonly environment: UpstreamEnvironment & { readonly coordinator: Coordinator };
  /** Admins whose stored answers were given up. */
  readonly forgotten: readonly string[];
}

export interface EnvironmentOptions {
  readonly clock?: Clock;
  readonly coordinator?: Coordinator;
  /** By default seeded. */
  readonly random?: () => number;
  readonly limits?: UpstreamEnvironment["limits"];
  readonly answers?: UpstreamEnvironment["answers"];
}

/** Upstreams that end with the test; not started: nothing is asked in the background. */
export function openUpstreams(
  configs: readonly UpstreamConfig[],
  options: EnvironmentOptions = {},
): UpstreamsUnderTest {
  const observer = new RecordingObserver();
  const forgotten: string[] = [];
  const time = options.clock ?? clock;
  const bodies = new BodyReader({ clock: time, largest: () => 8 * 2 ** 20 });
  const environment: UpstreamsUnderTest["environment"] = {
    limits: options.limits ?? { requestBody: 2 ** 20, responseBody: 2 ** 20 },
    clock: time,
    files: new FileWatcher(time),
    bodies,
    answers: options.answers ?? heldAnswers(),
    random: options.random ?? mulberry32(1),
    coordinator: options.coordinator ?? localCoordinator(time),
    observer,
    forget: (admin) => forgotten.push(admin),
  };
  const upstreams = new Upstreams(configs, environment);
  onTestFinished(async () => {
    await upstreams.close();
    bodies.close();
  });
  return { upstreams, observer, environment, forgotten };
}

/** One upstream "amulet" with these nodes and keys. */
export function openUpstream(
  nodes: readonly (SampleRegistry | string)[],
  keys: Record<string, unknown> = {},
  options: EnvironmentOptions = {},
) {
  const urls = nodes.map((node) => (typeof node === "string" ? node : node.url));
  const opened = openUpstreams(upstreamConfigs({ name: "amulet", urls, ...keys }), options);
  return { ...opened, upstream: opened.upstreams.byName("amulet")! };
}

/** A cold miss of the first page. */
export function listCall(overrides: Partial<UpstreamCall> = {}): UpstreamCall {
  return {
    operation: "instruments",
    method: "GET",
    path: "/registry/metadata/v1/instruments",
    fields: ["accept", "application/json"],
    priority: "miss",
    deadline: clock.now() + 10_000,
    ...overrides,
  };
}

/** A POST of an accept context. */
export function acceptCall(overrides: Partial<UpstreamCall> = {}): UpstreamCall {
  return {
    operation: "transfer_accept",
    method: "POST",
    path: "/registry/transfer-instruction/v1/00aa/choice-contexts/accept",
    fields: ["accept", "application/json", "content-type", "application/json"],
    body: Buffer.from("{}"),
    priority: "post",
    deadline: clock.now() + 10_000,
    ...overrides,
  };
}

/** A stream is what a client sends. */
export type StreamedOverrides = Omit<Partial<StreamedCall>, "body"> & { readonly body?: Readable | Buffer | undefined };

/** A draft path, streamed. */
export function streamedCall({ body, ...overrides }: StreamedOverrides = {}): StreamedCall {
  const upload = body instanceof Readable ? new Upload(body, { most: 2 ** 20 }) : body;
  return { ...acceptCall(), operation: "pass_through", path: "/registry/draft/v9/echo", ...overrides, body: upload };
}

/** Milliseconds from now on the system clock. */
export function inTime(duration: number): number {
  return clock.now() + duration;
}

/** An answer that is here to its end, however it was taken. */
export interface WholeAnswer {
  readonly status: number;
  readonly fields: Fields;
  readonly body: Buffer;
}

/** How an answer is taken: kept until it is complete, or passed on as it comes; one table of cases for both. */
export const ANSWER_KINDS = ["buffered", "streamed"] as const;

/** Makes one call of this kind, and reads its answer to the end. */
export async function askWhole(
  upstream: Upstream,
  kind: (typeof ANSWER_KINDS)[number],
  overrides: Partial<UpstreamCall> = {},
): Promise<WholeAnswer> {
  if (kind === "buffered") return upstream.call(acceptCall(overrides));
  const { status, fields, body } = await upstream.stream(streamedCall(overrides));
  return { status, fields, body: await buffer(body) };
}
