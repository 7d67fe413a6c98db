import { expect, test } from "vitest";
import { parseKeys } from "../../../src/config/keys-file.ts";

const DIGEST = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU";
const OTHER = DIGEST.replace("4", "5");
const line = (more: object = {}): string => JSON.stringify({ name: "wallet", tier: "gold", digest: DIGEST, ...more });

test("a keys file has a key a line, may have blank lines, and ends as it likes", () => {
  const text = `\n${line()}\r\n\n  ${line({ name: "b", digest: OTHER, expires: "2027-01-31T00:00:00Z" })}  `;
  expect(parseKeys(text, ["gold"])).toEqual({
    problems: [],
    keys: [
      { name: "wallet", tier: "gold", digest: DIGEST },
      { name: "b", tier: "gold", digest: OTHER, expires: Date.UTC(2027, 0, 31) },
    ],
  });
  expect(parseKeys("\n")).toEqual({ keys: [], problems: [] });
});

test.each([
  ["2027-01-31T00:00:00.5Z", Date.UTC(2027, 0, 31, 0, 0, 0, 500)],
  ["2027-01-31T02:00:00+02:00", Date.UTC(2027, 0, 31)],
])("a key expires at %s", (expires, expected) => {
  expect(parseKeys(line({ expires })).keys[0]?.expires).toBe(expected);
});

test.each([
  ["", 1, "is empty"],
  ["name,tier\n", 1, "must be one JSON object"],
  ["[]", 1, "must be one JSON object"],
  [`${line()}\n${line()}`, 2, "the same key is on line 1"],
  [`\n\n${line({ tire: 1 })}`, 3, 'unknown member tire; did you mean "tier"?'],
  [line({ name: "" }), 1, "name must be 1 to 128 characters"],
  [line({ name: " a" }), 1, "name must be"],
  [line({ name: 5 }), 1, "name must be"],
  [line({ name: "a\u202eb" }), 1, "name must be"],
  [line({ name: "x".repeat(129) }), 1, "name must be"],
  [line({ name: "rgk_0123" }), 1, "name holds an API key"],
  [line({ tier: "a.b" }), 1, "tier must be the name of a tier"],
  [line({ tier: "glod" }), 1, "there is no such tier: clients.tiers has gold, silver"],
  [line({ digest: `sha256:${"a".repeat(64)}` }), 1, "digest must be the 43 characters"],
  [line({ digest: undefined }), 1, "digest must be"],
  [line({ expires: "tomorrow" }), 1, "expires must be a time such as"],
  [line({ expires: 1_900_000_000 }), 1, "expires must be a time such as"],
  [line({ expires: "2027-13-01T00:00:00Z" }), 1, "expires is no time that there is"],
  [line({ name: "x".repeat(5_000) }), 1, "is longer than 4 KiB"],
])("%j is refused at its line", (text, at, message) => {
  const { keys, problems } = parseKeys(text, ["gold", "silver"]);
  expect(keys).toEqual([]);
  expect(problems).toEqual([{ line: at, message: expect.stringMatching(message.replaceAll("?", "\\?")) as string }]);
});

test("every bad line is named, up to a hundred, without a digest or a key, also where one stands as the tier", () => {
  const bad = [line({ digest: "rgk_secret" }), line({ tier: "rgk_secret" })];
  const { problems } = parseKeys(Array.from({ length: 300 }, (_, i) => bad[i % 2]).join("\n"), ["gold"]);
  expect(problems).toHaveLength(100);
  expect(JSON.stringify(problems)).not.toContain("secret");
});
