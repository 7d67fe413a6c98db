import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { parseKeys } from "../../src/config/keys-file.ts";

test("a hundred thousand keys are read, one more is too many", () => {
  const list = Array.from({ length: 100_000 }, (_, i) => {
    return `- name: client-${i}\n  tier: wallet\n  digest: sha256:${randomBytes(32).toString("hex")}\n`;
  });
  expect(parseKeys(list.join(""), ["wallet"]).keys).toHaveLength(100_000);
  const { keys, problems } = parseKeys(`${list.join("")}${list[0]!}`, ["wallet"]);
  expect(keys).toEqual([]);
  expect(problems.map(({ message }) => message)).toEqual(["has more than 100000 keys"]);
});
