import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { chainDigest, instrumentSlices, readPage } from "../../src/metadata/page.ts";
import { PageWalks } from "../../src/metadata/page-walks.ts";
import { sampleJson, sampleText } from "../sandbox/sample.ts";
import { jsonText } from "../spec/json-text.ts";

const SAMPLES = ["02-instruments.response.amulet.json", "02-instruments.response.page1-of-3.json"];

describe("a page", () => {
  test.each(SAMPLES)("is cut into its instruments byte for byte: %s", (name) => {
    const text = sampleText(name);
    const page = readPage(sampleJson(name));
    const slices = instrumentSlices(text, page);
    expect(slices.map(({ id }) => id)).toEqual(page.instruments.map(({ id }) => id));
    expect(slices.map((slice) => JSON.parse(slice.text) as unknown)).toEqual(page.instruments);
    for (const slice of slices) expect(text).toContain(slice.text);
  });

  test("is cut up however it is written", () => {
    const instrument = fc.record({ id: fc.string(), x: fc.jsonValue() });
    fc.assert(
      fc.property(jsonText(fc.record({ a: fc.jsonValue(), instruments: fc.array(instrument) })), ({ text }) => {
        const page = readPage(JSON.parse(text));
        const slices = instrumentSlices(text, page);
        expect(slices.map((slice) => JSON.parse(slice.text) as unknown)).toEqual(page.instruments);
      }),
    );
  });

  test("that gives its instruments twice is cut into none", () => {
    const text = '{"instruments":[{"id":"A"}],"instruments":[{"id":"B"}]}';
    expect(instrumentSlices(text, readPage(JSON.parse(text)))).toEqual([]);
  });

  test.each([
    [{}, undefined],
    [{ nextPageToken: null }, undefined],
    [{ nextPageToken: "" }, undefined],
    [{ nextPageToken: "t" }, "t"],
  ])("with %j goes on with %s", (fields, token) => {
    expect(readPage({ instruments: [], ...fields }).nextPageToken).toBe(token);
  });

  test("stands for the pages after it by its ids, its token and what was before it, not by supplies", () => {
    const page = (ids: string[], nextPageToken: string | undefined) => ({
      instruments: ids.map((id) => ({ id, totalSupply: String(ids.length) })),
      nextPageToken,
    });
    const digest = chainDigest(page(["A", "B"], "t"), "g");
    expect(chainDigest({ instruments: [{ id: "A" }, { id: "B" }], nextPageToken: "t" }, "g")).toBe(digest);
    expect(chainDigest(page(["A", "C"], "t"), "g")).not.toBe(digest);
    expect(chainDigest(page(["B", "A"], "t"), "g")).not.toBe(digest);
    expect(chainDigest(page(["A", "B"], "u"), "g")).not.toBe(digest);
    expect(chainDigest(page(["A", "B"], "t"), "h")).not.toBe(digest);
    // No concatenation of ids stands for another.
    expect(chainDigest(page(["AB"], "t"), "g")).not.toBe(digest);
    expect(chainDigest(page(['A","B'], "t"), "g")).not.toBe(digest);
  });
});

describe("the walk that a page belongs to", () => {
  test("is that of the page which issued its token", () => {
    const walks = new PageWalks();
    const first = walks.of(undefined);
    walks.follow(undefined, "5 t1");
    expect(walks.of("5 t1")).toBe(first);
    walks.follow("5 t1", "5 t2");
    expect(walks.of("5 t2")).toBe(first);
  });

  test("is its own for a token nobody issued, and a new one with every first page", () => {
    const walks = new PageWalks();
    const first = walks.of(undefined);
    walks.follow(undefined, "5 t1");
    const unknown = walks.of("5 x");
    expect(unknown).not.toBe(first);
    expect(walks.of("5 x")).toBe(unknown);
    const second = walks.of(undefined);
    expect(second).not.toBe(first);
    expect(walks.of("5 t1")).toBe(first);
  });
});
