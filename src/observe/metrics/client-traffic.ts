import type { Client } from "../../clients/client.ts";
import type { Instant } from "../../clock.ts";
import { MAX_KEYS } from "../../config/keys-file.ts";
import type { ErrorCode } from "../../errors.ts";
import type { Metrics } from "../metrics.ts";
import { CLIENT_REFUSAL, type ClientRefusal, MOST_NAMES, type OperationLabel, type OutcomeLabel } from "./labels.ts";

/** What a client used since the process began. */
export interface ClientUse {
  readonly name: string;
  readonly kind: Client["kind"];
  readonly tier: string;
  readonly requests: number;
  readonly refusals: Readonly<Partial<Record<ClientRefusal, number>>>;
  /** Let in although its tier's limits would refuse them: the tier has `enforce: false`. */
  readonly spared: number;
  /** When its last request came. */
  readonly lastSeen: Instant;
}

interface CountedClient {
  /** The last one that was counted here. */
  client: Client;
  readonly name: string;
  /** In metrics: its name, or that of a group. */
  readonly label: string;
  requests: number;
  lastSeen: Instant;
  readonly refusals: Partial<Record<ClientRefusal, number>>;
  spared: number;
  /** When a refusal was written into the log last. */
  auditedAt: Instant;
}

/** What a refusal is counted by. */
export interface RefusedClient {
  readonly client: string;
  readonly tier: string;
  readonly reason: ClientRefusal;
}

export interface ClientTrafficOptions {
  readonly metrics: Metrics;
  /** Called for a client's first refusal in a minute. */
  readonly onRefused: (refused: RefusedClient) => void;
  /** Called for the first request in a minute that was let in although its client is over a limit. */
  readonly onSpared: (spared: RefusedClient) => void;
}

const AUDIT_EVERY = 60_000;

/** The name of those of whom it is not known who they are. */
const NOBODY = "none";
const ANONYMOUS = "anonymous";

const REFUSALS: ReadonlySet<string> = new Set(CLIENT_REFUSAL);

/** Counts what each client asked for, and what was refused to it. */
export class ClientTraffic {
  private readonly options: ClientTrafficOptions;
  /** By kind and label: a token may have the name of a key. */
  private readonly counted = {
    key: new Map<string, CountedClient>(),
    token: new Map<string, CountedClient>(),
    certificate: new Map<string, CountedClient>(),
    anonymous: new Map<string, CountedClient>(),
  };
  private readonly nobody = { auditedAt: -Infinity };

  constructor(options: ClientTrafficOptions) {
    this.options = options;
  }

  /** Counts a request; `client` is undefined where it is not known who asked. */
  count(client: Client | undefined, operation: OperationLabel, outcome: OutcomeLabel, at: Instant): void {
    const counted = client === undefined ? undefined : this.of(client);
    this.options.metrics.clientRequests.inc({ client: counted?.label ?? NOBODY, operation, outcome });
    if (counted === undefined) return;
    counted.requests += 1;
    counted.lastSeen = at;
  }

  /** Counts why a request was refused, where that is about its client. */
  refused(client: Client | undefined, code: ErrorCode, at: Instant): void {
    if (!isClientRefusal(code)) return;
    const counted = client === undefined ? undefined : this.of(client);
    if (counted !== undefined) counted.refusals[code] = (counted.refusals[code] ?? 0) + 1;
    const audited = counted ?? this.nobody;
    this.options.metrics.clientRefusals.inc({ client: counted?.label ?? NOBODY, reason: code });
    if (at - audited.auditedAt < AUDIT_EVERY) return;
    audited.auditedAt = at;
    this.options.onRefused({ client: counted?.name ?? NOBODY, tier: client?.tier.name ?? NOBODY, reason: code });
  }

  /** Counts a request that was let in although a limit of its client's tier would refuse it. */
  spared(client: Client, reason: ClientRefusal, at: Instant): void {
    const counted = this.of(client);
    counted.spared += 1;
    this.options.metrics.clientSpared.inc({ client: counted.label, reason });
    if (at - counted.auditedAt < AUDIT_EVERY) return;
    counted.auditedAt = at;
    this.options.onSpared({ client: counted.name, tier: client.tier.name, reason });
  }

  /** What each client used, those that were seen last first. */
  uses(): ClientUse[] {
    return Object.values(this.counted)
      .flatMap((ofKind) => Array.from(ofKind.values()))
      .map(({ client, name, requests, refusals, spared, lastSeen }) => {
        return { name, kind: client.kind, tier: client.tier.name, requests, refusals, spared, lastSeen };
      })
      .toSorted((one, other) => other.lastSeen - one.lastSeen);
  }

  private of(client: Client): CountedClient {
    const ofKind = this.counted[client.kind];
    const known = ofKind.get(client.name);
    if (known !== undefined) {
      known.client = client;
      return known;
    }
    const isNamed = client.kind === "anonymous" || ofKind.size < MOST_NAMES[client.kind];
    // Names of keys are the operator's own, and many: each is shown by itself, and beyond some is no label of its own.
    const isApart = isNamed || (client.kind === "key" && ofKind.size < MAX_KEYS);
    const key = isApart ? client.name : groupOf(client);
    const label = isNamed ? labelOf(client) : groupOf(client);
    const counted = ofKind.get(key) ?? newlyCounted(client, isApart ? labelOf(client) : label, label);
    ofKind.set(key, counted);
    return counted;
  }
}

function newlyCounted(client: Client, name: string, label: string): CountedClient {
  return {
    client,
    name,
    label,
    requests: 0,
    lastSeen: 0,
    refusals: {},
    spared: 0,
    auditedAt: -Infinity,
  };
}

/** A client's name, where it is not one of those that stand for others. */
function labelOf({ kind, name }: Client): string {
  const isTaken = name === NOBODY || name === ANONYMOUS;
  return isTaken && kind !== ANONYMOUS ? `${kind}/${name}` : name;
}

/** What clients are counted under when there are too many names of their kind. */
function groupOf({ kind, tier, issuer }: Client): string {
  return `${issuer ?? kind}/${tier.name}`;
}

function isClientRefusal(code: ErrorCode): code is ClientRefusal {
  return REFUSALS.has(code);
}
