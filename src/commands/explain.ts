import type { ExplainAnswer } from "../operations/answers.ts";
import { describeEntry, describeOutlook } from "../words/explanation.ts";
import { UsageError } from "./command-line.ts";
import { askGateway, type OperationsFlags } from "./operations-client.ts";
import { wrap } from "./table.ts";

/** `explain URL`: says what a running gateway has of a URL of its public listener, and would do with a request. */
export function explain(url: string, flags: OperationsFlags): Promise<number> {
  // A fragment never reaches a server.
  const path = url.replace(/^https?:\/\/[^/?#]*/i, "").replace(/#.*$/s, "");
  if (!path.startsWith("/")) throw new UsageError("explain takes a URL or a path of the gateway");
  return askGateway(flags, { what: "GET explain", query: { path } }, (answer) =>
    linesOf(answer).flatMap((line) => wrap(line)),
  );
}

function linesOf({ upstream, admin, operation, tiers, reason, explanation }: ExplainAnswer): string[] {
  const told =
    explanation === undefined
      ? [`Never answered from the cache: ${reason ?? "no reason given"}.`]
      : [
          ...describeOutlook(explanation),
          ...explanation.entries.flatMap((entry, i) => ["", ...describeEntry(entry, i + 1)]),
        ];
  return [
    `registry: ${upstream}${admin === undefined ? "" : `, admin ${admin}`}`,
    `operation: ${operation}`,
    ...(tiers === undefined ? [] : [`clients of these tiers may ask: ${tiers.join(", ") || "none"}`]),
    "",
    ...told,
  ];
}
