import * as fc from "fast-check";
import { expect, test } from "vitest";
import { instrumentBytes, readPage } from "../../../src/bodies/page.ts";

const read = (text: string) => readPage(Buffer.from(text), JSON.parse(text.replace(/^\ufeff/, "")) as unknown);

function cut(text: string) {
  const page = read(text);
  if (typeof page === "string") throw new Error(page);
  return {
    texts: page.instruments.map((each) => instrumentBytes(page, each).toString()),
    ids: page.instruments.map(({ id }) => id),
    token: page.nextPageToken,
  };
}

test.each([
  {
    name: "with space and order of its own",
    text: ' { "nextPageToken" : "b" , "instruments" : [ {"id":"a" , "n":1.0} , {"id":"b"} ] } ',
    texts: ['{"id":"a" , "n":1.0}', '{"id":"b"}'],
    token: "b",
  },
  {
    name: "behind a byte order mark",
    text: '\ufeff{"instruments":[{"id":"ä"},{"id":"b"}]}',
    texts: ['{"id":"ä"}', '{"id":"b"}'],
    token: undefined,
  },
  { name: "with an empty token", text: '{"instruments":[],"nextPageToken":""}', texts: [], token: undefined },
  { name: "with a null token", text: '{"instruments":[],"nextPageToken":null}', texts: [], token: undefined },
  {
    name: "that lists one twice",
    text: '{"instruments":[{"id":"a","n":1},{"id":"a","n":2}]}',
    texts: ['{"id":"a","n":1}'],
    token: undefined,
  },
])("a page $name is cut by bytes", ({ text, texts, token }) => {
  expect(cut(text)).toMatchObject({ texts, token });
});

test("each instrument's bytes are what the registry wrote, whatever characters stand before", () => {
  const instrument = fc.record({ id: fc.string({ unit: "grapheme" }), more: fc.jsonValue() });
  fc.assert(
    fc.property(fc.uniqueArray(instrument, { selector: ({ id }) => id }), fc.boolean(), (instruments, isSpaced) => {
      const text = JSON.stringify({ before: '€{["', instruments, after: 1 }, undefined, isSpaced ? 2 : 0);
      const { texts, ids } = cut(text);
      expect(texts.map((each) => JSON.parse(each) as unknown)).toEqual(JSON.parse(JSON.stringify(instruments)));
      expect(ids).toEqual(instruments.map(({ id }) => id));
    }),
  );
});

test.each([
  ["[]", /no list/],
  ['{"instruments":{}}', /no list/],
  ['{"instruments":[{"name":"x"}]}', /without an id/],
  ['{"instruments":[null]}', /without an id/],
  ['{"instruments":[],"instruments":[]}', /twice/],
  ['{"instruments":[],"nextPageToken":"a","nextPageToken":"b"}', /twice/],
  ['{"instruments":[],"nextPageToken":7}', /no string/],
  ['{"instruments":[],"nextPageToken":"\\ud800"}', /no text/],
  [JSON.stringify({ instruments: [], nextPageToken: "x".repeat(5_000) }), /4096 characters/],
])("%s is no page", (text, problem) => {
  expect(read(text)).toMatch(problem);
});
