import { LIST, PREFIX } from "../support/endpoints.ts";
import { type Answer, expectNoAddress } from "../support/http.ts";
import type { Call, History, Setting, Told } from "./history.ts";
import { type Knobs, type Mood, NAMES, STRANGER, type WorldPlan } from "./plan.ts";
import { adminOf, listed } from "./source.ts";

/** What the contract says of answers and of calls, in words of the world that has seen all of them. */

export interface Seen {
  readonly plan: WorldPlan;
  readonly history: History;
  isRedisTroubled(within?: number): boolean;
}

/** What passes between a node's answer and the gateway's clock, on a machine that is busy with other things. */
const slackOf = ({ hasRedis }: WorldPlan): number => (hasRedis ? 1_500 : 250);

/** What the gateway has not read yet it cannot obey. Time may be moved by a step, of 100 ms, before it has. */
const UNREAD = 150;

/** After this a registry that is well is used again: a pause lasts a minute at most, an info is asked again within 10 s. */
const FORGIVEN = 75_000;

/** One place of a request that names a registry. */
interface Naming {
  readonly registry: number;
  readonly isAlias: boolean;
  readonly text: string;
}

function namingsOf({ ask }: Told): Naming[] {
  const { by, registry, operation, also } = ask;
  const alias = (at: number): Naming => ({ registry: at, isAlias: true, text: NAMES[at] ?? "nobody" });
  const party = (at: number): Naming => ({ registry: at, isAlias: false, text: adminOf(at) });
  const hasBody = operation.includes("factory") || operation === "draft_post";
  const isNamedByHeader = by === "header" || by === "header-alias";
  return [
    ...(operation === "extra" || by === "alias" || by === "base" ? [alias(registry)] : []),
    ...(operation !== "extra" && by === "party" ? [party(registry)] : []),
    ...(by === "header" ? [party(registry)] : by === "header-alias" ? [alias(registry)] : []),
    ...(also?.where === "header" && !isNamedByHeader ? [party(also.registry)] : []),
    ...(also?.where === "body" && hasBody ? [party(also.registry)] : []),
  ];
}

/** Parties that a registry's nodes have named to a replica. */
function namedBy(registry: number, replica: number, { history }: Seen): Set<string> {
  const infos = history.calls.filter((call) => call.registry === registry && call.replica === replica);
  return new Set(infos.flatMap(({ named, sent }) => (sent === undefined ? [] : (named ?? []))));
}

function mayMean(
  naming: Naming,
  at: number,
  { told, setting, seen }: { told: Told; setting: Setting; seen: Seen },
): boolean {
  if (!setting[at]!.isEnabled) return false;
  if (naming.isAlias || naming.registry === at) return naming.registry === at;
  return !setting[at]!.isPinned && namedBy(at, told.replica, seen).has(adminOf(naming.registry));
}

/** The registries that may answer a request. */
export function candidatesOf(told: Told, seen: Seen): Set<number> {
  const namings = namingsOf(told);
  const found = new Set<number>();
  for (const setting of told.settings) {
    const enabled = [...setting.keys()].filter((at) => setting[at]!.isEnabled);
    const isPlain = namings.length === 0;
    for (const at of enabled) {
      const isMeant = isPlain
        ? enabled.length === 1 || (seen.plan.plain === "ash" && at === 0)
        : namings.every((naming) => mayMean(naming, at, { told, setting, seen }));
      if (isMeant || (isPlain && isMerged(told, setting, seen))) found.add(at);
    }
  }
  return found;
}

/** Whether it is answered by all registries together. */
function isMerged(told: Told, setting: Setting, { plan }: Seen): boolean {
  if (namingsOf(told).length > 0 || plan.plain !== "aggregate") return false;
  const isListing = told.ask.operation === "instruments" || told.ask.operation === "instrument";
  return isListing && setting.filter(({ isEnabled }) => isEnabled).length > 1;
}

/** @returns what is wrong with the answer to a request */
export function judgeTold(told: Told, seen: Seen): string[] {
  const { answer, failure, path, id } = told;
  const problems: string[] = [];
  const blame = (text: string): void =>
    void problems.push(
      `${path} at replica ${told.replica}: ${text}${answer === undefined ? "" : ` (${answer.status} ${answer.text.slice(0, 200)})`}`,
    );
  if (answer === undefined) blame(`no answer: ${failure ?? "at its deadline"}`);
  else if (!answer.isComplete) blame("the answer was cut off");
  else if (answer.headers["x-request-id"] !== id) blame("the answer has another request's id");
  else if (answer.code === undefined) judgeBytes(told, answer, { seen, blame });
  else judgeRefusal(told, answer, { seen, blame });
  return problems;
}

interface Judging {
  readonly seen: Seen;
  readonly blame: (text: string) => void;
}

/** Refusals that are about the request itself, each where it is right. */
function isRightToRefuse(told: Told, code: string, seen: Seen): boolean {
  const namings = namingsOf(told);
  const isAnyOpen = told.settings.some((setting) => setting.some(({ isEnabled, isPinned }) => isEnabled && !isPinned));
  const isNobody = ({ registry }: Naming): boolean =>
    registry === STRANGER || told.settings.some((setting) => !setting[registry]!.isEnabled);
  switch (code) {
    case "no_such_path":
      return namings.some((naming) => naming.isAlias && isNobody(naming));
    case "admin_missing":
      return namings.length === 0;
    case "admin_disagreement":
      return new Set(namings.map(({ registry }) => registry)).size > 1 || (namings.length > 1 && isAnyOpen);
    case "admin_unknown":
      return namings.some(isNobody) || isAnyOpen;
    case "admin_not_known_yet":
    case "upstream_disabled":
      return isAnyOpen;
    case "instrument_ambiguous":
    case "instrument_unknown":
    case "invalid_page_token":
      return told.settings.some((setting) => isMerged(told, setting, seen));
    default:
      return false;
  }
}

const NAMED = ["upstream_down", "wrong_admin", "upstream_paused", "nodes_disagree", "cache_only", "upstream_disabled"];

function judgeRefusal(told: Told, answer: Answer, { seen, blame }: Judging): void {
  const code = answer.code!;
  const { error, requestId, code: inBody } = answer.json as Record<string, unknown>;
  if (!String(error).startsWith("registry-gateway: ") || requestId !== told.id || inBody !== code)
    return blame("an error in another form than ours");
  try {
    expectNoAddress(answer);
  } catch {
    return blame("an error that names an address");
  }
  if (code === "admin_disagreement" && namingsOf(told).filter(({ text }) => String(error).includes(text)).length < 2)
    return blame("a disagreement that does not name both");
  if (isRightToRefuse(told, code, seen)) return;
  const candidates = [...candidatesOf(told, seen)];
  const right = candidates.filter((at) => isJustified(told, { code, at, seen }));
  if (right.length === 0) return blame(`${code} without a reason`);
  if (NAMED.includes(code) && !right.some((at) => String(error).includes(`"${NAMES[at]!}"`)))
    blame(`${code} does not name the registry`);
}

/** Whether what has happened to a registry is a reason for a refusal. */
function isJustified(told: Told, { code, at, seen }: { code: string; at: number; seen: Seen }): boolean {
  const { history, plan } = seen;
  const sinceOf = (within: number): number => (plan.hasRedis ? -Infinity : told.began.at - within);
  const was = (kinds: readonly Mood["kind"][], within = FORGIVEN): boolean => history.wasIn(at, kinds, sinceOf(within));
  const knobs = told.settings.map((setting) => setting[at]!);
  const isLimited = (): boolean => hasReachedLimit(told, at, seen);
  const late = ["slow", "hangs", "closed", "closes", "resets"] as const;
  switch (code) {
    case "cache_only":
      return knobs.some(({ isCacheOnly, isPinned }) => isCacheOnly && isPinned);
    case "rate_limited":
      return isLimited();
    case "no_such_version":
      return was(["fails"]) && told.ask.operation.endsWith("_v2");
    case "upstream_paused":
      return was(["limited"]);
    case "wrong_admin":
      return was(["lies"], 2 * FORGIVEN);
    case "queue_full":
    case "queue_timeout":
      return knobs.some(({ concurrency }) => concurrency < 64);
    case "upstream_timeout":
      return was(late) || isLimited();
    case "nodes_disagree":
      return knobs.some(({ agreement }) => agreement > 1) && history.wasIn(at, "trouble", sinceOf(FORGIVEN));
    case "overloaded":
      return true;
    default:
      return code.startsWith("upstream_") && history.wasIn(at, "trouble", sinceOf(2 * FORGIVEN));
  }
}

/** Registries that share a limit, and the limit. */
function limitOf(at: number, { registries, isGrouped }: WorldPlan) {
  const members = isGrouped && at < 2 ? [0, 1].filter((each) => each < registries.length) : [at];
  return { members, rate: registries[members[0]!]!.rate };
}

function hasReachedLimit(told: Told, at: number, seen: Seen): boolean {
  const { plan, history } = seen;
  const { members, rate } = limitOf(at, plan);
  if (rate === undefined) return false;
  const since = told.began.at - 1.2 * rate.per - 500;
  const counted = history.calls.filter(
    (call) =>
      members.includes(call.registry) && call.arrived.at >= since && (plan.hasRedis || call.replica === told.replica),
  );
  const part = seen.isRedisTroubled(rate.per + 5_000)
    ? Math.max(1, Math.floor(rate.requests / plan.replicas))
    : rate.requests;
  // A call that met a closed door was counted, and seen by nobody; so was a grant whose waiter left as it came.
  return counted.length + 1 >= part || members.some((each) => history.wasIn(each, "trouble", since - 15_000));
}

function judgeBytes(told: Told, answer: Answer, judging: Judging): void {
  const { seen, blame } = judging;
  const merged = told.settings.filter((setting) => isMerged(told, setting, seen));
  // Within a reload that leaves one registry, or brings a second one, either form is right: the merged one has admins.
  const isSole = merged.length < told.settings.length && !answer.text.includes('"admin":');
  if (merged.length > 0 && !isSole && answer.status === 200) return judgeMerged(told, answer, judging);
  const call = callOf(answer.text, seen);
  if (call === undefined) return blame("bytes that no registry gave");
  if (!candidatesOf(told, seen).has(call.registry))
    return blame(`the answer of ${NAMES[call.registry]!}, another registry`);
  const { operation } = told.ask;
  if (operation !== "info" && operation !== "instruments" && operation !== "instrument")
    return judgeOwnCall(told, call, judging);
  const isListed = operation === "instrument" && call.operation === "instruments";
  if (isListed) {
    if (/[?&]pageToken=/.test(call.url) || answer.text !== JSON.stringify(listed(told.ask.id, call.stamp)))
      return blame("not the instrument that its page has");
  } else if (answer.text !== call.bytes || answer.status !== call.status) return blame("not the registry's bytes");
  else if (!isSameQuestion(told, call)) return blame(`the answer to another question, ${call.url}`);
  const namesAdmin = namingsOf(told).find(({ isAlias }) => !isAlias);
  if (
    operation === "info" &&
    namesAdmin !== undefined &&
    call.status === 200 &&
    call.named !== adminOf(namesAdmin.registry)
  )
    return blame("the info of another admin");
  judgeTimes(told, call, { ...judging, answer, isListed });
}

function callOf(text: string, { history }: Seen): Call | undefined {
  const stamp = Number(/"stamp":(\d+)/.exec(text)?.[1]);
  return history.calls.findLast((call) => call.stamp === stamp);
}

function isSameQuestion({ ask }: Told, { url, operation }: Call): boolean {
  if (ask.operation !== operation) return false;
  if (ask.operation === "instrument") return url === `${LIST}/${encodeURIComponent(ask.id)}`;
  if (ask.operation === "info") return true;
  const query = new URL(url, "http://registry").searchParams;
  const sizes = ask.size === undefined ? [null, "1000"] : [String(ask.size)];
  return sizes.includes(query.get("pageSize")) && query.get("pageToken") === (ask.token ?? null);
}

/** What is never cached: the answer to this very request, and nobody else's. */
function judgeOwnCall(told: Told, call: Call, { seen, blame }: Judging): void {
  if (call.requestId !== told.id) return blame(`the answer to another request, ${String(call.requestId)}`);
  if (told.answer!.text !== call.bytes || told.answer!.status !== call.status) return blame("not the registry's bytes");
  if (seen.history.told.some((other) => other !== told && other.answer?.text === call.bytes)) blame("an answer twice");
}

/** Instruments of the merged listing, or the one that was looked for, each with its admin. */
function judgeMerged(told: Told, answer: Answer, judging: Judging): void {
  const { seen, blame } = judging;
  const whole = answer.json as { instruments?: Record<string, unknown>[] };
  for (const { admin, ...instrument } of whole.instruments ?? [answer.json as Record<string, unknown>]) {
    const call = callOf(JSON.stringify(instrument), seen);
    if (call === undefined) return blame("an instrument that no registry gave");
    const isOfAdmin = adminOf(call.registry) === admin || namedBy(call.registry, told.replica, seen).has(String(admin));
    if (!isOfAdmin) return blame(`an instrument of ${NAMES[call.registry]!} under another admin`);
    if (JSON.stringify(instrument) !== JSON.stringify(listed(String(instrument["id"]), call.stamp)))
      return blame("an instrument that is not as its registry gave it");
    judgeTimes(told, call, {
      ...judging,
      answer: undefined,
      isListed: call.operation === "instruments" && told.ask.operation === "instrument",
    });
  }
}

/** How long what a registry answered may be used: fresh, and stale besides, over all that was configured. */
function lifetimeOf({ registry, operation, status }: Call, { plan, history }: Seen, isListed: boolean) {
  const most = (of: (knobs: Knobs) => number): number => Math.max(...history.knobs[registry]!.map(of));
  const { control } = plan.registries[registry]!;
  if (status === 404) return { fresh: most(({ notFound }) => notFound), refresh: 0, error: 0 };
  if (control.isNoStore === true) return { fresh: 0, refresh: 0, error: 0 };
  const configured = most(({ ttl }) => ttl[operation as keyof Knobs["ttl"]]);
  const fresh = control.maxAge === undefined ? configured : control.maxAge * 1_000;
  if (isListed)
    return {
      fresh: Math.min(
        fresh,
        most(({ ttl }) => ttl.instrument),
      ),
      refresh: 0,
      error: 0,
    };
  const window = control.window === undefined ? undefined : control.window * 1_000;
  return {
    fresh,
    refresh: window ?? most((each) => each.staleWhileRevalidate),
    error: window ?? most((each) => each.staleIfError),
  };
}

function judgeTimes(
  told: Told,
  call: Call,
  options: Judging & { answer: Answer | undefined; isListed: boolean },
): void {
  const { seen, blame, answer, isListed } = options;
  const { history, plan } = seen;
  const slack = slackOf(plan);
  const isCacheOnly = told.settings.some((setting) => setting[call.registry]!.isCacheOnly);
  const { fresh, refresh, error } = lifetimeOf(call, seen, isListed);
  const age = told.began.at - Math.max(call.sent!.at, ...call.renewed.map(({ at }) => at));
  const isKept = call.status === 200 || (call.status === 404 && call.operation === "instrument");
  if (!isKept && age > slack) return blame(`an error of ${Math.round(age)} ms ago`);
  if (isKept && !isCacheOnly && age > fresh + Math.max(refresh, error) + slack)
    return blame(`bytes of ${Math.round(age)} ms ago, which may be used for ${fresh} + ${Math.max(refresh, error)} ms`);
  if (answer?.cache === "hit" && age > fresh + slack)
    return blame(`a hit of ${Math.round(age)} ms ago, fresh for ${fresh}`);
  const isWell =
    !history.wasIn(call.registry, "trouble", plan.hasRedis ? -Infinity : told.began.at - FORGIVEN) &&
    limitOf(call.registry, plan).rate === undefined;
  if (isKept && !isCacheOnly && isWell && age > fresh + refresh + slack)
    return blame("stale, and the registry is well");
  for (const purge of history.purges) {
    if (purge.registry !== undefined && purge.registry !== call.registry) continue;
    if (call.arrived.seq > purge.began.seq || !holdsFor(purge, told, seen)) continue;
    return blame(
      `asked for before a purge that was answered ${Math.round(told.began.at - purge.ended.at)} ms before the request`,
    );
  }
}

/** Whether a purge counts for a request: at once where it was made, 250 ms later at the others, where Redis was well all the time. */
function holdsFor(purge: History["purges"][number], { replica, began }: Told, seen: Seen): boolean {
  if (purge.replica === replica) return began.seq > purge.ended.seq;
  const since = seen.history.now() - purge.began.at;
  return seen.plan.hasRedis && !seen.isRedisTroubled(since + 3_000) && began.at > purge.ended.at + 250;
}

const judged = new WeakMap<History, number>();

/** @returns what is wrong with the calls that nodes have got since the last time */
export function judgeCalls(seen: Seen): string[] {
  const { history } = seen;
  const from = judged.get(history) ?? 0;
  judged.set(history, history.calls.length);
  const problems = history.calls.slice(from).flatMap((call) => {
    const found = [judgeMeaning(call, seen), judgeProof(call, seen), judgeLimit(call, seen), judgeOverlap(call, seen)];
    return found.flatMap((problem) =>
      problem === undefined
        ? []
        : `${NAMES[call.registry]!} node ${call.node} got ${call.url} of replica ${call.replica}: ${problem}`,
    );
  });
  return problems;
}

function judgeMeaning(call: Call, seen: Seen): string | undefined {
  const told = seen.history.told.find(({ id }) => id === call.requestId);
  if (told === undefined) return call.operation === "info" ? undefined : "nobody asked for this";
  const { ask, body = "", settings } = told;
  if (!candidatesOf(told, seen).has(call.registry))
    return `${told.path} (header ${JSON.stringify(ask.also)}) means another registry`;
  if (settings.every((setting) => setting[call.registry]!.isCacheOnly && setting[call.registry]!.isPinned))
    return "it is in cache-only mode";
  if (call.body.toString() !== body) return "the body is not the client's";
  const path = told.path.replace(/^(\/base\/[^/]+|\/api\/[^?]*?\/registrars\/[^/]+)(?=\/)/, "").replace(PREFIX, "");
  if (body !== "" && call.url !== path) return `the path is not the client's ${path}`;
  const again = seen.history.calls.filter(({ requestId }) => requestId === call.requestId);
  return call.operation === "pass_through" && again.length > 1 ? "it was passed through twice" : undefined;
}

/** A node is asked only after its info has named the admin, over a connection that has been open since, and not too long ago. */
function judgeProof(call: Call, { history, plan }: Seen): string | undefined {
  const { registry, node, replica, arrived, operation, connectedAt } = call;
  if (operation === "info" && call.requestId === undefined) return undefined;
  const all = history.knobs[registry]!;
  const proofEvery = Math.max(...all.map((knobs) => knobs.proofEvery)) + slackOf(plan);
  const isSame = (other: { registry: number; node: number; replica: number }): boolean =>
    other.registry === registry && other.node === node && other.replica === replica;
  const isRight = ({ named }: Call): boolean => named === adminOf(registry) || !all.every(({ isPinned }) => isPinned);
  const infos = history.calls.filter(
    (each) => isSame(each) && each.named !== undefined && (each.sent?.seq ?? Infinity) < arrived.seq,
  );
  const last = infos.at(-1);
  if (last === undefined) return "it has named no admin yet";
  const wrong = infos.findLast((info) => !isRight(info) && info.sent!.at < arrived.at - UNREAD);
  const good = infos.findLast((info) => isRight(info) && info.arrived.seq > (wrong?.arrived.seq ?? 0));
  if (good === undefined) return "it has named another admin";
  const age = arrived.at - good.sent!.at;
  if (age > proofEvery) return `its admin was named ${Math.round(age)} ms ago`;
  if (age <= 1_000 + slackOf(plan)) return undefined;
  // What is accepted right behind it was opened before.
  const isParted = history.partings.some(
    ({ moment, ...parting }) => isSame(parting) && moment.seq > good.sent!.seq && moment.at < connectedAt.at - UNREAD,
  );
  return isParted ? "no connection has been open since it named its admin" : undefined;
}

/** No window has more calls than the limit. */
function judgeLimit(call: Call, seen: Seen): string | undefined {
  const { plan, history } = seen;
  const { members, rate } = limitOf(call.registry, plan);
  if (rate === undefined) return undefined;
  // Redis's clock is another: calls travel, and the machine is busy.
  const window = plan.hasRedis ? rate.per * 0.8 : rate.per;
  const most = plan.hasRedis ? mostWithRedis(call.arrived.at, rate, seen) : rate.requests;
  const counted = history.calls.filter(
    (other) =>
      members.includes(other.registry) &&
      other.arrived.seq <= call.arrived.seq &&
      other.arrived.at > Math.max(call.arrived.at - window, history.sharedSince) &&
      (plan.hasRedis || other.replica === call.replica),
  );
  return counted.length > most ? `${counted.length} calls within ${rate.per} ms, and ${most} are allowed` : undefined;
}

/** Each time that Redis comes or goes there may be as many again. */
function mostWithRedis(
  at: number,
  { requests, per }: { requests: number; per: number },
  { plan, history }: Seen,
): number {
  const since = at - per - 1_000;
  const changes = history.redisTroubles
    .flatMap(({ from, until }) => [from, until])
    .filter((each) => each > since && each < Infinity);
  const isAway = history.redisTroubles.some(({ from, until }) => from < at && until > since);
  return isAway ? Math.max((1 + changes.length) * requests, plan.replicas) : requests;
}

/** One fetch at a time of what is stored, but for hedges and what a purge parts. */
function judgeOverlap(call: Call, seen: Seen): string | undefined {
  const { plan, history } = seen;
  const { registry, replica, url, requestId, arrived } = call;
  const isStored = ["info", "instruments", "instrument"].includes(call.operation) && requestId !== undefined;
  const all = history.knobs[registry]!;
  const { control } = plan.registries[registry]!;
  const mayRepeat = control.isNoStore === true || all.some(({ hedgeAfter, ttl }) => hedgeAfter > 0 || ttl.info === 0);
  const troubles = [
    "resets",
    "hangs",
    "closed",
    "closes",
    "lags",
    "garbage",
    "cuts",
    "no-info",
    "fails",
    "lies",
    "limited",
  ] as const;
  if (!isStored || mayRepeat || history.wasIn(registry, troubles, arrived.at - 10_000)) return undefined;
  if (plan.hasRedis && seen.isRedisTroubled(Infinity)) return undefined;
  const isOpen = (other: Call): boolean => other.closed === undefined || other.closed.at > arrived.at + 150;
  const other = history.calls.find(
    (each) =>
      each !== call &&
      each.registry === registry &&
      each.url === url &&
      each.requestId !== undefined &&
      isOpen(each) &&
      each.arrived.seq < arrived.seq &&
      (plan.hasRedis || each.replica === replica),
  );
  if (other === undefined || other.arrived.at > arrived.at - 150) return undefined;
  const isParted =
    history.purges.some(({ began }) => began.seq > other.arrived.seq && began.seq < arrived.seq) ||
    history.turns.some(({ seq }) => seq > other.arrived.seq && seq < arrived.seq);
  return isParted ? undefined : "the same is being fetched already";
}
