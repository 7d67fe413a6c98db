import { describe, expect, test } from "vitest";
import { parseJson } from "../../src/bodies/request.ts";
import type { GatewayError } from "../../src/errors.ts";
import { checkBodyHeaders, checkContentCoding } from "../../src/requests/request-body.ts";

function statusOf(run: () => unknown): number | undefined {
  try {
    run();
    return undefined;
  } catch (error) {
    return (error as GatewayError).status;
  }
}

describe("the media type of a body", () => {
  test.each([
    ["application/json", undefined],
    ["Application/JSON", undefined],
    ["application/json;charset=utf-8", undefined],
    ["application/json ; charset=UTF-8", undefined],
    ['application/json; charset="utf8"', undefined],
    ["application/json; v=1", undefined],
    ["application/json;", undefined],
    ['application/json; profile="a b"; charset=utf-8; v=1', undefined],
    ["application/json; x-charset=utf-16", undefined],
    ["application/json; charset=iso-8859-1", 415],
    ["application/json; charset=utf-16", 415],
    ["application/json; charset=utf-8; charset=utf-16", 415],
    ["application/json; charset=utf-8; CHARSET = shift_jis", 415],
    ["application/json; charset=utf-8; charset=utf-8", 415],
    ["application/json; charset=utf-8, text/plain", 415],
    ["application/json; charset=utf-8x", 415],
    ["application/json; charset*=shift_jis", 415],
    ["application/json; charset*0=shift_; charset*1=jis", 415],
    ["application/json;\u00a0charset=utf-16", 415],
    ['application/json; charset="utf-8', 415],
    ['application/json; x="a;charset=utf-8"; charset=shift_jis', 415],
    ['application/json; x="a;charset=utf-8"', 415],
    ['application/json; x="a;b"', 415],
    ['application/json; x="a\\"; charset=utf-16; y="', 415],
    ["application/jsonx", 415],
    ["application/json-patch+json", 415],
    ["application/ld+json", 415],
    ["text/json", 415],
    ["text/plain", 415],
    ["application/x-www-form-urlencoded", 415],
    ["text/plain, application/json", 415],
    ["", 415],
    [undefined, 415],
  ])("%s: %s", (type, status) => {
    expect(statusOf(() => checkBodyHeaders(type === undefined ? {} : { "content-type": type }))).toBe(status);
  });

  test.each([
    ["identity", undefined],
    [" Identity ", undefined],
    ["gzip", 415],
    ["br", 415],
    ["identity, gzip", 415],
    ["", 415],
    [undefined, undefined],
  ])("content-encoding %s: %s", (coding, status) => {
    expect(statusOf(() => checkContentCoding(coding === undefined ? {} : { "content-encoding": coding }))).toBe(status);
  });
});

describe("the text of a body", () => {
  test.each(["{}", " {} \r\n", '{"a":1,"a":2}', "[]", '"x"', "null", "1e400", '{"constructor":{"prototype":1}}'])(
    "%j is JSON",
    (text) => {
      expect(parseJson(Buffer.from(text))).toEqual({ text, json: JSON.parse(text) as unknown });
    },
  );

  test.each([
    ["trailing garbage", "{} x"],
    ["two values", "{}{}"],
    ["a comment", "{} // x"],
    ["a trailing comma", '{"a":1,}'],
    ["single quotes", "{'a':1}"],
    ["an unquoted key", "{a:1}"],
    ["NaN", '{"a":NaN}'],
    ["a leading zero", '{"a":01}'],
    ["a raw line break in a string", '{"a":"\n"}'],
    ["a cut-off text", '{"a":'],
    ["a vertical tab as space", "\v{}"],
    ["a no-break space", "\u00a0{}"],
    ["nothing", ""],
    ["white space alone", "  "],
    ["a byte order mark", "\ufeff{}"],
    ["a key __proto__", '{"__proto__":{"a":1}}'],
    ["a key __proto__ deep within", '{"a":[{"b":{"__proto__":null}}]}'],
    ["an escaped key __proto__", '{"\\u005f_proto__":{}}'],
  ])("%s is refused", (_what, text) => {
    expect(parseJson(Buffer.from(text))).toMatch(/^the body /);
  });

  test.each([
    ["a lone continuation byte", [0x22, 0x80, 0x22]],
    ["an overlong slash", [0x22, 0xc0, 0xaf, 0x22]],
    ["a surrogate", [0x22, 0xed, 0xa0, 0x80, 0x22]],
    ["latin1", [0x22, 0xe9, 0x22]],
    ["UTF-16", [0xff, 0xfe, 0x7b, 0x00]],
    ["a byte order mark", [0xef, 0xbb, 0xbf, 0x7b, 0x7d]],
  ])("bytes that are no JSON in UTF-8, %s, are refused", (_what, bytes) => {
    expect(parseJson(Buffer.from(bytes))).toMatch(/^the body /);
  });

  test("nesting does not end the process, however deep", () => {
    const depth = 500_000;
    const text = `${"[".repeat(depth)}${"]".repeat(depth)}`;
    expect(parseJson(Buffer.from(text))).toMatchObject({ text });
    expect(parseJson(Buffer.from(`{"a":${text},"b":{"__proto__":1}}`))).toBe("the body has a key __proto__");
  });
});
