import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { type Clock, sleep } from "../../src/clock.ts";
import { type Call as Received, type Canned, type Misdeed, partyOf, Registry } from "../support/registry.ts";
import type { Call, History, Moment } from "./history.ts";
import { type Mood, NAMES, type RegistryPlan, STRANGER } from "./plan.ts";

/** The field by which a node knows the replica. */
export const REPLICA_FIELD = "x-replica";

export function adminOf(registry: number): string {
  return partyOf(registry === STRANGER ? "stranger of the model" : `model-${NAMES[registry]!}`);
}

/** A registry whose nodes have moods, and whose every answer can be told from every other one. */
export class Source {
  readonly registry: Registry;
  readonly plan: RegistryPlan;
  readonly moods: Mood[];
  ids: readonly string[];
  private before: readonly string[];
  private readonly index: number;
  private readonly history: History;
  private readonly clock: Clock;
  private turn: Promise<void> = Promise.resolve();
  /** When connections were accepted, by node and number. */
  private readonly accepted = new Map<string, Moment>();
  /** Open connections by node and replica. */
  private readonly open = new Map<string, Set<Socket>>();

  constructor(index: number, plan: RegistryPlan, { history, clock }: { history: History; clock: Clock }) {
    this.index = index;
    this.plan = plan;
    this.ids = plan.ids;
    this.before = [];
    this.history = history;
    this.clock = clock;
    this.moods = Array.from({ length: plan.nodes }, () => ({ kind: "well" }));
    this.registry = new Registry(NAMES[index]!, { admin: adminOf(index) });
    history.moods[index] = [];
    const script = (call: Received, response: ServerResponse) => this.answer(call, response);
    this.registry.on("info", script).on("*", script);
  }

  async start(): Promise<void> {
    for (const node of this.moods.keys()) {
      await this.registry.addNode();
      this.registry.nodes[node]!.onAccepted = (connection) =>
        void this.accepted.set(`${node} ${connection}`, this.history.moment());
    }
  }

  async close(): Promise<void> {
    await this.registry.close();
    this.registry.reset();
  }

  /** One change after the other: a port can be had once. */
  setMood(at: number, mood: Mood): Promise<void> {
    return this.inTurn(async () => {
      const place = at % this.moods.length;
      const was = this.moods[place]!;
      this.leaveMood(was);
      this.moods[place] = mood;
      this.history.moods[this.index]!.push({ kind: mood.kind, until: Infinity });
      const node = this.registry.nodes[place]!;
      if (mood.kind === "closed") await node.close();
      else if (was.kind === "closed") await node.listen();
    });
  }

  restart(at: number): Promise<void> {
    return this.inTurn(async () => {
      const place = at % this.moods.length;
      if (this.moods[place]!.kind === "closed") return;
      this.history.moods[this.index]!.push({ kind: "closed", until: this.history.now() });
      const node = this.registry.nodes[place]!;
      await node.close();
      await node.listen();
    });
  }

  private inTurn(work: () => Promise<void>): Promise<void> {
    this.turn = this.turn.then(work);
    return this.turn;
  }

  relist(ids: readonly string[]): void {
    this.before = this.ids;
    this.ids = ids;
    this.history.moods[this.index]!.push({ kind: "lags", until: this.history.now() });
  }

  private leaveMood({ kind }: Mood): void {
    const entry = this.history.moods[this.index]!.find((each) => each.kind === kind && each.until === Infinity);
    if (entry !== undefined) entry.until = this.history.now();
  }

  private async answer(received: Received, response: ServerResponse): Promise<Canned | Misdeed> {
    const { history } = this;
    const mood = this.moods[received.node]!;
    const arrived = history.moment();
    const call: Call = {
      arrived,
      registry: this.index,
      node: received.node,
      replica: Number(String(received.headers[REPLICA_FIELD]).slice("replica-number-".length)),
      operation: received.operation,
      method: received.method,
      url: received.url,
      body: received.body,
      requestId: received.headers["x-request-id"] as string | undefined,
      connectedAt: this.accepted.get(`${received.node} ${received.connection}`)!,
      mood,
      stamp: arrived.seq,
      ids: mood.kind === "lags" ? this.before : this.ids,
      renewed: [],
    };
    history.calls.push(call);
    this.watch(call, response);
    response.on("close", () => (call.closed = history.moment()));
    if (mood.kind === "slow") await sleep(mood.by, this.clock);
    const given = this.given(call, received);
    if (typeof given === "string" || "raw" in given) return given;
    call.status = given.status ?? 200;
    call.bytes = typeof given.body === "string" ? given.body : JSON.stringify(given.body ?? "");
    call.sent = history.moment();
    return { ...given, fields: [...(given.fields ?? []), ...(mood.kind === "closes" ? ["Connection", "close"] : [])] };
  }

  /** Notes when the last connection of a replica's to a node has gone. */
  private watch({ registry, node, replica }: Call, { socket }: ServerResponse): void {
    const key = `${node} ${replica}`;
    const sockets = this.open.get(key) ?? new Set();
    this.open.set(key, sockets);
    if (socket === null || sockets.has(socket)) return;
    sockets.add(socket);
    socket.once("close", () => {
      sockets.delete(socket);
      if (sockets.size > 0) return;
      this.history.partings.push({ registry, node, replica, moment: this.history.moment() });
    });
  }

  private given(call: Call, received: Received): Canned | Misdeed {
    const { mood, stamp, operation } = call;
    switch (mood.kind) {
      case "resets":
        return "reset";
      case "hangs":
        return "hang";
      case "garbage":
        return { body: `{"stamp":${stamp}` };
      case "cuts":
        return { raw: `HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{"stamp":${stamp}` };
      case "fails":
        return mood.isHtml
          ? { status: mood.status, fields: ["Content-Type", "text/html"], body: `<html>"stamp":${stamp}</html>` }
          : { status: mood.status, body: { error: "no", stamp } };
      case "limited":
        return {
          status: 429,
          fields: mood.retryAfter === undefined ? [] : ["Retry-After", String(mood.retryAfter)],
          body: `Too Many Requests: Server is busy, please try again later. "stamp":${stamp}`,
        };
      case "no-info":
        return operation === "info" ? { status: 500, body: { error: "no info", stamp } } : this.usual(call, received);
      default:
        return this.usual(call, received);
    }
  }

  private usual(call: Call, { headers }: Received): Canned {
    const { operation, method, url, stamp, mood } = call;
    if (operation === "info") {
      call.named = adminOf(mood.kind === "lies" ? mood.as : this.index);
      return this.kept(call, { adminId: call.named, supportedApis: {}, stamp }, headers["if-none-match"]);
    }
    if (operation === "instruments") return this.page(call, headers["if-none-match"]);
    if (operation === "instrument") {
      const id = decodeURIComponent(url.split("/").at(-1)!);
      if (call.ids.includes(id)) return this.kept(call, { ...listed(id, stamp) }, headers["if-none-match"]);
      return { status: 404, body: { error: `no instrument ${id}`, stamp } };
    }
    if (operation === "pass_through") return { body: { method, url, stamp } };
    const context = { choiceContextData: { listed: call.ids.length }, disclosedContracts: [] };
    if (operation.includes("factory"))
      return { body: { factoryId: "factory", transferKind: "self", choiceContext: context, stamp } };
    return mood.kind === "lags"
      ? { status: 404, body: { error: "no such contract", stamp } }
      : { body: { ...context, stamp } };
  }

  private page(call: Call, condition: string | undefined): Canned {
    const { url, ids, stamp } = call;
    const query = new URL(url, "http://registry").searchParams;
    const sorted = ids.toSorted();
    const token = query.get("pageToken");
    const from = token === null ? 0 : sorted.findIndex((id) => id > token);
    const page = from === -1 ? [] : sorted.slice(from, from + Number(query.get("pageSize") ?? 25));
    const isLast = from === -1 || from + page.length >= sorted.length;
    const body = {
      instruments: page.map((id) => listed(id, stamp)),
      ...(!isLast && { nextPageToken: page.at(-1) }),
      stamp,
    };
    return this.kept(call, body, condition);
  }

  /** What may be kept, with the registry's word on that; a 304 where nothing has changed. */
  private kept(call: Call, body: object, condition: string | undefined): Canned {
    const { control, hasTags } = this.plan;
    const fields = control.text === undefined ? [] : ["Cache-Control", control.text];
    if (!hasTags) return { fields, body };
    const known = this.history.calls.find(({ stamp, status }) => condition === `"${stamp}"` && status === 200);
    if (known !== undefined && known.ids === call.ids && known.named === call.named && known.url === call.url) {
      known.renewed.push(call.arrived);
      return { status: 304, fields: [...fields, "ETag", condition!] };
    }
    return { fields: [...fields, "ETag", `"${call.stamp}"`], body };
  }
}

/** An instrument as a page and an answer of its own have it. */
export function listed(id: string, stamp: number): object {
  return { id, name: `${id} of ${stamp}`, symbol: "S", decimals: 0, supportedApis: {}, stamp };
}
