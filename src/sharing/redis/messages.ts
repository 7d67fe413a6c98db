import { isObject, parseJson } from "../../json.ts";
import { isEpoch } from "../epochs.ts";
import { MOST_WINDOWS } from "../limits.ts";

/** What replicas say to each other. Each is sent once and may be lost: nothing may depend on its arrival but speed. */
export type Message =
  /** The scope of the partition behind `tag` has a new epoch since `at` (Redis's clock). */
  | {
      readonly kind: "epoch";
      readonly tag: string;
      readonly scope: string;
      readonly epoch: string;
      readonly at: number;
    }
  /** The table behind `tag` is to be read: a replica wrote rows, or mended epochs as far as it knew. */
  | { readonly kind: "look"; readonly tag: string }
  /** A token was issued by a page with other contents than before. */
  | { readonly kind: "chain"; readonly tag: string; readonly chain: string; readonly digest: string }
  | { readonly kind: "lease"; readonly name: string; readonly outcome: string }
  /** A replica took calls of the limit behind `key` that are beyond its share of these windows. */
  | {
      readonly kind: "borrowed";
      readonly key: string;
      readonly by: string;
      readonly windows: readonly { readonly name: string; readonly per: number; readonly count: number }[];
    }
  /** What a process announced to all. */
  | { readonly kind: "news"; readonly event: string };

/** Bytes of one message. What would be longer says only that something changed. */
export const LONGEST_MESSAGE = 65_536;

/** The longest window of a rate limit that the configuration allows, and some. */
const LONGEST_WINDOW = 90_000_000;

/** A message as a list that {@link parseMessage} reads. */
export function formatMessage(message: Message): string {
  const { kind, ...rest } = message;
  return JSON.stringify([kind, ...Object.values(rest)]);
}

/** The message in `text`, or undefined: it is foreign, or of another version of this program. */
export function parseMessage(text: string): Message | undefined {
  const json = parseJson(text);
  if (!Array.isArray(json)) return undefined;
  const parts: readonly unknown[] = json;
  const [kind, first, second, third, at] = parts;
  if (kind === "look" && typeof first === "string") return { kind, tag: first };
  if (kind === "news" && typeof first === "string") return { kind, event: first };
  if (typeof first !== "string" || typeof second !== "string") return undefined;
  if (kind === "lease") return { kind, name: first, outcome: second };
  if (kind === "borrowed") {
    return isBorrowed(third) ? { kind, key: first, by: second, windows: third } : undefined;
  }
  if (typeof third !== "string") return undefined;
  if (kind === "chain") return isChainDigest(third) ? { kind, tag: first, chain: second, digest: third } : undefined;
  if (kind !== "epoch" || !isEpoch(third) || typeof at !== "number" || !Number.isFinite(at)) return undefined;
  return { kind, tag: first, scope: second, epoch: third, at };
}

type Borrowed = Extract<Message, { kind: "borrowed" }>["windows"];

function isBorrowed(windows: unknown): windows is Borrowed {
  if (!Array.isArray(windows) || windows.length > MOST_WINDOWS) return false;
  return windows.every((each: unknown) => {
    if (!isObject(each)) return false;
    const { name, per, count } = each;
    const isLength = typeof per === "number" && per > 0 && per <= LONGEST_WINDOW;
    const isCount = typeof count === "number" && Number.isSafeInteger(count) && count > 0;
    return isLength && isCount && typeof name === "string" && name.length <= 16;
  });
}

/** Whether `text` can stand for the contents of pages, see `ChainsPort.issueChain`. */
export function isChainDigest(text: string): boolean {
  return /^[\w-]{1,64}$/.test(text);
}
