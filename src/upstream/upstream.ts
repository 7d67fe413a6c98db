import { isDeepStrictEqual } from "node:util";
import { type Wait, withDeadline } from "../clock.ts";
import type { TlsFiles, UpstreamConfig } from "../config/schema.ts";
import { GatewayError } from "../errors.ts";
import { printable } from "../json.ts";
import { ConcurrencyLimit } from "../limits/concurrency.ts";
import { RetryBudget } from "../limits/retry-budget.ts";
import type { Access } from "./access.ts";
import { Admin, type AdminEvents } from "./admin.ts";
import { makeCall } from "./call.ts";
import { Credentials } from "./credentials.ts";
import { failed } from "./failure.ts";
import { Node } from "./node.ts";
import type { Target } from "./socket.ts";
import { statusOf, upstreamDown } from "./status.ts";
import type { Answer, Call, UpstreamStatus } from "./types.ts";

/** Parts that an upstream needs besides its own keys. */
interface UpstreamSurroundings extends Pick<Access, "answerLimit" | "rate" | "clock" | "log" | "observer"> {
  /** Texts of the files that the configuration names, by path. */
  readonly texts: ReadonlyMap<string, string>;
  readonly events: AdminEvents;
}

/** A node's URL, and where its connections lead. */
interface Place {
  readonly url: string;
  readonly target: Target;
}

/** One registry, as one configuration describes it. Its nodes may outlive it. */
export class Upstream {
  readonly config: UpstreamConfig;
  readonly name: string;
  /** Name of another upstream with the same admin, where this one may not use it; set by {@link Upstreams}. */
  twin: string | undefined;
  private readonly access: Access;
  private readonly nodes: readonly Node[];

  /** @param previous the upstream of this name until now: its limits go on, and nodes whose URL, `tls` and `httpProxy` stay */
  constructor(config: UpstreamConfig, surroundings: UpstreamSurroundings, previous: Upstream | undefined) {
    const { texts, events, ...shared } = surroundings;
    const parts = { ...shared, log: shared.log.child({ upstream: config.name }) };
    const old = previous?.access;
    const isSameAdmin = config.admin === undefined || config.admin === previous?.admin;
    const targets = config.urls.map((url) => ({ url, target: targetOf(url, config, texts) }));
    // No closure here takes `previous`: those that stay would hold it, and it the one before, for ever.
    const kept = isSameAdmin && previous !== undefined ? previous.findNodes(targets) : [];
    const learned = previous !== undefined && mayStay(previous, config, kept) ? previous.admin : undefined;
    const hasSameAuth = JSON.stringify(old?.config.auth) === JSON.stringify(config.auth);
    this.config = config;
    this.name = config.name;
    this.access = {
      ...parts,
      config,
      admin: new Admin({ configured: config.admin, learned }, events, parts.clock),
      whyDisabled: () => this.whyDisabled(),
      credentials: (hasSameAuth ? old?.credentials : undefined) ?? Credentials.create(config.auth, parts),
      places: old?.places ?? new ConcurrencyLimit(config.concurrency, parts.clock),
      budget: old?.budget ?? new RetryBudget(parts.clock),
    };
    this.nodes = targets.map(({ url, target }, at) => kept[at] ?? new Node(url, target, this.access));
  }

  /** The party id, configured or learned. */
  get admin(): string | undefined {
    return this.access.admin.party;
  }

  /** Begins: all nodes follow this configuration from now on, and those that are not up are asked for their info. */
  start(): void {
    this.access.places.resize(this.config.concurrency);
    for (const node of this.nodes) {
      node.access = this.access;
      if (node.state !== "up") node.askSoon();
    }
  }

  /** Says why each request is refused, while upstreams or nodes contradict each other; undefined: they do not. */
  whyDisabled(): GatewayError | undefined {
    const text = this.contradiction();
    return text === undefined
      ? undefined
      : new GatewayError(
          "upstream_disabled",
          `the registry "${this.name}" is not used: ${text}; report it to the gateway's operator`,
        );
  }

  /**
   * Gives the admin's party id; where it is not known, nodes are asked.
   *
   * @throws GatewayError where it does not come in time, or the upstream is disabled
   */
  async learnAdmin(wait: Wait): Promise<string> {
    if (this.admin === undefined) await this.askForAdmin(wait);
    const disabled = this.whyDisabled();
    if (disabled !== undefined) throw disabled;
    return this.admin!;
  }

  /** Makes a call, unless the upstream is disabled or cache-only. Rejects with GatewayError alone. */
  call(call: Call): Promise<Answer> {
    const refusal = this.config.mode === "cache-only" ? cacheOnly(this.name) : this.whyDisabled();
    if (refusal === undefined) return makeCall(this.access, this.nodes, call);
    this.access.observer.callRefused(this.name, refusal.code);
    call.onEnd?.({ attempts: 0, node: undefined, waited: 0 });
    return Promise.reject(refusal);
  }

  status(): UpstreamStatus {
    return statusOf(this.access, this.nodes, this.contradiction());
  }

  /** Closes the nodes that the successor did not take over. Calls that run end as they do; tokens that they wait for come. */
  close(successor?: Upstream): void {
    for (const node of this.nodes) if (successor?.nodes.includes(node) !== true) node.close();
  }

  private findNodes(places: readonly Place[]): (Node | undefined)[] {
    return places.map(({ url, target }) =>
      this.nodes.find((node) => node.url === url && isDeepStrictEqual(node.connections.target, target)),
    );
  }

  /** Resolves when the first node has named its admin. */
  private async askForAdmin({ deadline, signal }: Wait): Promise<void> {
    const { clock } = this.access;
    const askable = this.nodes.filter(({ mayBeAsked }) => mayBeAsked);
    if (askable.length === 0) throw upstreamDown(this.access, this.nodes);
    const asked = askable.map(async (node) => {
      const failure = await node.ask("client");
      if (failure !== undefined) throw failure.last;
      // After a reload the node tells the next upstream, not this one, which a request may still hold.
      this.access.admin.accepts(node.info.named!);
    });
    const first = Promise.any(asked).catch((error: unknown) => {
      throw (error as AggregateError).errors[0];
    });
    await withDeadline(first, { deadline, signal }, () => failed("late", this.name).last as GatewayError, clock);
  }

  /** Says which upstreams or nodes contradict each other; undefined: none. */
  private contradiction(): string | undefined {
    if (this.twin !== undefined) {
      return `it and the registry "${this.twin}" name the same admin, and which is right cannot be known until one has it as \`admin\``;
    }
    if (this.config.admin !== undefined || this.nodes.length === 1) return undefined;
    if (this.nodes.every(({ info }) => info.named === undefined || info.named === this.admin)) return undefined;
    const named = new Set(this.nodes.flatMap(({ info }) => info.named ?? []));
    if (named.size < 2) return undefined;
    const [one, other] = [...named].map((party) => printable(party, 120));
    return `its nodes name different admins, ${one} and ${other}, and which is right cannot be known until \`admin\` says so`;
  }
}

/**
 * Whether the admin that was known stays, where none is configured: a node that stays has named it, or nothing has changed that
 * could have been wrong.
 */
function mayStay({ admin, config }: Upstream, { urls }: UpstreamConfig, kept: readonly (Node | undefined)[]): boolean {
  if (kept.some((node) => node !== undefined && node.info.named === admin)) return true;
  const hasSameNodes = config.urls.length === urls.length && kept.every((node) => node !== undefined);
  return hasSameNodes && config.admin === undefined;
}

function cacheOnly(name: string): GatewayError {
  const text = `the registry "${name}" is in cache-only mode, and the cache has no answer to this; try again later`;
  return new GatewayError("cache_only", text);
}

function targetOf(url: string, { tls, httpProxy }: UpstreamConfig, texts: ReadonlyMap<string, string>): Target {
  const textOf = (key: keyof TlsFiles): string | undefined => {
    const file = tls?.[key];
    return file === undefined ? undefined : texts.get(file);
  };
  const [ca, cert, key] = [textOf("caFile"), textOf("certFile"), textOf("keyFile")];
  return {
    origin: new URL(url).origin,
    tls: { ...(ca !== undefined && { ca }), ...(cert !== undefined && { cert }), ...(key !== undefined && { key }) },
    httpProxy,
  };
}
