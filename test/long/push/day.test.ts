import { describe, expect, test } from "vitest";
import { noProxy } from "../../day/contestants/no-proxy.ts";
import { planDay, type Registry } from "../../day/plan.ts";
import { type DayResult, playDay } from "../../day/play.ts";
import { drawPictures, formatReport } from "../../day/report.ts";
import {
  type Answered,
  Judge,
  type Question,
  pathOf,
  PURGE_WITHIN,
  questionOf,
  requestBody,
  rightBody,
  versionAt,
} from "../../day/truth.ts";

const day = planDay(10, 8);
const [first, , big] = day.registries as [Registry, Registry, Registry];
const PAGE: Question = { kind: "page", page: 0 };

describe("the judge", () => {
  /** What is said of the first page of a registry in a version of its metadata, asked for at a moment. */
  function judge(of: Registry, at: number, said: Partial<Answered> & { version?: number } = {}) {
    const { version = versionAt(of, at), question = PAGE, ...others } = said;
    const body = Buffer.from(rightBody(of, question, version));
    const answered = { registry: of, question, sentAt: at, at, status: 200, body, purgedAt: undefined, ...others };
    return new Judge(day).judge(answered).verdict;
  }

  test.each<[kind: string, question: Question]>([
    ["info", { kind: "info" }],
    ["page", { kind: "page", page: 9 }],
    ["instrument", { kind: "instrument", instrument: 30 }],
    ["factory", { kind: "factory", nonce: "ab".repeat(68), instrument: 3 }],
    ["context", { kind: "context", nonce: "cd".repeat(68), instrument: 3 }],
  ])("takes what a registry answers for right: %s", (kind, question) => {
    expect(judge(big, 100_000, { question })).toBe("right");
    expect(questionOf(pathOf(big, question))).toMatchObject({ kind });
    expect(requestBody(big, question) === undefined).toBe(!["factory", "context"].includes(kind));
  });

  test("finds another registry's answer, another page's, one of the future and an altered byte wrong", () => {
    const bodyOf = (of: Registry, page: number) => Buffer.from(rightBody(of, { kind: "page", page }, 1));
    expect(judge(big, 100_000, { body: bodyOf(first, 0) })).toBe("wrong");
    expect(judge(big, 100_000, { body: bodyOf(big, 1) })).toBe("wrong");
    expect(judge(big, 100_000, { version: versionAt(big, 100_000) + 1 })).toBe("wrong");
    expect(judge(big, 100_000, { body: Buffer.from(`${rightBody(big, PAGE, 1)} `) })).toBe("wrong");
    expect(judge(big, 100_000, { body: Buffer.from("<html>") })).toBe("wrong");
    expect(judge(big, 100_000, { status: 404 })).toBe("wrong");
    const question: Question = { kind: "context", nonce: "cd".repeat(68), instrument: 3 };
    const other = Buffer.from(rightBody(big, { ...question, nonce: "ef".repeat(68) }, 0));
    expect(judge(big, 100_000, { question, body: other })).toBe("wrong");
  });

  test("finds no answer and a refusal an error", () => {
    expect(judge(big, 100_000, { status: 0 })).toBe("error");
    expect(judge(big, 100_000, { status: 503 })).toBe("error");
  });

  test("finds a page stale a minute after its version ended, and ten minutes after in a fault of its registry", () => {
    const calm = first.changes.find((at) => at > 200_000)!;
    expect(judge(first, calm + 59_000, { version: versionAt(first, calm) - 1 })).toBe("right");
    expect(judge(first, calm + 62_000, { version: versionAt(first, calm) - 1 })).toBe("stale");
    const down = day.faults.find(({ name }) => name === "registry down")!;
    const late = down.to - 1_000;
    const broken = day.registries[down.registry!]!;
    expect(judge(broken, late, { version: versionAt(broken, down.from) - 1 })).toBe("right");
    expect(judge(first, late, { version: versionAt(first, down.from) - 1 })).toBe("stale");
  });

  test("finds what was there before a purge stale, two seconds after it", () => {
    const purge = day.faults.find(({ name }) => name === "purge")!;
    const version = versionAt(big, purge.from) - 1;
    const at = (sentAt: number) => judge(big, sentAt, { version, purgedAt: purge.from });
    expect(at(purge.from + PURGE_WITHIN - 1)).toBe("right");
    expect(at(purge.from + PURGE_WITHIN + 1)).toBe("stale");
  });
});

describe("a day of five seconds with three registries", () => {
  const short = planDay(5 / 60, 3);
  const errorsOf = ({ wallets }: DayResult) => wallets.outcomes["reads"]!;

  test("goes right without a proxy but for the faults, and a report shows it", async () => {
    // A web page in the place of an answer would reach wallets.
    const faults = short.faults.filter(({ name }) => name !== "registry sends HTML");
    const result = await playDay(noProxy, { ...short, faults });
    const { right, wrong, stale } = errorsOf(result);
    expect(right).toBeGreaterThan(20);
    expect([wrong, stale]).toEqual([0, 0]);
    expect(result.registries.map(({ calls }) => calls > 0)).toEqual([true, true, true]);
    const report = formatReport([result]);
    expect(report).toContain("| reads: wrong | ");
    const pictures = drawPictures([{ ...result, name: "<no> & proxy" }]);
    expect(Object.keys(pictures)).toEqual(["day-faults.svg", "day-latency.svg", "day-calls.svg"]);
    for (const svg of Object.values(pictures)) {
      expect(svg).toMatch(/^<svg [^]*<\/svg>\n$/);
      expect(svg).toContain("&lt;no&gt; &amp; proxy");
      expect(svg).not.toContain("NaN");
    }
  });
});
