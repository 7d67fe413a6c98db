import type { Day, FaultName, Registry } from "./plan.ts";

/** What a wallet asks for. */
export type Question =
  | { readonly kind: "info" }
  | { readonly kind: "page"; readonly page: number }
  | { readonly kind: "instrument"; readonly instrument: number }
  | { readonly kind: "factory" | "context"; readonly nonce: string; readonly instrument: number };

export type Verdict = "right" | "error" | "wrong" | "stale";

/** Of each page: nobody asks for another size. */
const PAGE_SIZE = 25;
/** Seconds that metadata is fresh where its registry says nothing. Each contestant is told these. */
export const TTL = { info: 600, page: 30, instrument: 30 };
/** Seconds after that for which it may be served while it is refreshed, and while its registry fails. */
const STALE = { whileRefreshed: 30, onErrors: 600 };
/** Within so many ms a purge is to be seen everywhere. */
const PURGE_WITHIN = 2_000;
/** How long a contestant may not have noticed that a fault is over; how much of an answer's age may be its way: in ms. */
const [RECOVERY, SLACK] = [15_000, 500];
const FAILING: ReadonlySet<FaultName> = new Set(["registry slow", "registry dead", "registry answers 503"] as const);
const APIS = { "splice-api-token-metadata-v1": 1, "splice-api-token-transfer-instruction-v1": 1 };
const BLOB = "0123456789abcdef".repeat(150);

export function pagesOf({ instruments }: Registry): number {
  return Math.ceil(instruments / PAGE_SIZE);
}

export function isCall({ kind }: Question): boolean {
  return kind === "factory" || kind === "context";
}

const idOf = ({ number }: Registry, instrument: number): string => `T${number}-${String(instrument).padStart(4, "0")}`;
const tokenOf = (page: number): string => `after-${page * PAGE_SIZE}`;

export function pathOf(registry: Registry, question: Question): string {
  const [metadata, instruction] = ["/registry/metadata/v1", "/registry/transfer-instruction/v1"];
  switch (question.kind) {
    case "info":
      return `${metadata}/info`;
    case "page":
      return `${metadata}/instruments${question.page === 0 ? "" : `?pageToken=${tokenOf(question.page)}`}`;
    case "instrument":
      return `${metadata}/instruments/${idOf(registry, question.instrument)}`;
    case "factory":
      return `${instruction}/transfer-factory`;
    case "context":
      return `${instruction}/${question.nonce}/choice-contexts/accept`;
  }
}

/** The questions about metadata that a registry answers, by their paths. */
export function questionsOf(registry: Registry): ReadonlyMap<string, Question> {
  const questions: Question[] = [{ kind: "info" }];
  for (let page = 0; page < pagesOf(registry); page += 1) questions.push({ kind: "page", page });
  for (let at = 0; at < registry.instruments; at += 1) questions.push({ kind: "instrument", instrument: at });
  return new Map(questions.map((question) => [pathOf(registry, question), question]));
}

export function requestBody(registry: Registry, question: Question): string | undefined {
  if (question.kind === "context") return '{"excludeDebugFields":true}';
  if (question.kind !== "factory") return undefined;
  const { admin } = registry;
  const { nonce } = question;
  const transfer = {
    sender: `alice::1220${nonce.slice(0, 64)}`,
    receiver: `bob::1220${nonce.slice(-64)}`,
    amount: "12.5000000000",
    instrumentId: { admin, id: idOf(registry, question.instrument) },
    requestedAt: "2026-11-24T08:00:00Z",
    executeBefore: "2026-11-25T08:00:00Z",
    inputHoldingCids: [`00${nonce}`, `01${nonce}`],
    meta: { values: { nonce } },
  };
  const extraArgs = { context: { values: {} }, meta: { values: {} } };
  return JSON.stringify({ choiceArguments: { expectedAdmin: admin, transfer, extraArgs }, excludeDebugFields: true });
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
      const instruments = Array.from({ length: count }, (_none, i) => instrumentOf(registry, first + i, version));
      const next = question.page + 1;
      return JSON.stringify({ instruments, ...(next < pagesOf(registry) && { nextPageToken: tokenOf(next) }) });
    }
    case "factory": {
      const choiceContext = contextOf(registry, question.nonce);
      return JSON.stringify({ factoryId: `00${question.nonce}`, choiceContext, transferKind: "offer" });
    }
    case "context":
      return JSON.stringify(contextOf(registry, question.nonce));
  }
}

function instrumentOf(registry: Registry, instrument: number, version: number): object {
  const id = idOf(registry, instrument);
  const name = `Token ${instrument} of registrar ${registry.number}`;
  const supply = { totalSupply: `${version}.0000000000`, totalSupplyAsOf: "2026-11-24T08:00:00Z" };
  return { id, name, symbol: id, ...supply, decimals: 10, supportedApis: APIS };
}

function contextOf({ admin }: Registry, nonce: string): object {
  const templateId = "3ca1343ab26b453d38c8adb70dca5f1ead8440c42b59b68f070786955cbf9ec1:Splice.AmuletRules:AmuletRules";
  const synchronizerId = `global-domain::${admin.split("::")[1]}`;
  const contracts = [1, 2, 3].map((at) => ({ contractId: `0${at}${nonce}`, createdEventBlob: BLOB }));
  return {
    choiceContextData: { values: { nonce: { tag: "AV_Text", value: nonce } } },
    disclosedContracts: contracts.map((contract) => Object.assign(contract, { templateId, synchronizerId })),
  };
}

/** The version of a registry's metadata, `at` milliseconds after the day began. */
export function versionAt({ changes }: Registry, at: number): number {
  const next = changes.findIndex((change) => change > at);
  return next === -1 ? changes.length : next;
}

type Asked = { readonly registry: Registry; readonly question: Question };
/** In milliseconds since the day began; a purge is one of this registry that was confirmed. */
type Times = { readonly sentAt: number; readonly at: number; readonly purgedAt: number | undefined };
/** Status 0: there was no answer. */
type Answered = Asked & Times & { readonly status: number; readonly body: Buffer };

/** Judges answers byte by byte. */
export class Judge {
  private readonly day: Day;
  private readonly bodies = new Map<string, Buffer>();

  constructor(day: Day) {
    this.day = day;
  }

  judge(answered: Answered): Verdict {
    const { registry, question, status, body } = answered;
    // To say that something is not there which is there is no error: a wallet believes it.
    if (status !== 200) return status === 404 ? "wrong" : "error";
    if (isCall(question)) return body.equals(Buffer.from(rightBody(registry, question, 0))) ? "right" : "wrong";
    const version = versionIn(body);
    if (version === undefined || version > versionAt(registry, answered.at + SLACK)) return "wrong";
    if (!body.equals(this.bodyOf(registry, question, version))) return "wrong";
    return this.oldestAllowed(answered) > version ? "stale" : "right";
  }

  /** The version that was current as long ago as the answer may be old. */
  private oldestAllowed({ registry, question, sentAt, purgedAt }: Answered): number {
    const fails = this.day.faults.some(
      ({ name, from, to, ...fault }) =>
        fault.registry === registry.number && FAILING.has(name) && sentAt >= from && sentAt < to + RECOVERY,
    );
    const fresh = registry.maxAge ?? TTL[question.kind as keyof typeof TTL];
    const allowed = fresh + (fails ? STALE.onErrors : STALE.whileRefreshed);
    const byAge = versionAt(registry, sentAt - allowed * 1_000 - registry.latency - SLACK);
    if (purgedAt === undefined || sentAt < purgedAt + PURGE_WITHIN) return byAge;
    return Math.max(byAge, versionAt(registry, purgedAt));
  }

  private bodyOf(registry: Registry, question: Question, version: number): Buffer {
    const key = `${registry.number} ${version} ${pathOf(registry, question)}`;
    const known = this.bodies.get(key) ?? Buffer.from(rightBody(registry, question, version));
    if (this.bodies.size === 5_000) this.bodies.clear();
    this.bodies.set(key, known);
    return known;
  }
}

/** The version that a metadata body says it is of: in the first instrument, or at the end of an info. */
function versionIn(body: Buffer): number | undefined {
  const said = /"totalSupply":"([0-9]+)\.|"revision":([0-9]+)\}/.exec(body.toString("latin1", 0, 600));
  return said === null ? undefined : Number(said[1] ?? said[2]);
}
