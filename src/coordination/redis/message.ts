/** What replicas tell each other. Each is told once and may be lost: nothing may depend on its arrival but speed. */
export type Message =
  /** The scope of the partition behind `tag` has a new epoch since `at` (Redis's clock). */
  | {
      readonly kind: "epoch";
      readonly tag: string;
      readonly scope: string;
      readonly epoch: string;
      readonly at: number;
    }
  /** The epochs behind `tag` are to be read: a replica found them lost or behind, and mended them as far as it knew. */
  | { readonly kind: "look"; readonly tag: string }
  /** A token was issued by a page with other contents than before. */
  | { readonly kind: "chain"; readonly tag: string; readonly chain: string; readonly digest: string }
  | { readonly kind: "lease"; readonly name: string; readonly outcome: string }
  /** A replica took a call of the rate limit behind `key` that is beyond its share of it. */
  | { readonly kind: "borrowed"; readonly key: string; readonly by: string; readonly per: number }
  /** What a process announced to all. */
  | { readonly kind: "news"; readonly news: string };

/** The message in `text`, or undefined: other versions of this program may say other things. */
export function parseMessage(text: string): Message | undefined {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!Array.isArray(json)) return undefined;
  const parts: readonly unknown[] = json;
  const [kind, first, second, third, at] = parts;
  if (kind === "look" && typeof first === "string") return { kind, tag: first };
  if (kind === "news" && typeof first === "string") return { kind, news: first };
  if (typeof first !== "string" || typeof second !== "string") return undefined;
  if (kind === "lease") return { kind, name: first, outcome: second };
  if (kind === "borrowed") return Number(third) > 0 ? { kind, key: first, by: second, per: Number(third) } : undefined;
  if (typeof third !== "string") return undefined;
  if (kind === "chain") return { kind, tag: first, chain: second, digest: third };
  if (kind === "epoch") return { kind, tag: first, scope: second, epoch: third, at: Number(at) };
  return undefined;
}
