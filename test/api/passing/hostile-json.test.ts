import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { DRAFT, ENDPOINTS, INFO, LIST } from "../../support/endpoints.ts";
import { NOTHING_KEPT, startGateway, type TestGateway } from "../../support/gateway.ts";
import type { Answer } from "../../support/http.ts";
import { JSON_CASES } from "../../support/json-cases.ts";
import { type Registry, startRegistry } from "../../support/registry.ts";
import { shareOf } from "../../support/thorough.ts";

/** Answers of our own are one JSON object with a string, whatever was sent to bring them about. */
const isOwn = ({ json, code }: Answer): boolean =>
  code !== undefined && String((json as { error: unknown }).error).startsWith("registry-gateway: ");

/** Endpoints that are alike but for their names have a share of the cases each. */
const POSTS = ENDPOINTS.filter(({ method }) => method === "POST").map(({ operation, path, kind }, place) => ({
  operation,
  path: path.replace("{id}", "00ab"),
  kind,
  place,
}));
const SHARES = 16;

/** A registry behind a gateway that keeps nothing, for all tests of a block. */
function useHostile(): () => { readonly amulet: Registry; readonly gateway: TestGateway } {
  let hostile: { amulet: Registry; gateway: TestGateway } | undefined;
  beforeAll(async () => {
    const amulet = await startRegistry("amulet");
    const gateway = await startGateway({ ...NOTHING_KEPT, upstreams: [amulet.upstream({ retries: 0 })] });
    expect((await gateway.get(INFO)).status).toBe(200);
    hostile = { amulet, gateway };
  });
  beforeEach(() => void hostile?.amulet.reset());
  return () => hostile!;
}

describe("a hostile body of a client passes on whole, or is refused with what is wrong:", () => {
  const hostile = useHostile();
  test.each(POSTS)("$operation", async ({ path, place }) => {
    const { amulet, gateway } = hostile();
    const odd: string[] = [];
    for (const { name, bytes, isJson } of shareOf(JSON_CASES, place, SHARES)) {
      if (bytes.length === 0) continue;
      amulet.calls.length = 0;
      const answer = await gateway.post(path, bytes);
      const arrived = amulet.of()[0]?.body.equals(bytes);
      const isRight =
        answer.status === 200
          ? arrived === true && isJson !== false
          : answer.status === 400 && isOwn(answer) && arrived === undefined;
      if (!isRight) odd.push(`${name}: ${answer.status} ${answer.text.slice(0, 200)}`);
    }
    expect(odd).toEqual([]);
  });

  test("what passes through, passes on as it is", async () => {
    const { amulet, gateway } = hostile();
    const odd: string[] = [];
    // An admin that is none is refused wherever it stands.
    const cases = JSON_CASES.filter(({ name }) => name !== "api_request_odd_admins");
    for (const { name, bytes } of shareOf(cases, 0, SHARES)) {
      const answer = await gateway.post(DRAFT, bytes, { "content-type": "application/octet-stream" });
      if (answer.status !== 200 || !amulet.last.body.equals(bytes)) odd.push(`${name}: ${answer.outcome}`);
    }
    expect(odd).toEqual([]);
  });
});

describe("a hostile answer of a registry passes on whole, or is 502:", () => {
  const hostile = useHostile();
  const GETS = [LIST, `${LIST}?pageSize=2&pageToken=x`, `${LIST}/A`].map((path) => ({ operation: path, path }));
  test.each(
    [...GETS, ...POSTS.map(({ operation, path }) => ({ operation, path }))].map((each, place) =>
      Object.assign(each, { place }),
    ),
  )("$operation", async ({ path, place }) => {
    const { amulet, gateway } = hostile();
    const odd: string[] = [];
    for (const { name, bytes, isJson } of shareOf(JSON_CASES, place, SHARES)) {
      amulet.on("*", { body: bytes });
      const answer = path.startsWith(LIST)
        ? await gateway.get(path)
        : await gateway.post(path, '{"choiceArguments":{}}');
      const isRight =
        answer.status === 200 ? isJson !== false && answer.bytes.equals(bytes) : answer.status === 502 && isOwn(answer);
      if (!isRight) odd.push(`${name}: ${answer.status} ${answer.text.slice(0, 200)}`);
    }
    expect(odd).toEqual([]);
  });

  test.each([400, 404])("a %i with one keeps its status", async (status) => {
    const { amulet, gateway } = hostile();
    const odd: string[] = [];
    for (const { name, bytes } of shareOf(JSON_CASES, status === 400 ? 0 : 1, SHARES)) {
      amulet.on("*", { status, body: bytes });
      const answer = await gateway.post(POSTS[0]!.path, '{"choiceArguments":{}}');
      const isKept = name === "api_error_object" && answer.bytes.equals(bytes);
      const isRight = answer.status === status ? isKept || isOwn(answer) : answer.status === 502 && status === 404;
      if (!isRight) odd.push(`${name}: ${answer.status} ${answer.text.slice(0, 200)}`);
    }
    expect(odd).toEqual([]);
  });

  test("as an info it proves nobody, and what was proved stays served", async () => {
    const { amulet, gateway } = hostile();
    for (const { bytes } of shareOf(JSON_CASES, 2, SHARES)) {
      amulet.on("info", { body: bytes });
      expect([200, 502, 503]).toContain((await gateway.get(INFO)).status);
    }
    expect(amulet.asked).toEqual([]);
  });
});

test("a hostile answer of one registry of several is JSON, 404 or 502, and the others are listed all the same", async () => {
  const [good, odd] = [await startRegistry("good"), await startRegistry("odd")];
  const gateway = await startGateway({ ...NOTHING_KEPT, upstreams: [good, odd.upstream({ retries: 0 })] });
  const paths = [
    LIST,
    `${LIST}?partial=true`,
    `${LIST}/A`,
    "/catalog/v1/instruments?partial=true",
    "/catalog/v1/registries",
  ];
  const wrong: string[] = [];
  for (const [at, { name, bytes }] of JSON_CASES.filter(({ name }) => /^(api_|i_|y_)/.test(name)).entries()) {
    odd.on("instruments", { body: bytes }).on("instrument", { body: bytes });
    const path = paths[at % paths.length]!;
    const answer = await gateway.get(path);
    if (![200, 404, 502].includes(answer.status))
      wrong.push(`${path} ${name}: ${answer.status} ${answer.text.slice(0, 200)}`);
    if (answer.status === 200) JSON.parse(answer.text);
    else if (!isOwn(answer)) wrong.push(`${path} ${name}: ${answer.text.slice(0, 200)}`);
    if (path.includes("partial") && !answer.text.includes("GOOD-00000")) wrong.push(`${path} ${name}: good is missing`);
  }
  expect(wrong).toEqual([]);
});
