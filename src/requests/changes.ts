import type { ServerResponse } from "node:http";
import { type Batch, changeText, idAt, type Position } from "../aggregate/change.ts";
import type { Changes } from "../aggregate/changes.ts";
import type { Tier } from "../clients/client.ts";
import type { CancelTimer, Clock, Duration, Instant } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import type { BackgroundReader } from "../registry/background-reader.ts";
import { registriesOf } from "./aggregate.ts";
import { FIRST_READ_WAIT, readParameters } from "./catalogue.ts";
import type { RequestContext, Snapshot } from "./context.ts";
import { maySee } from "./resolve-upstream.ts";
import { type Answer, commonFieldsOf } from "./send.ts";
import type { LocalTarget } from "./target.ts";

export const CATALOGUE_CHANGES = "/catalog/v1/changes";

/** Changes of one JSON answer. */
const MOST_AT_ONCE = 1_000;

const STREAM_FIELDS = [
  "content-type",
  "text/event-stream",
  "cache-control",
  "no-store",
  // nginx would keep events back until there are some kilobytes of them.
  "x-accel-buffering",
  "no",
];

/** Why the changes since an id cannot be listed: there was none, or it is not known here whose they are, or which. */
type ResetReason = "new" | "unknown";

/** What changed in the catalogue: as a stream of events, or with `since` as one answer. Undefined: the stream has begun. */
export async function answerChanges(context: RequestContext): Promise<Answer | undefined> {
  const { services, snapshot, request, client } = context;
  const { aggregation, backgroundReader, changeStreams, clock } = services;
  const since = readParameters((context.target as LocalTarget).query, ["since"]).get("since");
  await aggregation.changes.begin();
  backgroundReader.wake();
  if (since !== undefined) {
    await backgroundReader.whenRead(registriesOf(snapshot, client?.tier), clock.now() + FIRST_READ_WAIT);
    const body = Buffer.from(JSON.stringify(changesSince(context, since)));
    return { status: 200, fields: ["content-type", "application/json", "cache-control", "no-store"], body };
  }
  if (request.method === "HEAD") return { status: 200, fields: STREAM_FIELDS, body: undefined };
  changeStreams.open(context, request.headers["last-event-id"]);
  return undefined;
}

function changesSince({ services, snapshot, client }: RequestContext, since: string): object {
  const { changes } = services.aggregation;
  const position = changes.find(since);
  const batches = position === undefined ? undefined : changes.from(position);
  const last = changes.last!;
  if (batches === undefined) return { changes: [], lastId: last.id, reset: true, more: false };
  const listed: object[] = [];
  for (const batch of batches) {
    const first = batch.n === position!.n ? position!.count : 0;
    if (first >= batch.changes.length) continue;
    const sight = sightOf(snapshot, client?.tier, batch);
    if (sight === "unknown") return { changes: [], lastId: last.id, reset: true, more: false };
    if (sight === "hidden") continue;
    for (let count = first + 1; count <= batch.changes.length; count += 1) {
      listed.push(JSON.parse(changeText(batch, count)) as object);
      const isLast = batch === last && count === batch.changes.length;
      if (listed.length === MOST_AT_ONCE && !isLast) {
        return { changes: listed, lastId: idAt(batch, count), reset: false, more: true };
      }
    }
  }
  return { changes: listed, lastId: last.id, reset: false, more: false };
}

/**
 * Whether a client of this tier may see what a batch says: it is about a registry that the client may use, or might have.
 * Unknown where the alias that the registry had is one that the client may use, and may be another registry's by now.
 */
function sightOf(
  { upstreams }: Snapshot,
  tier: Tier | undefined,
  { admin, registry }: Batch,
): "seen" | "hidden" | "unknown" {
  if (tier === undefined || tier.seesAll) return "seen";
  const upstream = upstreams.byAdmin(admin);
  if (upstream !== undefined) return maySee(tier, upstream) ? "seen" : "hidden";
  if (!tier.allows(registry)) return "hidden";
  return upstreams.byName(registry) === undefined ? "seen" : "unknown";
}

interface Stream {
  readonly context: RequestContext;
  readonly response: ServerResponse;
  /** Of the clients' keys, when it began. */
  readonly keys: string | undefined;
  readonly endsAt: Instant;
  position: Position;
  history: number;
  writtenAt: Instant;
}

/** How often streams are looked at, and a stream says that it is there. */
const TICK: Duration = 1_000;
const HEARTBEAT: Duration = 15_000;

/** After about this time a stream ends: the client's right to it is looked at anew. */
const LIFETIME: Duration = 900_000;

/** When clients come back whose stream has ended: not all at once. */
const RETRY: { readonly least: Duration; readonly most: Duration } = { least: 1_000, most: 5_000 };

export interface ChangeStreamsOptions {
  readonly clock: Clock;
  readonly random: () => number;
  readonly changes: Changes;
  readonly backgroundReader: BackgroundReader;
  readonly snapshots: { readonly latest: Snapshot };
}

/** The clients that follow changes as they come. */
export class ChangeStreams {
  private readonly options: ChangeStreamsOptions;
  private readonly streams = new Set<Stream>();
  /** Each batch as events, for all streams that send all of it. */
  private readonly events = new WeakMap<Batch, Buffer>();
  private cancelTick: CancelTimer | undefined;
  private isClosed = false;

  constructor(options: ChangeStreamsOptions) {
    this.options = options;
    options.changes.onChange(() => this.sendAll());
  }

  get size(): number {
    return this.streams.size;
  }

  /**
   * Begins a stream behind the last id that its client has.
   *
   * @throws GatewayError 503 where there are as many as are allowed, or the process stops
   */
  open(context: RequestContext, lastId: string | string[] | undefined): void {
    const { clock, random, changes, snapshots } = this.options;
    const { response, services, snapshot } = context;
    const most = snapshot.config.aggregate.maxSubscribers;
    if (this.isClosed) throw new GatewayError("stopping", "the gateway is being stopped; try again", { retryAfter: 1 });
    if (this.streams.size >= most) {
      const text = `as many clients follow the changes as this gateway allows (${most}); try again, or ask with ?since=`;
      throw new GatewayError("too_many_subscribers", text, { retryAfter: 10 });
    }
    if (response.destroyed) return;
    const found = typeof lastId === "string" ? changes.find(lastId) : undefined;
    const now = clock.now();
    const stream: Stream = {
      context,
      response,
      keys: snapshots.latest.clients?.keysDigest,
      endsAt: now + LIFETIME * (0.9 + random() / 5),
      position: found ?? changes.end.position,
      history: changes.history,
      writtenAt: now,
    };
    this.streams.add(stream);
    response.once("close", () => this.streams.delete(stream));
    response.writeHead(200, [...commonFieldsOf(context, services.inFlight.isDraining), ...STREAM_FIELDS]);
    const retry = Math.round(RETRY.least + random() * (RETRY.most - RETRY.least));
    this.write(stream, `retry: ${retry}\n\n`);
    if (found === undefined) this.reset(stream, lastId === undefined ? "new" : "unknown");
    else this.send(stream);
    if (this.cancelTick === undefined) this.tick();
  }

  /** Ends those that began under another configuration or other keys: what their clients may see is found out anew. */
  follow(): void {
    for (const stream of this.streams) if (!this.isCurrent(stream)) this.end(stream);
  }

  /** Ends all. */
  close(): void {
    this.isClosed = true;
    this.cancelTick?.();
    for (const stream of this.streams) this.end(stream);
  }

  private tick(): void {
    const { clock, backgroundReader, changes } = this.options;
    this.cancelTick = undefined;
    this.follow();
    const now = clock.now();
    for (const stream of this.streams) {
      if (now >= stream.endsAt) this.end(stream);
      else if (now - stream.writtenAt >= HEARTBEAT && !stream.response.writableNeedDrain) {
        // With the id, so that one who sees few registries does not fall behind for what others change.
        const isAtEnd = stream.history === changes.history && stream.position.n === changes.last!.n;
        this.write(stream, isAtEnd ? `:\nid: ${changes.last!.id}\n\n` : ":\n\n");
      }
    }
    if (this.streams.size === 0) return;
    backgroundReader.wake();
    this.cancelTick = clock.after(TICK, () => this.tick());
  }

  private sendAll(): void {
    this.follow();
    for (const stream of this.streams) this.send(stream);
  }

  /** Writes what a stream lacks, as far as its client reads. */
  private send(stream: Stream): void {
    const { changes } = this.options;
    const { response, context } = stream;
    if (response.writableNeedDrain || response.writableEnded) return;
    const batches = stream.history === changes.history ? changes.from(stream.position) : undefined;
    if (batches === undefined) return this.reset(stream, "unknown");
    for (const batch of batches) {
      const first = batch.n === stream.position.n ? stream.position.count : 0;
      stream.position = { n: batch.n, count: batch.changes.length };
      if (first >= batch.changes.length) continue;
      const sight = sightOf(context.snapshot, context.client?.tier, batch);
      if (sight === "unknown") return this.reset(stream, "unknown");
      if (sight === "seen" && !this.write(stream, this.eventsOf(batch, first))) return;
    }
  }

  /** The client lists the catalogue anew, and goes on from here: changes before are lost. */
  private reset(stream: Stream, reason: ResetReason): void {
    const { changes } = this.options;
    stream.position = changes.end.position;
    stream.history = changes.history;
    const { id } = changes.last!;
    this.write(stream, `id: ${id}\nevent: reset\ndata: ${JSON.stringify({ id, reason })}\n\n`);
  }

  private eventsOf(batch: Batch, first: number): Buffer {
    const known = first === 0 ? this.events.get(batch) : undefined;
    if (known !== undefined) return known;
    let text = "";
    for (let count = first + 1; count <= batch.changes.length; count += 1) {
      text += `id: ${idAt(batch, count)}\nevent: change\ndata: ${changeText(batch, count)}\n\n`;
    }
    const events = Buffer.from(text);
    if (first === 0) this.events.set(batch, events);
    return events;
  }

  /** False where the client has to read before there is more. */
  private write(stream: Stream, events: Buffer | string): boolean {
    const { response, context } = stream;
    stream.writtenAt = this.options.clock.now();
    context.bytes += events.length;
    const isTaken = response.write(events);
    if (!isTaken) response.once("drain", () => this.send(stream));
    return isTaken;
  }

  private isCurrent({ context, keys }: Stream): boolean {
    const { latest } = this.options.snapshots;
    return context.snapshot === latest && keys === latest.clients?.keysDigest;
  }

  private end(stream: Stream): void {
    this.streams.delete(stream);
    stream.response.end();
  }
}
