import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { parseKeys } from "../../../src/config/keys-file.ts";

test("a hundred thousand keys are read, one more is too many", () => {
  const lines = Array.from({ length: 100_000 }, (_, i) => {
    return `{"name":"client-${i}","tier":"wallet","digest":"sha256:${randomBytes(32).toString("hex")}"}\n`;
  });
  expect(parseKeys(lines.join(""), ["wallet"]).keys).toHaveLength(100_000);
  const { keys, problems } = parseKeys(`${lines.join("")}${lines[0]!}`, ["wallet"]);
  expect(keys).toEqual([]);
  expect(problems.map(({ line, message }) => [line, message])).toEqual([
    [100_001, "is beyond 100000 keys, the most that a file may have"],
  ]);
});
