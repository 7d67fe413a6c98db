import { isSuccess } from "../bodies/answer.ts";
import { AT_ONCE, type BodyReader } from "../bodies/body-reader.ts";
import { type Meaning, meaningOf, mergeListing } from "../bodies/meaning.ts";
import { GatewayError } from "../errors.ts";
import type { Operation } from "../spec/operations.ts";
import type { Poll, UpstreamAnswer, UpstreamCall } from "./call.ts";

/** Pages of one node that are read to compare its listing with others'. */
const MOST_PAGES = 40;

export interface VoteParts {
  readonly upstream: string;
  readonly bodies: BodyReader;
  /** Asks the node that `call.poll` lets be asked. */
  readonly ask: (call: UpstreamCall) => Promise<UpstreamAnswer>;
}

/** What one node says to a question. */
export interface Vote {
  /** The same for all that say the same. */
  readonly key: string;
  readonly meaning: Meaning;
  readonly node: number;
  /** Its answer to the call; undefined where its listing has no such page. */
  readonly answer: UpstreamAnswer | undefined;
}

/** What this answer says; the answer itself where it says nothing of what was asked, and another node may. */
export async function voteOf(
  parts: VoteParts,
  operation: Operation,
  answer: UpstreamAnswer,
): Promise<Vote | UpstreamAnswer> {
  const { status, body, node } = answer;
  if (isBusy(status)) return answer;
  const said = isSuccess(status) ? await readMeaning(parts, operation, body) : {};
  return { ...keyed({ ...said, status: String(status) }), node, answer };
}

/**
 * What the node that `call.poll` lets be asked lists from end to end, with the page that the call asks for: nodes may list the
 * same and cut pages in ways of their own.
 *
 * @throws GatewayError as a call; 502 for a listing of more than {@link MOST_PAGES} pages
 */
export async function listingVote(parts: VoteParts, call: UpstreamCall): Promise<Vote | UpstreamAnswer> {
  const wanted = tokenIn(call.path);
  let poll: Poll = call.poll!;
  let token: string | undefined;
  let meaning: Meaning = {};
  let answer: UpstreamAnswer | undefined;
  for (let pages = 0; pages < MOST_PAGES; pages += 1) {
    const page = await parts.ask({ ...call, path: withToken(call.path, token), poll });
    const vote = await voteOf(parts, call.operation, page);
    if (!isVote(vote) || (!isSuccess(page.status) && token === wanted)) return vote;
    if (!isSuccess(page.status)) throw unreadable(parts, `answered ${page.status} to a page token of its own`);
    if (token === wanted) answer = page;
    meaning = mergeListing(meaning, vote.meaning);
    const listed = page.content?.page;
    token = typeof listed === "object" ? listed.nextPageToken : undefined;
    if (token === undefined) return { ...keyed(meaning), node: page.node, answer };
    poll = { asked: new Set(), only: page.node, node: page.node };
  }
  throw unreadable(parts, "lists more pages than can be compared");
}

function unreadable({ upstream }: VoteParts, why: string): GatewayError {
  return new GatewayError("upstream_invalid", `a node of upstream "${upstream}" ${why}`);
}

/** The same key for the same parts, in whatever order they were found. */
function keyed(meaning: Meaning): Pick<Vote, "key" | "meaning"> {
  const names = Object.keys(meaning).toSorted();
  return { key: JSON.stringify(names.map((name) => [name, meaning[name]])), meaning };
}

const TOKEN = "pageToken=";

function tokenIn(path: string): string | undefined {
  const parameter = parametersOf(path).find((each) => each.startsWith(TOKEN));
  return parameter === undefined ? undefined : decodeURIComponent(parameter.slice(TOKEN.length));
}

function withToken(path: string, token: string | undefined): string {
  const others = parametersOf(path).filter((each) => !each.startsWith(TOKEN));
  const query = [...others, ...(token === undefined ? [] : [TOKEN + encodeURIComponent(token)])].join("&");
  return path.split("?", 1)[0]! + (query === "" ? "" : `?${query}`);
}

function parametersOf(path: string): readonly string[] {
  return path.split("?")[1]?.split("&") ?? [];
}

/** What an answer means; a large one is read in another thread. */
function readMeaning({ bodies, upstream }: VoteParts, operation: Operation, body: Buffer) {
  if (body.length <= AT_ONCE) return meaningOf(operation, body);
  return bodies.read({ kind: "meaning", operation }, body, { source: upstream });
}

export function isVote(said: Vote | UpstreamAnswer): said is Vote {
  return "key" in said;
}

function isBusy(status: number): boolean {
  return status === 429 || (status > 500 && status < 505);
}
