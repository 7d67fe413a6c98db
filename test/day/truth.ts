import type { Day, FaultName, Registry } from "./plan.ts";

/** What a wallet asks for. */
export type Question =
  | { readonly kind: "info" }
  | { readonly kind: "page"; readonly page: number }
  | { readonly kind: "instrument"; readonly instrument: number }
  | { readonly kind: "factory" | "context"; readonly nonce: string; readonly instrument: number };

export type Verdict = "right" | "error" | "wrong" | "stale";

/** Of each page: nobody asks for another size. */
export const PAGE_SIZE = 25;

/** Seconds that metadata is fresh where its registry says nothing. Each contestant is told these. */
export const TTL = { info: 600, page: 30, instrument: 30 };
/** Seconds after that for which it may be served while it is refreshed, and while its registry fails. */
export const STALE = { whileRefreshed: 30, onErrors: 600 };
/** Within this a purge is to be seen everywhere. */
export const PURGE_WITHIN = 2_000;

/** How long after a fault a contestant may not have noticed yet that it is over. */
const RECOVERY = 15_000;
/** How much of an answer's age may be its way. */
const SLACK = 500;
const FAILING = new Set<FaultName | undefined>([
  "registry hangs",
  "registry limits",
  "registry down",
  "registry sends HTML",
]);
const APIS = { "splice-api-token-metadata-v1": 1, "splice-api-token-transfer-instruction-v1": 1 };
const BLOB = "0123456789abcdef".repeat(150);

export function pagesOf({ instruments }: Registry): number {
  return Math.ceil(instruments / PAGE_SIZE);
}

export function instrumentId({ number }: Registry, instrument: number): string {
  return `T${number}-${String(instrument).padStart(4, "0")}`;
}

/** Below a registry's base URL. */
export function pathOf(registry: Registry, question: Question): string {
  const metadata = "/registry/metadata/v1";
  switch (question.kind) {
    case "info":
      return `${metadata}/info`;
    case "page":
      return `${metadata}/instruments${question.page === 0 ? "" : `?pageToken=${tokenOf(question.page)}`}`;
    case "instrument":
      return `${metadata}/instruments/${instrumentId(registry, question.instrument)}`;
    case "factory":
      return "/registry/transfer-instruction/v1/transfer-factory";
    case "context":
      return `/registry/transfer-instruction/v1/${question.nonce}/choice-contexts/accept`;
  }
}

/** The question that a path stands for; undefined: it is no path of a registry. A factory's nonce is in its body. */
export function questionOf(path: string): Question | undefined {
  const [, rest = ""] = /^\/registry\/(.*)$/.exec(path) ?? [];
  if (rest === "metadata/v1/info") return { kind: "info" };
  const page = /^metadata\/v1\/instruments(?:\?pageToken=after-([0-9]+))?$/.exec(rest);
  if (page !== null) return { kind: "page", page: Number(page[1] ?? 0) / PAGE_SIZE };
  const instrument = /^metadata\/v1\/instruments\/T[0-9]+-([0-9]+)$/.exec(rest);
  if (instrument !== null) return { kind: "instrument", instrument: Number(instrument[1]) };
  if (rest === "transfer-instruction/v1/transfer-factory") return { kind: "factory", nonce: "", instrument: 0 };
  const context = /^transfer-instruction\/v1\/([0-9a-f]+)\/choice-contexts\/accept$/.exec(rest);
  return context === null ? undefined : { kind: "context", nonce: context[1]!, instrument: 0 };
}

const tokenOf = (page: number) => `after-${page * PAGE_SIZE}`;

/** What a wallet sends with a POST. */
export function requestBody(registry: Registry, question: Question): string | undefined {
  if (question.kind === "context") return '{"excludeDebugFields":true}';
  if (question.kind !== "factory") return undefined;
  const { admin } = registry;
  return JSON.stringify({
    choiceArguments: {
      expectedAdmin: admin,
      transfer: {
        sender: `alice::1220${question.nonce.slice(0, 64)}`,
        receiver: `bob::1220${question.nonce.slice(-64)}`,
        amount: "12.5000000000",
        instrumentId: { admin, id: instrumentId(registry, question.instrument) },
        requestedAt: "2026-11-24T08:00:00Z",
        executeBefore: "2026-11-25T08:00:00Z",
        inputHoldingCids: [`00${question.nonce}`, `01${question.nonce}`],
        meta: { values: { nonce: question.nonce } },
      },
      extraArgs: { context: { values: {} }, meta: { values: {} } },
    },
    excludeDebugFields: true,
  });
}

/** The body that the registry answers in a version of its metadata: the only right one. */
export function rightBody(registry: Registry, question: Question, version: number): string {
  switch (question.kind) {
    case "info":
      return JSON.stringify({ adminId: registry.admin, supportedApis: APIS, revision: version });
    case "instrument":
      return JSON.stringify(instrumentOf(registry, question.instrument, version));
    case "page": {
      const first = question.page * PAGE_SIZE;
      const count = Math.min(PAGE_SIZE, registry.instruments - first);
      const instruments = Array.from({ length: count }, (_, i) => instrumentOf(registry, first + i, version));
      const next = question.page + 1;
      return JSON.stringify({ instruments, ...(next < pagesOf(registry) && { nextPageToken: tokenOf(next) }) });
    }
    case "factory":
      return JSON.stringify({
        factoryId: `00${question.nonce}`,
        choiceContext: contextOf(registry, question.nonce),
        transferKind: "offer",
      });
    case "context":
      return JSON.stringify(contextOf(registry, question.nonce));
  }
}

function instrumentOf(registry: Registry, instrument: number, version: number): object {
  const id = instrumentId(registry, instrument);
  return {
    id,
    name: `Token ${instrument} of registrar ${registry.number}`,
    symbol: id,
    totalSupply: `${version}.0000000000`,
    totalSupplyAsOf: "2026-11-24T08:00:00Z",
    decimals: 10,
    supportedApis: APIS,
  };
}

function contextOf({ admin }: Registry, nonce: string): object {
  const contract = (number: number) => ({
    templateId: "3ca1343ab26b453d38c8adb70dca5f1ead8440c42b59b68f070786955cbf9ec1:Splice.AmuletRules:AmuletRules",
    contractId: `0${number}${nonce}`,
    createdEventBlob: BLOB,
    synchronizerId: `global-domain::${admin.split("::")[1]}`,
  });
  return {
    choiceContextData: { values: { nonce: { tag: "AV_Text", value: nonce } } },
    disclosedContracts: [contract(1), contract(2), contract(3)],
  };
}

/** The version of a registry's metadata, `at` milliseconds after the day began. */
export function versionAt({ changes }: Registry, at: number): number {
  const next = changes.findIndex((change) => change > at);
  return next === -1 ? changes.length : next;
}

/** What a wallet knows of an answer when it judges it. */
export interface Answered {
  readonly registry: Registry;
  readonly question: Question;
  /** Milliseconds since the day began. */
  readonly sentAt: number;
  readonly at: number;
  /** 0: there was no answer. */
  readonly status: number;
  readonly body: Buffer;
  /** When a purge of this registry was confirmed, if one was. */
  readonly purgedAt: number | undefined;
}

/** Judges answers, byte by byte, and keeps the bodies that it compares with. */
export class Judge {
  private readonly day: Day;
  private readonly bodies = new Map<string, Buffer>();

  constructor(day: Day) {
    this.day = day;
  }

  judge(answered: Answered): { readonly verdict: Verdict; readonly version?: number } {
    const { registry, question, status, body } = answered;
    // To say that something is not there which is there is no error: a wallet believes it.
    if (status !== 200) return { verdict: status === 404 ? "wrong" : "error" };
    if (question.kind === "factory" || question.kind === "context") {
      return { verdict: body.equals(Buffer.from(rightBody(registry, question, 0))) ? "right" : "wrong" };
    }
    const version = versionIn(body);
    if (version === undefined || version > versionAt(registry, answered.at + SLACK)) return { verdict: "wrong" };
    if (!body.equals(this.bodyOf(registry, question, version))) return { verdict: "wrong" };
    return { verdict: this.oldestAllowed(answered, question.kind) > version ? "stale" : "right", version };
  }

  /** The version that was current as long ago as the answer may be old. */
  private oldestAllowed({ registry, sentAt, purgedAt }: Answered, kind: keyof typeof TTL): number {
    const fails = this.day.faults.some(
      ({ name, from, to, ...fault }) =>
        fault.registry === registry.number && FAILING.has(name) && sentAt >= from && sentAt < to + RECOVERY,
    );
    const fresh = registry.maxAge ?? TTL[kind];
    const allowed = fresh + (fails ? STALE.onErrors : STALE.whileRefreshed);
    const byAge = versionAt(registry, sentAt - allowed * 1000 - registry.latency - SLACK);
    if (purgedAt === undefined || sentAt < purgedAt + PURGE_WITHIN) return byAge;
    return Math.max(byAge, versionAt(registry, purgedAt));
  }

  private bodyOf(registry: Registry, question: Question, version: number): Buffer {
    const key = `${registry.number} ${version} ${pathOf(registry, question)}`;
    let body = this.bodies.get(key);
    if (body === undefined) {
      // What is old is not asked for again.
      if (this.bodies.size === 5_000) this.bodies.clear();
      this.bodies.set(key, (body = Buffer.from(rightBody(registry, question, version))));
    }
    return body;
  }
}

/** The version that a metadata body says it is of. */
function versionIn(body: Buffer): number | undefined {
  // In the first instrument, or at the end of an info.
  const text = body.toString("latin1", 0, 600);
  const [, supply, revision] = /"totalSupply":"([0-9]+)\.|"revision":([0-9]+)\}/.exec(text) ?? [];
  const version = supply ?? revision;
  return version === undefined ? undefined : Number(version);
}
