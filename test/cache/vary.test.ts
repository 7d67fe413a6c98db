import type { IncomingHttpHeaders } from "node:http";
import { describe, expect, test } from "vitest";
import type { CachePolicy } from "../../src/cache/resource.ts";
import { forwardedFields, selectingNames, variantOf, varyNames } from "../../src/cache/rfc/request-fields.ts";
import { CacheFixture, type Script } from "../support/cache-fixture.ts";
import { policy } from "../support/cache-policy.ts";

describe("Vary", () => {
  test.for([
    ["absent", [], []],
    ["one name", ["vary", "Foo"], ["foo"]],
    ["several, sorted", ["vary", "Foo, Bar"], ["bar", "foo"]],
    ["several lines", ["vary", "Foo", "vary", "Bar"], ["bar", "foo"]],
    ["repeated in another case", ["vary", "Foo, FOO"], ["foo"]],
    ["empty", ["vary", ""], []],
    ["*", ["vary", "*"], "*"],
    ["*, *", ["vary", "*, *"], "*"],
    ["* on two lines", ["vary", "*", "vary", "*"], "*"],
    [", *", ["vary", ", *"], "*"],
    ["* behind an empty line", ["vary", "", "vary", "*"], "*"],
    ["*, Foo", ["vary", "*, Foo"], "*"],
    ["Foo, *", ["vary", "Foo, *"], "*"],
  ] as const)("%s", ([, fields, names]) => {
    expect(varyNames(fields)).toEqual(names);
  });
});

test.for<[string, Partial<CachePolicy>, IncomingHttpHeaders]>([
  ["X-User", { forwardRequestHeaders: "*" }, { "x-user": "bob" }],
  ["Authorization", { sharedAuthorization: true }, { authorization: "Bearer alice" }],
])(
  "an entry that another configuration stored is held against all that its Vary names: %s",
  async ([vary, changes, headers]) => {
    const fields = ["cache-control", "public, max-age=600", "vary", vary];
    const script: Script = ({ headers: asked }) => ({ fields, body: JSON.stringify(asked) });
    const before = new CacheFixture({ script });
    await before.get();
    const { memory, coordinator, clock } = before;
    const after = new CacheFixture({ policy: changes, script, memory, coordinator, clock });
    expect((await after.get({ headers })).outcome).toBe("miss");
  },
);

describe("what selects a variant", () => {
  test.for([
    ["nothing is forwarded: nothing", [], ["foo"], []],
    ["listed fields, always", ["Accept-Language", "X-A"], [], ["accept-language", "x-a"]],
    ["never what Vary names besides", ["x-a"], ["x-b"], ["x-a"]],
    ["with *: what Vary names", "*", ["foo", "bar"], ["bar", "foo"]],
    ["with *: not what the gateway sets itself", "*", ["accept-encoding", "host", "foo"], ["foo"]],
    ["not Authorization while it stops here", "*", ["authorization"], []],
    ["hop-by-hop fields never", ["te", "x-a"], [], ["x-a"]],
  ] as const)("%s", ([, forwardRequestHeaders, vary, names]) => {
    expect(selectingNames(policy({ forwardRequestHeaders }), vary)).toEqual(names);
  });

  test("a value of 15 kB selects by its digest: it is not read on every hit, and matches itself alone", () => {
    const long = Array.from({ length: 2_000 }, (_, i) => `l${i};q=0.5`).join(",");
    const select = (value: string | undefined) => variantOf(["accept-language"], { "accept-language": value });
    expect(select(long).length).toBeLessThan(100);
    expect(select(long)).toBe(select(long));
    expect(select(long)).not.toBe(select(`${long} `));
    // Nobody can write the digest of another's value.
    expect(select(select(long).trim().slice("accept-language;".length))).not.toBe(select(long));
  });

  test("Authorization selects where it is forwarded", () => {
    expect(
      selectingNames(policy({ forwardRequestHeaders: "*", sharedAuthorization: true }), ["authorization"]),
    ).toEqual(["authorization"]);
  });
});

describe("two requests mean the same variant", () => {
  const same = (name: string, a: string | undefined, b: string | undefined): boolean =>
    variantOf([name], { [name]: a }) === variantOf([name], { [name]: b });
  test.for([
    ["foo", "1", "1", true],
    ["foo", "1", "2", false],
    ["foo", "a", "A", false],
    ["foo", "1,2", " 1, 2 ", true],
    ["foo", "1, 2", "2, 1", false],
    ["foo", '"a, b"', '"a,b"', false],
    ["foo", undefined, undefined, true],
    ["foo", "1", undefined, false],
    ["foo", "", undefined, false],
    ["accept-language", "en, de", "de, en", true],
    ["accept-language", "en,de", "EN , DE", true],
    ["accept-language", "en;q=0.8, de", "DE, en ; Q=0.80", true],
    // A registry that weighs what it has, too, may choose another one.
    ["accept-language", "en;q=0.8, de", "de, en;q=0.5", false],
    ["accept-language", "en;q=0.8, de", "en, de;q=0.8", false],
    ["accept-language", "en, de;q=0", "en", false],
    ["accept-language", "en;q=1.0", "en", true],
    ["accept-language", "en, fr;q=0.5, de;q=0.5", "fr;q=0.5, de;q=0.5, en", true],
    ["accept-language", "en, fr;q=0.5, de;q=0.5", "en, de;q=0.3, fr;q=0.3", false],
    // Registries read what is no weight in their own way.
    ["accept-language", "de;q=0.3333, en;q=0.6667", "de, en", false],
    ["accept-language", "de;q=0.3333, en", "de;q=0.6667, en", false],
    ["accept-language", "de;q=9", "de", false],
    ["accept-language", "de;q=0.5;q=0.9", "de;q=0.5", false],
    ["accept-language", "de;q=", "de", false],
    ["accept", "text/html;level=1;q=0.5, application/json", "application/json, text/HTML;Level=1;q=0.500", true],
    ["accept", "application/json;profile=A", "application/json;profile=a", false],
    ["accept", 'application/json;profile="a; b"', 'application/json;profile="a;b"', false],
    ["accept", "text/html;level=1", "text/html;level=2", false],
    ["accept-charset", "UTF-8", "utf-8", true],
  ] as const)("%s: %j and %j: %s", ([name, a, b, equal]) => {
    expect(same(name, a, b)).toBe(equal);
  });

  test("what the client's Connection names is absent: it did not go upstream", () => {
    const nominated = { foo: "1", connection: "close, Foo" };
    expect(forwardedFields(policy({ forwardRequestHeaders: "*" }), nominated)).toEqual([]);
    expect(variantOf(["foo"], nominated)).toBe(variantOf(["foo"], {}));
    expect(variantOf(["foo"], { foo: "1", connection: "close" })).not.toBe(variantOf(["foo"], {}));
  });

  test.each(["constructor", "__proto__", "toString", "hasOwnProperty"])("%s is a name like others", (name) => {
    const names = selectingNames(policy({ forwardRequestHeaders: "*" }), varyNames(["vary", name]) as string[]);
    expect(variantOf(names, {})).toBe(`${name.toLowerCase()}\n`);
  });

  test("a value cannot pretend to be another field", () => {
    expect(variantOf(["a", "b"], { a: "1\nb:2" })).not.toBe(variantOf(["a", "b"], { a: "1", b: "2" }));
  });
});

test("exactly the forwardable fields go upstream", () => {
  const headers = {
    accept: "application/json",
    authorization: "Bearer secret",
    connection: "keep-alive, x-hop",
    "if-none-match": '"a"',
    range: "bytes=0-1",
    "x-a": "1",
    "x-hop": "2",
  };
  expect(forwardedFields(policy(), headers)).toEqual([]);
  expect(forwardedFields(policy({ forwardRequestHeaders: ["X-A"] }), headers)).toEqual(["x-a", "1"]);
  expect(forwardedFields(policy({ forwardRequestHeaders: "*" }), headers)).toEqual([
    "accept",
    "application/json",
    "x-a",
    "1",
  ]);
  expect(forwardedFields(policy({ sharedAuthorization: true }), headers)).toEqual(["authorization", "Bearer secret"]);
});
