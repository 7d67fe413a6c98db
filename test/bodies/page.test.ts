import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { chainDigest, ListedPage, readPage } from "../../src/bodies/page.ts";
import { CODE_POINT } from "../support/code-point.ts";
import { sampleJson, sampleText } from "../support/sample.ts";
import { jsonText } from "../support/json-text.ts";

const SAMPLES = ["02-instruments.response.amulet.json", "02-instruments.response.page1-of-3.json"];

function pageOf(text: string): ListedPage {
  const body = Buffer.from(text);
  const parts = readPage(body);
  if (typeof parts === "string") throw new Error(parts);
  return new ListedPage(body, parts);
}

const textsOf = (page: ListedPage): string[] => page.ids.map((_id, at) => page.text(at));

interface SamplePage {
  readonly instruments: readonly { readonly id: string; readonly name: string; readonly symbol: string }[];
}

describe("a page", () => {
  test.each(SAMPLES)("is cut into its instruments byte for byte: %s", (name) => {
    const text = sampleText(name);
    const page = pageOf(text);
    const { instruments } = sampleJson(name) as SamplePage;
    expect(page.ids).toEqual(instruments.map(({ id }) => id));
    expect(page.parts.names).toEqual(instruments.map((instrument) => instrument.name));
    expect(page.parts.symbols).toEqual(instruments.map(({ symbol }) => symbol));
    expect(textsOf(page).map((each) => JSON.parse(each) as unknown)).toEqual(instruments);
    for (const each of textsOf(page)) expect(text).toContain(each);
  });

  test("is cut up however it is written, and whatever letters stand before an instrument", () => {
    const instrument = fc.record({ id: fc.string({ unit: CODE_POINT }), x: fc.jsonValue() });
    const instruments = fc.uniqueArray(instrument, { selector: ({ id }) => id });
    fc.assert(
      fc.property(jsonText(fc.record({ a: fc.string({ unit: "grapheme" }), instruments })), ({ text }) => {
        const bytes = Buffer.from(text);
        const parsed = JSON.parse(bytes.toString()) as SamplePage;
        const page = pageOf(text);
        expect(page.ids).toEqual(parsed.instruments.map(({ id }) => id));
        expect(textsOf(page).map((each) => JSON.parse(each) as unknown)).toEqual(parsed.instruments);
      }),
    );
  });

  test("that is mostly something else keeps its instruments alone where it is to be kept", () => {
    const page = pageOf(`{"x":"${"é".repeat(500)}","instruments":[{"id":"A", "n":1.0}, {"id":"Ä"}],"y":[]}`);
    const compact = page.compact();
    expect(compact.body.toString()).toBe('{"id":"A", "n":1.0}{"id":"Ä"}');
    expect([compact.ids, textsOf(compact), compact.parts.digest]).toEqual([page.ids, textsOf(page), page.parts.digest]);
    expect(compact.compact()).toBe(compact);
  });

  test("counts an instrument that it lists twice once, as it stands first", () => {
    const page = pageOf('{"instruments":[{"id":"A","n":1},{"id":"\\u0041","n":2},{"id":"B"}]}');
    expect(textsOf(page)).toEqual(['{"id":"A","n":1}', '{"id":"B"}']);
  });

  test.each([
    ['{"instruments":[{"id":"A"}],"instruments":[{"id":"B"}]}', "gives a key twice"],
    ['{"instruments":[],"nextPageToken":"a","nextPageToken":"b"}', "gives a key twice"],
    ['{"instruments":[{"name":"A"}]}', "without an id"],
    ['{"instruments":[null]}', "without an id"],
    ['{"instruments":[],"nextPageToken":"\\ud800"}', "no text"],
    ['{"instruments":[],"nextPageToken":7}', "no string"],
    [`{"instruments":[${"{},".repeat(50_000)}{}]}`, "more than 50000"],
    ["[]", "no list"],
    ["null", "no list"],
    ["{", "not JSON"],
  ])("is none: %.80s", (text, why) => {
    expect(readPage(Buffer.from(text))).toContain(why);
  });

  test.each([
    ["", undefined],
    [',"nextPageToken":null', undefined],
    [',"nextPageToken":""', undefined],
    [',"nextPageToken":"t"', "t"],
  ])("with %s goes on with %s", (members, token) => {
    expect(pageOf(`{"instruments":[]${members}}`).nextPageToken).toBe(token);
  });

  test("stands for the pages after it by its ids, its token and what was before it, not by supplies", () => {
    const page = (ids: string[], nextPageToken: string, totalSupply = "1") =>
      pageOf(JSON.stringify({ instruments: ids.map((id) => ({ id, totalSupply })), nextPageToken })).parts;
    const digest = chainDigest(page(["A", "B"], "t"), "g");
    expect(chainDigest(page(["A", "B"], "t", "2"), "g")).toBe(digest);
    expect(chainDigest(page(["A", "C"], "t"), "g")).not.toBe(digest);
    expect(chainDigest(page(["B", "A"], "t"), "g")).not.toBe(digest);
    expect(chainDigest(page(["A", "B"], "u"), "g")).not.toBe(digest);
    expect(chainDigest(page(["A", "B"], "t"), "h")).not.toBe(digest);
    // No concatenation of ids stands for another.
    expect(chainDigest(page(["AB"], "t"), "g")).not.toBe(digest);
    expect(chainDigest(page(['A","B'], "t"), "g")).not.toBe(digest);
  });
});
