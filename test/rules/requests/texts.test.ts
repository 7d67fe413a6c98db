import { describe, expect, test } from "vitest";
import { adminsOfPassedBody, adminsOfRequest } from "../../../src/bodies/request.ts";
import { GatewayError } from "../../../src/errors.ts";
import { isPartial, pageQueryOf, queryValues } from "../../../src/requests/query.ts";
import { checkPath } from "../../../src/requests/url.ts";
import { OPERATION_RECORDS } from "../../../src/spec/operations.ts";
import { partyOf } from "../../support/registry.ts";

/** What a function gives, or the code of the error that it throws. */
function outcome(give: () => unknown): unknown {
  try {
    return give();
  } catch (error) {
    if (error instanceof GatewayError) return error.code;
    throw error;
  }
}

describe("a query's page", () => {
  test.each<[string, unknown]>([
    ["/x", {}],
    ["/x?", {}],
    ["/x?a=b&pagesize=2", {}],
    ["/x?pageSize=25", { pageSize: "25" }],
    ["/x?pageSize=0025&pageToken=a", { pageSize: "25", pageToken: "a" }],
    ["/x?page%53ize=%32", { pageSize: "2" }],
    ["/x?pageToken=a%2fb", { pageToken: "a%2Fb" }],
    ["/x?pageToken=a/b", { pageToken: "a%2Fb" }],
    ["/x?pageToken=a+b%2B", { pageToken: "a+b%2B" }],
    ["/x?pageToken=a=b", { pageToken: "a%3Db" }],
    ["/x?pageSize=2147483647", { pageSize: "2147483647" }],
    ...["0", "-1", "1.5", "1e3", "ten", "2147483648", "99999999999", "%20", ""].map(
      (size) => [`/x?pageSize=${size}`, "invalid_query"] as [string, unknown],
    ),
    ...["pageSize", "pageToken=", "pageToken=%ff", "pageToken=a&pageToken=a"].map(
      (query) => [`/x?${query}`, "invalid_query"] as [string, unknown],
    ),
  ])("%s", (url, page) => expect(outcome(() => pageQueryOf(url))).toEqual(page));

  test("may be partial", () => {
    const of = (query: string): unknown => outcome(() => isPartial(`/x?${query}`));
    expect(["", "partial=true", "partial=false", "partial=1", "partial="].map(of)).toEqual([
      false,
      true,
      false,
      "invalid_query",
      "invalid_query",
    ]);
  });

  test("names that every object has are no parameters", () => {
    expect(queryValues("/x?__proto__=a&constructor=b", ["query"])).toEqual({});
  });
});

const A = partyOf("amulet");
const factory = OPERATION_RECORDS.transfer_factory;
const context = OPERATION_RECORDS.transfer_accept;
const expecting = JSON.stringify({ choiceArguments: { expectedAdmin: A } });

describe("a request's body", () => {
  test.each<[string, unknown]>([
    [expecting, [{ admin: A, at: "choiceArguments.expectedAdmin" }]],
    ['{"choiceArguments":{}}', []],
    ["", "malformed_body"],
    ["{", "malformed_body"],
    [`\ufeff${expecting}`, "malformed_body"],
    ["[]", "invalid_request"],
    ["{}", "invalid_request"],
    ['{"choiceArguments":{"expectedAdmin":5}}', "admin_ambiguous"],
    ['{"choiceArguments":{"expectedAdmin":"a","expectedAdmin":"a"}}', "admin_ambiguous"],
  ])("of a factory: %s", (body, admins) => {
    expect(outcome(() => adminsOfRequest(Buffer.from(body), factory))).toEqual(admins);
  });

  test("of a context may be empty, and names nobody", () => {
    for (const body of ["", "{}", expecting]) expect(adminsOfRequest(Buffer.from(body), context)).toEqual([]);
    expect(outcome(() => adminsOfRequest(Buffer.from([0xff]), context))).toBe("malformed_body");
  });

  test.each<[string, unknown]>([
    [expecting, [{ admin: A, at: "choiceArguments.expectedAdmin" }]],
    [`\ufeff${expecting}`, [{ admin: A, at: "choiceArguments.expectedAdmin" }]],
    ["", []],
    ["no JSON", []],
    ["[1]", []],
    ['{"choiceArguments":[]}', []],
    ['{"choiceArguments":{"expectedAdmin":"a","expectedAdmin":"a"}}', "admin_ambiguous"],
  ])("that passes through: %s", (body, admins) => {
    expect(outcome(() => adminsOfPassedBody(Buffer.from(body)))).toEqual(admins);
  });
});

test.each<[string, unknown]>([
  ["/", undefined],
  ["/registry/x?a=..", undefined],
  ["/%3A%3a/a.b/..c/d..", undefined],
  ["/a//b", "malformed_path"],
  ["/a/%2e", "malformed_path"],
  ["/a/%252e%252e", "malformed_path"],
  ["/a/%2525252e", "malformed_path"],
  ["/a/%252525252e", undefined],
  ["/a/x%5c..%5c", "malformed_path"],
  ["/a/..;x", "malformed_path"],
  ["/a/%1f", "malformed_path"],
  ["/a/%e0%a4%a", "malformed_path"],
  ["/a/#", "malformed_path"],
])("the path of %s: %s", (url, code) => expect(outcome(() => checkPath(url))).toBe(code));
