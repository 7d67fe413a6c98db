import { type Static, Type } from "typebox";
import { Compile } from "typebox/compile";
import { UsageError } from "./command-line.ts";
import { askGateway, type OperationsFlags } from "./operations-client.ts";
import { describeEntry, describeOutlook } from "../words/explanation.ts";
import { terminalWidth, wrap } from "./table.ts";
import { printLine } from "./terminal.ts";

const Entry = Type.Object({
  tier: Type.String(),
  purged: Type.Boolean(),
  status: Type.Number(),
  variant: Type.String(),
  etag: Type.Optional(Type.String()),
  bytes: Type.Number(),
  age: Type.Number(),
  lifetime: Type.Number(),
  freshFor: Type.Number(),
  revalidateFor: Type.Number(),
  usableFor: Type.Number(),
  origins: Type.Object({
    lifetime: Type.String(),
    staleWhileRevalidate: Type.String(),
    staleIfError: Type.String(),
  }),
});

/** What is read of what `/explain` answers: an older or newer gateway may say less or more. */
const PathExplanation = Type.Object({
  upstream: Type.String(),
  admin: Type.Optional(Type.String()),
  operation: Type.String(),
  cached: Type.Boolean(),
  tiers: Type.Optional(Type.Array(Type.String())),
  reason: Type.Optional(Type.String()),
  explanation: Type.Optional(
    Type.Object({
      policy: Type.Object({ ttl: Type.Number(), notFoundTtl: Type.Optional(Type.Number()), maxTtl: Type.Number() }),
      epoch: Type.Optional(Type.String()),
      entries: Type.Array(Entry),
      lastSkip: Type.Optional(Type.Object({ reason: Type.String(), ago: Type.Number() })),
      fetching: Type.Boolean(),
    }),
  ),
});
const answerCheck = Compile(PathExplanation);

/** `explain URL`: says what a running gateway has of a URL of its public listener, and would do with a request. */
export function explain(url: string, flags: OperationsFlags): Promise<number> {
  // A fragment never reaches a server.
  const path = url.replace(/^https?:\/\/[^/?#]*/i, "").replace(/#.*$/s, "");
  if (!path.startsWith("/")) throw new UsageError("explain takes a URL or a path of the gateway");
  return askGateway(flags, { path: `explain?path=${encodeURIComponent(path)}` }, (answer) => {
    if (!answerCheck.Check(answer)) return false;
    for (const line of linesOf(answer)) for (const part of wrap(line, terminalWidth(), "    ")) printLine(part);
    return true;
  });
}

function linesOf(answer: Static<typeof PathExplanation>): string[] {
  const { upstream, admin, operation, tiers, reason, explanation } = answer;
  return [
    `registry: ${upstream}${admin === undefined ? "" : `, admin ${admin}`}`,
    `operation: ${operation}`,
    ...(tiers === undefined ? [] : [`clients of these tiers may ask: ${tiers.join(", ") || "none"}`]),
    "",
    ...(explanation === undefined
      ? [`Never answered from the cache: ${reason ?? "no reason given"}.`]
      : describe(explanation)),
  ];
}

function describe(explanation: NonNullable<Static<typeof PathExplanation>["explanation"]>): string[] {
  const lines = describeOutlook(explanation);
  for (const [i, entry] of explanation.entries.entries()) lines.push("", ...describeEntry(entry, i + 1));
  return lines;
}
