import { describe, expect, test } from "vitest";
import { CODE, FLAG, FRAME, frame, headerBlock, REQUEST } from "../support/http2.ts";
import {
  ANSWERED,
  block,
  connectionError,
  continuation,
  data,
  ENDED_BY_NODE,
  expectOutcome,
  headers,
  NEVER,
  NEVER_WITH_BODY,
  shakeHands,
  streamError,
  testEach,
  TEXT,
  useListener,
  WITH_BODY,
} from "../support/http2-conformance.ts";

const listener = useListener();

/** The block of a GET with these bytes before and behind its fields. */
function codedBlock(behind: string, before = ""): Buffer {
  return Buffer.concat([Buffer.from(before, "hex"), block(), Buffer.from(behind, "hex")]);
}

function coded(behind: string, before = "", stream = 1): Buffer {
  return frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, stream, codedBlock(behind, before));
}

/** "custom-key" and "custom-value", plain and by Huffman's code, as RFC 7541 has them in §C.2.1 and §C.4.3. */
const KEY = "0a637573746f6d2d6b6579";
const KEY_HUFFMAN = "8825a849e95ba97d7f";
const VALUE = "0c637573746f6d2d76616c7565";
const VALUE_HUFFMAN = "8925a849e95bb8e8b4bf";

describe("a request (RFC 9113 §8.1)", () => {
  const open = headers(1, { ...WITH_BODY, trailer: "x-test" }, FLAG.endHeaders);
  const trailers = frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, 1, headerBlock([["x-test", "ok"]]));
  testEach(listener, [
    ["of GET is answered", [headers(1)], ANSWERED],
    ["of HEAD is", [headers(1, { ":method": "HEAD" })], ANSWERED],
    ["of POST is", [headers(1, WITH_BODY, FLAG.endHeaders), data(1)], ANSWERED],
    ["with trailers is", [open, data(1, 0), trailers], ANSWERED],
  ]);

  test("is answered with its text, to HEAD without", async () => {
    const client = await shakeHands(listener.url);
    client.send(headers(1), headers(3, { ":method": "HEAD" }));
    expect([await client.endOf(1), await client.endOf(3)]).toEqual(["answered", "answered"]);
    const bodies = client.frames.filter(({ type }) => type === FRAME.data);
    expect(bodies.map(({ stream, payload }) => [stream, payload.toString()])).toEqual([[1, TEXT]]);
  });
});

describe("a malformed request (RFC 9113 §8.1.1, §8.2, §8.3): one with", () => {
  const whole = (fields: readonly (readonly [string, string])[]) =>
    frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, 1, headerBlock(fields));
  const more = (name: string, value: string) => [whole([...REQUEST, [name, value]])];
  const without = (name: string) => [headers(1, { [name]: undefined })];
  const open = headers(1, NEVER_WITH_BODY, FLAG.endHeaders);
  const length = (value: string) => headers(1, { ...NEVER_WITH_BODY, "content-length": value }, FLAG.endHeaders);
  const second = (name: string, value: string, flags = 0) =>
    frame(FRAME.headers, FLAG.endHeaders | flags, 1, headerBlock([[name, value]]));
  testEach(listener, [
    ["second HEADERS that do not end it", [open, data(1, 0), second("x-test", "ok")], streamError("PROTOCOL_ERROR")],
    [
      "a pseudo-field in trailers",
      [open, data(1, 0), second(":method", "POST", FLAG.endStream)],
      streamError("PROTOCOL_ERROR"),
    ],
    ["one in such that do not end it", [open, data(1, 0), second(":method", "POST")], streamError("PROTOCOL_ERROR")],
    ["a body shorter than it says", [length("5"), data(1)], streamError("PROTOCOL_ERROR")],
    ["a body longer than it says", [length("1"), data(1)], ENDED_BY_NODE],
    ["one that is so in several frames", [length("1"), data(1, 0), data(1)], ENDED_BY_NODE],
    ["a name in upper case in trailers", [open, second("X-TEST", "ok", FLAG.endStream)], streamError("PROTOCOL_ERROR")],
    [
      "a field of the connection in trailers",
      [open, second("connection", "close", FLAG.endStream)],
      streamError("PROTOCOL_ERROR"),
    ],
  ]);

  test.each([
    ["a name in upper case", more("X-TEST", "ok")],
    ["an unknown pseudo-field", more(":test", "ok")],
    ["a pseudo-field of answers", more(":status", "200")],
    ["a pseudo-field behind others", [whole([...REQUEST.slice(1), ["x-test", "ok"], REQUEST[0]])]],
    ["a field of the connection", more("connection", "keep-alive")],
    ["keep-alive", more("keep-alive", "timeout=5")],
    ["a proxy's connection", more("proxy-connection", "keep-alive")],
    ["a transfer coding", more("transfer-encoding", "chunked")],
    ["an upgrade", more("upgrade", "h2c")],
    ["TE that is more than trailers", more("te", "trailers, deflate")],
    ["an empty path", [headers(1, { ":path": "" })]],
    ["no method", without(":method")],
    ["no scheme", without(":scheme")],
    ["no path", without(":path")],
    ["neither authority nor host", without(":authority")],
    ["two methods", more(":method", "GET")],
    ["two schemes", more(":scheme", "https")],
    ["two paths", more(":path", "/")],
    ["two authorities", more(":authority", "localhost")],
    ["no field at all", [whole([])]],
    ["an empty method", [headers(1, { ":method": "" })]],
    ["a method that is no token", [headers(1, { ":method": "GE T" })]],
    ["an empty scheme", [headers(1, { ":scheme": "" })]],
    ["an empty authority", [headers(1, { ":authority": "" })]],
    ["a blank in its authority", [headers(1, { ":authority": "local host" })]],
    ["a path that does not begin with a slash", [headers(1, { ":path": "test" })]],
    ["a path that is a whole URL", [headers(1, { ":path": "https://localhost/" })]],
    ["a path of all, but not of OPTIONS", [headers(1, { ":path": "*" })]],
    ["a blank in its path", [headers(1, { ":path": "/a b" })]],
    ["a line break in its path", [headers(1, { ":path": "/a\nb" })]],
    ["CONNECT and a path", [whole([[":method", "CONNECT"], REQUEST[2], REQUEST[3]])]],
    ["CONNECT and a scheme", [whole([[":method", "CONNECT"], REQUEST[2], REQUEST[1]])]],
    ["CONNECT and no authority", [whole([[":method", "CONNECT"]])]],
    ["an extended CONNECT", [whole([[":method", "CONNECT"], [":protocol", "websocket"], ...REQUEST.slice(1)])]],
    ["two lengths", [whole([...REQUEST, ["content-length", "0"], ["content-length", "1"]])]],
    ["one length, twice", [whole([...REQUEST, ["content-length", "0"], ["content-length", "0"]])]],
    ["a length without a body", more("content-length", "5")],
    ["a length that is no number", [length("+4"), data(1)]],
    ["a length that is a list", [length("4, 4"), data(1)]],
    ["a length that is empty", [length(""), data(1)]],
    ["a length beyond all numbers", [length("99999999999999999999"), data(1)]],
  ])("%s never comes through", async (_what, sent) => {
    const client = await shakeHands(listener.url);
    const before = listener.seen.requests;
    client.send(...sent);
    await expectOutcome(client, streamError("PROTOCOL_ERROR"));
    expect(listener.seen.requests).toBe(before);
  });

  test.each([
    ["TE that is trailers alone", more("te", "trailers")],
    ["a path of all, of OPTIONS,", [headers(1, { ":method": "OPTIONS", ":path": "*" })]],
    ["a body as long as it says", [headers(1, { ...WITH_BODY, "content-length": "4" }, FLAG.endHeaders), data(1)]],
  ])("%s is none", async (_what, sent) => {
    const client = await shakeHands(listener.url);
    client.send(...sent);
    await expectOutcome(client, ANSWERED);
  });

  // RFC 9113 calls these malformed as well; nghttp2 leaves the field out, and no option of Node's tells of it.
  test.each([
    ["a line break in a value", ["a", "b\r\nc: d"]],
    ["a zero byte in a value", ["a", "b\0"]],
    ["a control character in a value", ["a", "b\x01c"]],
    ["a space in a name", ["a b", "c"]],
    ["a colon in a name", ["a:b", "c"]],
    ["a control character in a name", ["a\x7f", "c"]],
    ["a byte beyond ASCII in a name", ["a\x80", "c"]],
    ["no name", ["", "c"]],
  ] as const)("%s goes on without that field", async (_what, field) => {
    const client = await shakeHands(listener.url);
    client.send(whole([...REQUEST, field, ["x-test", "ok"]]));
    await expectOutcome(client, ANSWERED);
    expect(listener.seen.fields).toEqual(["host", "localhost", "x-test", "ok"]);
  });
});

describe("a field (RFC 7541 §6) is read", () => {
  const userAgent = ["user-agent", "custom-value"];
  const custom = ["custom-key", "custom-value"];
  test.each([
    ["from the fixed table", "ba", ["user-agent", ""]],
    ["with an indexed name, to be indexed", `7a${VALUE}`, userAgent],
    ["the same by Huffman's code", `7a${VALUE_HUFFMAN}`, userAgent],
    ["with a new name, to be indexed", `40${KEY}${VALUE}`, custom],
    ["the same by Huffman's code", `40${KEY_HUFFMAN}${VALUE_HUFFMAN}`, custom],
    ["with an indexed name, not to be indexed", `0f2b${VALUE}`, userAgent],
    ["the same by Huffman's code", `0f2b${VALUE_HUFFMAN}`, userAgent],
    ["with a new name, not to be indexed", `00${KEY}${VALUE}`, custom],
    ["the same by Huffman's code", `00${KEY_HUFFMAN}${VALUE_HUFFMAN}`, custom],
    ["with an indexed name, never to be indexed", `1f2b${VALUE}`, userAgent],
    ["the same by Huffman's code", `1f2b${VALUE_HUFFMAN}`, userAgent],
    ["with a new name, never to be indexed", `10${KEY}${VALUE}`, custom],
    ["the same by Huffman's code", `10${KEY_HUFFMAN}${VALUE_HUFFMAN}`, custom],
    ["that was indexed just before", `40${KEY}${VALUE}be`, [...custom, ...custom]],
  ])("%s", async (_what, field, seen) => {
    const client = await shakeHands(listener.url);
    client.send(coded(field));
    await expectOutcome(client, ANSWERED);
    expect(listener.seen.fields).toEqual(["host", "localhost", ...seen]);
  });
});

describe("the table of fields (RFC 7541 §2.3.3, §4.2, §5.2, §6)", () => {
  testEach(listener, [
    ["may be emptied", [coded("", "20")], ANSWERED],
    ["may be emptied and made anew", [coded("", "203fe11f")], ANSWERED],
    ["has no entry behind its last one", [coded("be")], connectionError("COMPRESSION_ERROR")],
    ["has no name behind its last one", [coded("7e00")], connectionError("COMPRESSION_ERROR")],
    ["has no entry 0", [coded("80")], connectionError("COMPRESSION_ERROR")],
    ["does not change behind a field", [coded("21")], connectionError("COMPRESSION_ERROR")],
    ["is not larger than the settings say", [coded("", "3fe21f")], connectionError("COMPRESSION_ERROR")],
    [
      "has no padding of more than seven bits",
      [coded(`00${KEY}8925a849e95ba97d7fff`)],
      connectionError("COMPRESSION_ERROR"),
    ],
    ["has no padding of zeros", [coded(`00${KEY}8825a849e95ba97d00`)], connectionError("COMPRESSION_ERROR")],
    ["has no end of a string within it", [coded(`00${KEY}84ffffffff`)], connectionError("COMPRESSION_ERROR")],
    ["has no index beyond all numbers", [coded("ffffffffffffffffff7f")], connectionError("COMPRESSION_ERROR")],
    ["has no string beyond all lengths", [coded("007fffffffffffffffff7f")], connectionError("COMPRESSION_ERROR")],
    ["is not read where a number is cut off", [coded("ff80")], connectionError("COMPRESSION_ERROR")],
    ["is not read where a name is", [coded(`40${KEY.slice(0, 8)}`)], connectionError("COMPRESSION_ERROR")],
    ["is not read where a value is missing", [coded(`40${KEY}`)], connectionError("COMPRESSION_ERROR")],
  ]);
});

describe("an entry of that table (RFC 7541 §2.3.2, §4.4; RFC 9113 §4.3)", () => {
  const entry = `40${KEY}${VALUE}`;
  // There is room for 4096 bytes.
  const large = `4001617fd91c${"76".repeat(3_800)}`;
  const tooLarge = `4001617fe91f${"76".repeat(4_200)}`;
  const alone = frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, 1, Buffer.from(entry, "hex"));

  test.each([
    ["is kept for the next request", [coded(entry), coded("be", "", 3)]],
    ["is kept of a request that is malformed", [alone, coded("be", "", 3)]],
    ["is kept of one that is ignored", [headers(5, NEVER), coded(entry, "", 3), coded("be", "", 7)]],
    [
      "is kept of one with too many fields",
      [
        frame(FRAME.headers, FLAG.endStream, 1, codedBlock(entry)),
        ...Array.from({ length: 5 }, () => continuation(1, 0, "x-more", 16_000)),
        continuation(1, FLAG.endHeaders),
        coded("be", "", 3),
      ],
    ],
    ["is kept of trailers", [headers(1, WITH_BODY, FLAG.endHeaders), alone, coded("be", "", 3)]],
    ["comes after newer ones", [coded(`${entry}400161016b`), coded("bf", "", 3)]],
    ["stays while there is room", [coded(`${entry}${large}`), coded("bf", "", 3)]],
  ])("%s", async (_what, sent) => {
    const client = await shakeHands(listener.url);
    client.send(...sent);
    expect(await client.endOf(sent.at(-1)!.readUInt32BE(5))).toBe("answered");
    expect(listener.seen.fields).toEqual(["host", "localhost", "custom-key", "custom-value"]);
  });

  test.each([
    ["makes room for newer ones", [coded(`${entry}${large}${large}`), coded("bf", "", 3)]],
    ["is forgotten for one larger than the table", [coded(`${entry}${tooLarge}`), coded("be", "", 3)]],
    ["is forgotten when the table is emptied", [coded(entry), coded("be", "203fe11f", 3)]],
  ])("%s", async (_what, sent) => {
    const client = await shakeHands(listener.url);
    client.send(...sent);
    expect(await client.goaway()).toBe(CODE.compression);
    expect(await client.endOf(3)).toBeUndefined();
  });
});
